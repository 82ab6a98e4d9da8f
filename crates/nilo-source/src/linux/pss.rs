//! When to pay for PSS: a budget of CPU time, and the schedule of each process inside it.
//!
//! `smaps_rollup` walks every page table of the target and holds its mmap lock meanwhile: 0.35 ms for 1 GiB in huge pages, 190 ms for 8 GiB in small ones.
//! So its price is measured on each read, in CPU time of our own thread, and the next read waits until the budget has earned it back.

use crate::linux::cpu_clock::own_thread_nanos;
use crate::linux::proc_folder::ProcFolder;
use crate::linux::stat::{Rollup, parse_rollup};

use crate::descriptors::read_record;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A tree is measured this long after the last process joined or left: imports and forks mostly done, short helpers gone.
const SETTLED_NANOS: u64 = NANOS_PER_SEC / 2;
/// A tree that never settles is measured all the same.
const UNSETTLED_NANOS: u64 = 5 * NANOS_PER_SEC;
/// No tree is measured more often than this, however cheap.
const EVERY_NANOS: u64 = 2 * NANOS_PER_SEC;
/// A process alone shares with nobody in the tree, and a tree that stands still has the PSS it had.
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

    /// How long until something of this price has been earned back.
    fn pause_after(&self, cost_nanos: u64) -> u64 {
        if self.share > 0.0 {
            (cost_nanos as f64 / self.share) as u64
        } else {
            u64::MAX / 2
        }
    }
}

/// What a process brings to a round.
#[derive(Debug, Default)]
pub(crate) struct PssTurn {
    /// Measured in the round that is under way.
    pub(crate) staged: Option<Rollup>,
    /// Not permitted: it is not tried again.
    pub(crate) refused: bool,
}

/// What a tree looks like from outside: if this is the same, so is its PSS, most likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Scene {
    /// Processes that joined or left so far.
    pub(crate) comings_and_goings: u64,
    /// The last time one did.
    pub(crate) last_coming_nanos: u64,
    /// The sum of RSS.
    pub(crate) rss_bytes: u64,
    /// Processes now.
    pub(crate) processes: usize,
}

/// Rounds of measurements: a page's share depends on who else holds it, so figures of different times do not add up.
///
/// A round may stretch over several ticks; its figures count only when it is complete.
#[derive(Debug)]
pub(crate) struct PssRounds {
    pub(crate) budget: CpuBudget,
    /// Still to be measured in this round.
    pub(crate) queue: Vec<u32>,
    pub(crate) under_way: bool,
    cost_nanos: u64,
    last: Option<(u64, Scene)>,
    earliest_nanos: u64,
}

impl PssRounds {
    pub(crate) fn new(budget: CpuBudget) -> PssRounds {
        PssRounds {
            budget,
            queue: Vec::new(),
            under_way: false,
            cost_nanos: 0,
            last: None,
            earliest_nanos: 0,
        }
    }

    /// Whether a round should begin.
    pub(crate) fn is_due(&self, now_nanos: u64, scene: Scene) -> bool {
        if !self.budget.allows() || scene.processes == 0 {
            return false;
        }
        let since = |then: u64| now_nanos.saturating_sub(then);
        let settled = since(scene.last_coming_nanos) >= SETTLED_NANOS;
        let Some((last_nanos, last_scene)) = self.last else {
            return settled || since(scene.last_coming_nanos) >= UNSETTLED_NANOS;
        };
        let at_rest = scene.processes == 1 || scene == last_scene;
        if at_rest {
            return since(last_nanos) >= EVERY_NANOS_AT_REST && now_nanos >= self.earliest_nanos;
        }
        if scene.comings_and_goings != last_scene.comings_and_goings {
            let long_ago = since(last_nanos) >= UNSETTLED_NANOS;
            // The savings may pay for it before the last round is earned back.
            return (settled && since(last_nanos) >= SETTLED_NANOS) || long_ago;
        }
        now_nanos >= self.earliest_nanos
    }

    pub(crate) fn begin(&mut self, pids: impl Iterator<Item = u32>) {
        self.queue.clear();
        self.queue.extend(pids);
        self.under_way = true;
        self.cost_nanos = 0;
    }

    pub(crate) fn finish(&mut self, now_nanos: u64, scene: Scene) {
        self.under_way = false;
        self.last = Some((now_nanos, scene));
        let pause = self.budget.pause_after(self.cost_nanos).max(EVERY_NANOS);
        self.earliest_nanos = now_nanos.saturating_add(pause);
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

/// Reads `smaps_rollup` and pays for it.
///
/// The file is not kept open: it belongs to the address space at the time of opening, which `exec` replaces.
pub(crate) fn measure(proc: &ProcFolder, pid: u32, rounds: &mut PssRounds) -> PssOutcome {
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
    rounds.budget.spend(cost);
    rounds.cost_nanos += cost;
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

    fn scene(comings_and_goings: u64, rss_bytes: u64, processes: usize) -> Scene {
        Scene {
            comings_and_goings,
            last_coming_nanos: 0,
            rss_bytes,
            processes,
        }
    }

    #[test]
    fn a_round_waits_for_the_tree_to_settle() {
        let rounds = PssRounds::new(CpuBudget::new(0.001, 1_000_000));
        assert!(!rounds.is_due(SETTLED_NANOS - 1, scene(2, 5, 2)));
        assert!(rounds.is_due(SETTLED_NANOS, scene(2, 5, 2)));
        assert!(!rounds.is_due(SETTLED_NANOS, scene(0, 0, 0)));
    }

    #[test]
    fn a_tree_at_rest_or_a_process_alone_waits_longer() {
        let mut rounds = PssRounds::new(CpuBudget::new(0.001, 1_000_000));
        rounds.begin([1, 2].into_iter());
        rounds.finish(NANOS_PER_SEC, scene(2, 5, 2));
        let later = NANOS_PER_SEC + EVERY_NANOS;
        assert!(!rounds.is_due(later, scene(2, 5, 2)));
        assert!(rounds.is_due(later, scene(2, 6, 2)));
        assert!(!rounds.is_due(later, scene(2, 6, 1)));
        assert!(rounds.is_due(NANOS_PER_SEC + EVERY_NANOS_AT_REST, scene(2, 5, 2)));
    }

    #[test]
    fn a_newcomer_brings_a_round_forward() {
        let mut rounds = PssRounds::new(CpuBudget::new(0.001, 1_000_000));
        rounds.begin([1].into_iter());
        rounds.finish(NANOS_PER_SEC, scene(1, 5, 1));
        assert!(rounds.is_due(NANOS_PER_SEC + SETTLED_NANOS, scene(2, 9, 2)));
    }
}
