//! What one process holds, and what is not proved about it.

use super::family::{FamilyKey, LEARN_FROM_BYTES};
use super::shared_set::Part;
use crate::source::ProcessReading;

/// Pages that the kernel maps around a fault on a file.
const PAGES_AROUND_A_FAULT: u64 = 16;
/// Even where no fault has turned out to be a copy, the next may be.
const LEAST_DOUBT_SHARE: f64 = 0.02;

/// A counter of minor faults with the memory at that time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults {
    pub(crate) count: u64,
    pub(crate) reading: ProcessReading,
}

/// What was measured of a process's anonymous memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) anon_bytes: u64,
    /// Its proportional share.
    pub(crate) anon_pss_bytes: u64,
    /// What it held alone.
    pub(crate) anon_alone_bytes: u64,
}

/// Copies that faults tell of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Copied {
    /// Counted as new memory.
    pub(crate) counted: u64,
    /// By how much that may be off.
    pub(crate) doubted: u64,
}

/// One process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holding {
    pub(crate) family: FamilyKey,
    pub(crate) anon: Part,
    pub(crate) file: Part,
    pub(crate) is_unmeasurable: bool,
    /// Copies that were counted on the word of faults alone.
    pub(crate) copied_unproved: u64,
    /// All faults since the last measurement that may have been copies, in bytes.
    claimed: u64,
    copied_share: f64,
    faults: Faults,
}

impl Holding {
    /// A process with memory of its own.
    pub(crate) fn fresh(family: FamilyKey, reading: ProcessReading, faults: u64) -> Holding {
        let anon = reading.rss_bytes.saturating_sub(reading.shared_bytes);
        Holding {
            family,
            anon: Part {
                bytes: anon,
                alone: anon,
            },
            file: Part {
                bytes: reading.shared_bytes,
                alone: 0,
            },
            is_unmeasurable: false,
            copied_unproved: 0,
            claimed: 0,
            copied_share: 1.0,
            faults: Faults {
                count: faults,
                reading,
            },
        }
    }

    /// A forked process holds what its parent held, less what it has copied since; says how much that is.
    pub(crate) fn forked(
        family: FamilyKey,
        reading: ProcessReading,
        faults: u64,
        parent: &mut Holding,
        copied_share: f64,
        page_bytes: u64,
    ) -> (Holding, u64) {
        let mut holding = Holding::fresh(family, reading, faults);
        let inherited = holding.anon.bytes.min(parent.anon.bytes);
        holding.anon.alone = holding.anon.bytes - inherited;
        holding.copied_share = copied_share;
        holding.faults = Faults {
            count: 0,
            reading: ProcessReading {
                rss_bytes: inherited,
                ..ProcessReading::default()
            },
        };
        // All that the parent had is the child's as well.
        parent.anon.alone = parent.anon.alone.saturating_sub(inherited);
        let now = Faults {
            count: faults,
            reading,
        };
        let copied = holding.count_faults(now, true, page_bytes);
        (holding, copied.doubted)
    }

    /// After `exec`: everything is its own.
    pub(crate) fn found_family(&mut self, family: FamilyKey, faults: u64) {
        self.family = family;
        self.anon.alone = self.anon.bytes;
        self.copied_unproved = 0;
        self.claimed = 0;
        self.copied_share = 1.0;
        self.faults.count = faults;
    }

    /// Faults that growth does not explain are copies of shared pages, or of no consequence: measurements tell how many.
    pub(crate) fn count_faults(&mut self, now: Faults, shares: bool, page_bytes: u64) -> Copied {
        let before = std::mem::replace(&mut self.faults, now);
        if !shares {
            return Copied::default();
        }
        let new = now.count.saturating_sub(before.count);
        let anon = |reading: ProcessReading| reading.rss_bytes.saturating_sub(reading.shared_bytes);
        let grown = anon(now.reading).saturating_sub(anon(before.reading)) / page_bytes;
        let mapped = now
            .reading
            .shared_bytes
            .saturating_sub(before.reading.shared_bytes)
            / page_bytes
            / PAGES_AROUND_A_FAULT;
        let unexplained = new
            .saturating_sub(grown + mapped)
            .saturating_mul(page_bytes);
        let possible = unexplained.min(self.anon.pooled());
        let counted = (possible as f64 * self.copied_share) as u64;
        self.anon.alone += counted;
        self.copied_unproved += counted;
        self.claimed += possible;
        let doubted = (possible as f64 * (self.copied_share / 2.0).max(LEAST_DOUBT_SHARE)) as u64;
        Copied { counted, doubted }
    }

    /// What a measurement says of the faults before it: bytes that were copied, and bytes that might have been.
    pub(crate) fn learn(&mut self, measured: &Measured) -> Option<(u64, u64)> {
        let claimed = self.claimed;
        if claimed < LEARN_FROM_BYTES / 8 {
            return None;
        }
        let known = self.anon.alone - self.copied_unproved.min(self.anon.alone);
        let copied = measured.anon_alone_bytes.saturating_sub(known).min(claimed);
        if claimed > LEARN_FROM_BYTES {
            let share = copied as f64 / claimed as f64;
            self.copied_share = (self.copied_share + share) / 2.0;
        }
        Some((copied, claimed))
    }

    /// Starts anew from a measurement; what was read since then is its own.
    pub(crate) fn take_anon(&mut self, measured: &Measured) {
        let since = self.anon.bytes.saturating_sub(measured.anon_bytes);
        self.anon.alone = (measured.anon_alone_bytes + since).min(self.anon.bytes);
        self.copied_unproved = 0;
        self.claimed = 0;
    }
}
