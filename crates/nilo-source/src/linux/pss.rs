//! When to pay for PSS: a budget of CPU time, and the schedule of each process inside it.
//!
//! `smaps_rollup` walks every page table of the target and holds its mmap lock meanwhile: 0.35 ms for 1 GiB in huge pages, 190 ms for 8 GiB in small ones.
//! So its price is measured on each read, in CPU time of our own thread, and the next read waits until the budget has earned it back.

use crate::linux::cpu_clock::own_thread_nanos;
use crate::linux::proc_folder::ProcFolder;
use crate::linux::stat::{Rollup, parse_rollup};

use crate::descriptors::read_record;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The age at which a process gets its first PSS: imports and forks mostly done, short helpers gone.
const FIRST_AT_NANOS: u64 = NANOS_PER_SEC / 2;
/// No process is measured more often than this, however cheap.
const EVERY_NANOS: u64 = 2 * NANOS_PER_SEC;
/// A process alone shares with nobody in the tree, and one that stands still among the same others has the PSS it had.
const EVERY_NANOS_AT_REST: u64 = 30 * NANOS_PER_SEC;

/// CPU time that may be spent, earned as a share of one core and saved up to a burst.
#[derive(Debug)]
pub(crate) struct CpuBudget {
    share: f64,
    burst_nanos: f64,
    balance_nanos: f64,
    refilled_at_nanos: Option<u64>,
}

impl CpuBudget {
    pub(crate) fn new(share: f64, burst_nanos: u64) -> CpuBudget {
        CpuBudget {
            share: share.max(0.0),
            burst_nanos: burst_nanos as f64,
            balance_nanos: if share > 0.0 { burst_nanos as f64 } else { 0.0 },
            refilled_at_nanos: None,
        }
    }

    pub(crate) fn refill(&mut self, now_nanos: u64) {
        let passed = now_nanos.saturating_sub(self.refilled_at_nanos.unwrap_or(now_nanos));
        self.refilled_at_nanos = Some(now_nanos);
        self.balance_nanos =
            (self.balance_nanos + passed as f64 * self.share).min(self.burst_nanos);
    }

    /// A debt after a dear read must be earned back before the next.
    pub(crate) fn allows(&self) -> bool {
        self.balance_nanos > 0.0
    }

    pub(crate) fn spend(&mut self, nanos: u64) {
        self.balance_nanos -= nanos as f64;
    }

    /// How long a read of this price keeps its process waiting, so that one giant does not eat what the others need.
    fn pause_after(&self, cost_nanos: u64) -> u64 {
        if self.share > 0.0 {
            (cost_nanos as f64 / self.share) as u64
        } else {
            u64::MAX / 2
        }
    }
}

/// One process's place in the schedule.
#[derive(Debug)]
pub(crate) struct PssTurn {
    due_nanos: u64,
    last_read_nanos: Option<u64>,
    /// The process's RSS and the tree's number of comings and goings when it was last measured.
    last_scene: (u64, u64),
    refused: bool,
}

impl PssTurn {
    pub(crate) fn new(now_nanos: u64) -> PssTurn {
        PssTurn {
            due_nanos: now_nanos.saturating_add(FIRST_AT_NANOS),
            last_read_nanos: None,
            last_scene: (0, 0),
            refused: false,
        }
    }

    /// When it is due, if it is; the earliest goes first.
    /// `scene` is the process's RSS and the tree's number of comings and goings.
    pub(crate) fn due(&self, now_nanos: u64, alone: bool, scene: (u64, u64)) -> Option<u64> {
        let at_rest = alone || scene == self.last_scene;
        let due = match self.last_read_nanos {
            Some(last) if at_rest => self.due_nanos.max(last.saturating_add(EVERY_NANOS_AT_REST)),
            _ => self.due_nanos,
        };
        (!self.refused && now_nanos >= due).then_some(due)
    }
}

/// What a try to measure came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PssOutcome {
    /// Measured.
    Measured(Rollup),
    /// Not permitted: it will not be tried again.
    Refused,
    /// The process is about to go, or the kernel has no such file.
    Absent,
}

/// Reads `smaps_rollup`, pays for it and sets the next turn.
///
/// The file is not kept open: it belongs to the address space at the time of opening, which `exec` replaces.
pub(crate) fn measure(
    proc: &ProcFolder,
    pid: u32,
    turn: &mut PssTurn,
    budget: &mut CpuBudget,
    now_nanos: u64,
    scene: (u64, u64),
) -> PssOutcome {
    use rustix::io::Errno;

    let before = own_thread_nanos();
    let mut buffer = [0u8; 2048];
    let outcome = match proc
        .open_of(pid, "smaps_rollup")
        .and_then(|file| read_record(file, &mut buffer).map(parse_rollup))
    {
        Ok(Some(rollup)) => PssOutcome::Measured(rollup),
        Err(Errno::ACCESS | Errno::PERM) => PssOutcome::Refused,
        Ok(None) | Err(_) => PssOutcome::Absent,
    };
    let cost = own_thread_nanos().saturating_sub(before);
    budget.spend(cost);
    turn.refused = outcome == PssOutcome::Refused;
    turn.last_read_nanos = Some(now_nanos);
    turn.last_scene = scene;
    turn.due_nanos = now_nanos.saturating_add(budget.pause_after(cost).max(EVERY_NANOS));
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_is_earned_back_at_the_share() {
        let mut budget = CpuBudget::new(0.001, 1_000_000);
        budget.refill(0);
        assert!(budget.allows());
        budget.spend(3_000_000);
        budget.refill(NANOS_PER_SEC);
        assert!(!budget.allows());
        budget.refill(3 * NANOS_PER_SEC);
        assert!(budget.allows());
    }

    #[test]
    fn savings_never_exceed_the_burst() {
        let mut budget = CpuBudget::new(0.5, 100);
        budget.refill(0);
        budget.refill(u64::MAX);
        budget.spend(101);
        assert!(!budget.allows());
    }

    #[test]
    fn without_a_share_nothing_is_ever_allowed() {
        let mut budget = CpuBudget::new(0.0, 1_000_000);
        budget.refill(0);
        budget.refill(u64::MAX);
        assert!(!budget.allows());
    }

    #[test]
    fn a_process_alone_or_at_rest_waits_longer() {
        let mut turn = PssTurn::new(0);
        assert_eq!(turn.due(FIRST_AT_NANOS - 1, false, (5, 1)), None);
        assert_eq!(turn.due(FIRST_AT_NANOS, true, (5, 1)), Some(FIRST_AT_NANOS));
        turn.last_read_nanos = Some(0);
        turn.due_nanos = EVERY_NANOS;
        assert_eq!(turn.due(EVERY_NANOS, false, (5, 1)), Some(EVERY_NANOS));
        assert_eq!(turn.due(EVERY_NANOS, true, (5, 1)), None);
        assert!(turn.due(EVERY_NANOS_AT_REST, true, (5, 1)).is_some());
        turn.last_scene = (5, 1);
        assert_eq!(turn.due(EVERY_NANOS, false, (5, 1)), None);
        assert!(turn.due(EVERY_NANOS, false, (6, 1)).is_some());
    }
}
