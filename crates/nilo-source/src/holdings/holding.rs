//! What one process holds, and what is not proved about it.

use super::NewProcess;
use super::birth_copies::BirthCopies;
use super::copied_share::CopiedShare;
use super::family::{Family, FamilyKey, LEARN_FROM_BYTES};
use super::shared_set::MemberShare;
use crate::tracked_process::ProcessReading;

/// Pages that the kernel maps around a fault on a file.
const PAGES_AROUND_A_FAULT: u64 = 16;
/// Small pages in a huge one, all of which one fault brings in.
const PAGES_IN_A_HUGE_ONE: u64 = 512;
/// A process that was just forked copies its stack and what it counts references in; more than that has to be proved.
const COPIED_AT_BIRTH_BYTES: u64 = 2 << 20;
/// ... and no more than this where its faults may have mapped pages that it found in memory.
const COPIED_FOR_CERTAIN_BYTES: u64 = 128 << 10;
/// A process that was just forked maps so much of its program and libraries, many pages a fault. What it maps beyond that is data,
/// which its siblings read as well: a page that one of them has locked at that moment takes a fault of its own.
const PROGRAM_BYTES: u64 = 4 << 20;

/// What was measured of a process's anonymous memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) anon_bytes: u64,
    /// Its proportional share.
    pub(crate) anon_pss_bytes: u64,
    /// What it held alone.
    pub(crate) anon_alone_bytes: u64,
    pub(crate) uses_huge_pages: bool,
    /// Minor faults at that time.
    pub(crate) faults: Option<u64>,
    /// Those since the first of its relatives was measured: what they copied is not in the figures of the others.
    pub(crate) faults_since_begin: u64,
}

impl Measured {
    /// Whether its share is smaller than so many processes can make it, so that others share its pages too.
    pub(crate) fn is_shared_by_more_than(&self, processes: usize) -> bool {
        let least = self.anon_bytes / processes.max(1) as u64;
        self.anon_pss_bytes + self.anon_bytes / 100 < least
    }
}

/// One process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holding {
    pub(crate) family: FamilyKey,
    pub(crate) anon: MemberShare,
    pub(crate) file: MemberShare,
    /// What RSS counts of files that it has mapped more than once.
    mapped_twice_bytes: u64,
    /// The same, counted since its memory was followed last.
    seen_twice_bytes: Option<u64>,
    /// By how much its files have raised those of the tree without proof that it has not mapped them twice.
    pub(crate) raised_bytes: u64,
    /// Copies that were counted on the word of faults alone.
    pub(crate) copied_unproved: u64,
    /// All faults since the last measurement that may have been copies, in bytes.
    claimed: u64,
    copied: CopiedShare,
    /// Born a moment ago, and not measured yet.
    pub(crate) is_young: bool,
    /// It is giving back its memory: what the others share with it becomes less while they are measured.
    pub(crate) is_leaving: bool,
    /// Its growth may have taken fewer faults than pages.
    uses_huge_pages: bool,
    /// Minor faults when they were last counted.
    faults: u64,
    /// Growth since then, whatever was freed in between: of anonymous memory and of file pages.
    grown_bytes: u64,
    mapped_bytes: u64,
}

impl Holding {
    /// A process with memory of its own.
    pub(crate) fn fresh(family: FamilyKey, reading: ProcessReading, faults: u64) -> Holding {
        let anon = reading.rss_bytes.saturating_sub(reading.shared_bytes);
        Holding {
            family,
            anon: MemberShare {
                bytes: anon,
                alone: anon,
            },
            file: MemberShare {
                bytes: reading.shared_bytes,
                alone: 0,
            },
            mapped_twice_bytes: 0,
            seen_twice_bytes: None,
            raised_bytes: 0,
            copied_unproved: 0,
            claimed: 0,
            copied: CopiedShare::default(),
            is_young: false,
            is_leaving: false,
            uses_huge_pages: false,
            faults,
            grown_bytes: 0,
            mapped_bytes: 0,
        }
    }

    /// A forked process holds what its parent held, less what it has copied since; says by how much that may be off.
    ///
    /// The faults of a newborn are copies; of one that has lived for some time before it was seen, nobody knows.
    pub(crate) fn forked(
        newcomer: &NewProcess,
        parent: &mut Holding,
        family: &Family,
        page_bytes: u64,
    ) -> (Holding, u64) {
        let mut holding = Holding::fresh(newcomer.family, newcomer.reading, 0);
        let inherited = holding.anon.bytes.min(parent.anon.bytes);
        holding.anon.alone = holding.anon.bytes - inherited;
        holding.grown_bytes = holding.anon.alone;
        holding.uses_huge_pages = parent.uses_huge_pages;
        holding.mapped_bytes = holding.file.bytes;
        // All that the parent had is the child's as well.
        parent.anon.alone = parent.anon.alone.saturating_sub(inherited);
        let data_bytes = holding.file.bytes.saturating_sub(PROGRAM_BYTES);
        let certain = holding.copied_at_least_bytes(newcomer.faults, page_bytes);
        let possible = holding.unexplained_bytes(newcomer.faults, page_bytes);
        holding.claimed = possible;
        holding.copied = family.copied;
        holding.is_young = newcomer.is_newborn;
        if newcomer.is_newborn {
            let expected = holding.expect_copies(family.birth_copies);
            let most = possible
                .saturating_sub(data_bytes)
                .clamp(COPIED_FOR_CERTAIN_BYTES, COPIED_AT_BIRTH_BYTES);
            let usual = certain.min(most).saturating_sub(expected);
            holding.copied_unproved += usual;
            holding.anon.alone += usual;
            return (holding, (possible - expected) / 2);
        }
        (holding, possible / 2)
    }

    /// After `exec`: everything is its own.
    pub(crate) fn found_family(&mut self, family: FamilyKey, faults: u64) {
        self.family = family;
        self.anon.alone = self.anon.bytes;
        self.copied_unproved = 0;
        self.claimed = 0;
        self.copied = CopiedShare::default();
        self.is_young = false;
        self.uses_huge_pages = false;
        self.faults = faults;
    }

    /// Memory grew or shrank; faults that grew it copied nothing. Says how many bytes of files came or went.
    pub(crate) fn follow(&mut self, reading: ProcessReading) -> u64 {
        let anon_bytes = reading.rss_bytes.saturating_sub(reading.shared_bytes);
        self.grown_bytes += anon_bytes.saturating_sub(self.anon.bytes);
        let all_files = self.file.bytes + self.mapped_twice_bytes;
        self.mapped_bytes += reading.shared_bytes.saturating_sub(all_files);
        // What is unmapped first is what was mapped twice: nothing is lost with it.
        let unmapped = all_files.saturating_sub(reading.shared_bytes);
        self.mapped_twice_bytes = self.mapped_twice_bytes.saturating_sub(unmapped);
        if let Some(seen) = self.seen_twice_bytes.take() {
            // Counted a moment later: no more than came since then is taken off.
            let grown = reading.shared_bytes.saturating_sub(all_files);
            self.mapped_twice_bytes = seen.min(self.mapped_twice_bytes + grown);
        }
        self.anon.grow_or_shrink(anon_bytes);
        self.file
            .overlap(reading.shared_bytes - self.mapped_twice_bytes);
        reading.shared_bytes.abs_diff(all_files)
    }

    /// Its pages of files were counted; what RSS has beyond them is mapped twice.
    pub(crate) fn take_file(&mut self, counted: MemberShare) {
        let all_files = self.file.bytes + self.mapped_twice_bytes;
        self.file.bytes = counted.bytes.min(all_files);
        self.file.alone = counted.alone.min(self.file.bytes);
        self.mapped_twice_bytes = all_files - self.file.bytes;
        self.raised_bytes = 0;
    }

    /// What RSS counts of files that it has mapped more than once.
    pub(crate) fn mapped_twice_bytes(&self) -> u64 {
        self.mapped_twice_bytes
    }

    /// Of what it holds as it joins, so much is mapped more than once.
    pub(crate) fn begin_with_mapped_twice(&mut self, bytes: u64) {
        self.mapped_twice_bytes = bytes.min(self.file.bytes);
        self.file.bytes -= self.mapped_twice_bytes;
        self.file.alone = self.file.alone.min(self.file.bytes);
    }

    /// Whether what it has mapped more than once was counted since its memory was followed last.
    pub(crate) fn has_seen_mapped_twice(&self) -> bool {
        self.seen_twice_bytes.is_some()
    }

    /// What it has mapped more than once was counted.
    pub(crate) fn see_mapped_twice(&mut self, bytes: u64) {
        self.seen_twice_bytes = Some(bytes);
    }

    /// It has mapped no page twice, and so much at most.
    pub(crate) fn count_files_at_most(&mut self, most_bytes: u64) {
        self.raised_bytes = 0;
        let all_files = self.file.bytes + self.mapped_twice_bytes;
        self.file.bytes = all_files.min(most_bytes);
        self.mapped_twice_bytes = all_files - self.file.bytes;
        self.file.alone = self.file.alone.min(self.file.bytes);
    }

    /// What so many faults since its birth have copied at least: each page of growth may have taken one, huge pages or not.
    fn copied_at_least_bytes(&self, faults: u64, page_bytes: u64) -> u64 {
        let grown = self.grown_bytes / page_bytes;
        let mapped = self.mapped_bytes / page_bytes / PAGES_AROUND_A_FAULT;
        let copied = faults.saturating_sub(grown + mapped);
        copied.saturating_mul(page_bytes).min(self.anon.pooled())
    }

    /// What faults since the last count may have copied at most: those that growth does not explain, of what is shared.
    fn unexplained_bytes(&mut self, faults: u64, page_bytes: u64) -> u64 {
        let new = faults.saturating_sub(std::mem::replace(&mut self.faults, faults));
        let grown = std::mem::take(&mut self.grown_bytes) / page_bytes;
        let mapped = std::mem::take(&mut self.mapped_bytes) / page_bytes / PAGES_AROUND_A_FAULT;
        // More growth than faults: huge pages. How many faults it took can then not be told from it.
        self.uses_huge_pages |= grown > new + PAGES_IN_A_HUGE_ONE;
        let grown = match self.uses_huge_pages {
            true => grown / PAGES_IN_A_HUGE_ONE,
            false => grown,
        };
        let unexplained = new.saturating_sub(grown + mapped);
        unexplained
            .saturating_mul(page_bytes)
            .min(self.anon.pooled())
    }

    /// Faults that growth does not explain are copies of shared pages, or of no consequence: memory that came and went
    /// between two samples, a page that the last of its holders took over. None is counted until it is measured,
    /// because a peak once claimed is never taken back; says how many bytes are in doubt.
    pub(crate) fn count_faults(&mut self, faults: u64, shares: bool, page_bytes: u64) -> u64 {
        let possible = self.unexplained_bytes(faults, page_bytes);
        if !shares {
            return 0;
        }
        self.claimed += possible;
        self.doubted_copies(possible)
    }

    /// Counts what a newborn is likely to have copied as its own, by what was measured of its siblings; says how much that added.
    pub(crate) fn expect_copies(&mut self, siblings: BirthCopies) -> u64 {
        let expected = siblings.expected(self.claimed);
        let added = expected
            .saturating_sub(self.copied_unproved)
            .min(self.anon.pooled());
        self.copied_unproved += added;
        self.anon.alone += added;
        added
    }

    /// What faults may have copied since the last measurement, and is not counted as its own.
    pub(crate) fn claimed_bytes(&self) -> u64 {
        let open = self.claimed.saturating_sub(self.copied_unproved);
        open.min(self.anon.pooled())
    }

    /// How many bytes are in doubt when so many may have been copied.
    pub(crate) fn doubted_copies(&self, possible: u64) -> u64 {
        (possible.min(self.anon.pooled()) as f64 * self.copied.doubt()) as u64
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
            self.copied.learn(copied as f64 / claimed as f64);
        }
        Some((copied, claimed))
    }

    /// Starts anew from a measurement; what was taken or freed since then is its own.
    pub(crate) fn take_anon(&mut self, measured: &Measured, page_bytes: u64) {
        let grown = self.anon.bytes.saturating_sub(measured.anon_bytes);
        let freed = measured.anon_bytes.saturating_sub(self.anon.bytes);
        let alone = (measured.anon_alone_bytes + grown).saturating_sub(freed);
        self.anon.alone = alone.min(self.anon.bytes);
        self.copied_unproved = 0;
        self.is_young = false;
        self.uses_huge_pages = measured.uses_huge_pages;
        // Copies up to the measurement are in it. Faults that were counted after it stay claimed, whatever they were.
        let counted_since = measured
            .faults
            .map_or(0, |faults| self.faults.saturating_sub(faults));
        self.claimed = self.claimed.min(counted_since.saturating_mul(page_bytes));
        if let Some(faults) = measured.faults.filter(|_| counted_since == 0) {
            self.faults = faults;
            self.grown_bytes = grown;
            self.mapped_bytes = 0;
        }
    }
}
