//! Pages of files and shared memory in a tree: what was counted of them, what is open, and what a process has mapped more than once.

use std::collections::HashMap;

use super::{Doubt, Holding, Holdings, MemberShare};

/// The parts of a library often share a page; only more than this is worth looking for pages that are mapped twice.
pub(crate) const LEAST_TWICE_BYTES: u64 = 1 << 20;

/// Pages of files that a process may have mapped twice, of less than one part in this many of the tree, are counted without proof.
const UNPROVED_PART: u64 = 100;

/// Pages of files that a tree holds.
#[derive(Debug, Default)]
pub(crate) struct CountedFiles {
    /// Each counted once.
    pub(crate) distinct_bytes: u64,
    /// What each process holds of them.
    pub(crate) held: HashMap<u32, MemberShare>,
    /// Instead of all that: a process alone that maps no page twice.
    pub(crate) plain: Option<PlainFiles>,
}

/// A process that maps no page twice: all that its RSS has of files counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainFiles {
    pub(crate) pid: u32,
    /// What it has mapped. RSS has more while a mapping is given back: those are pages that were mapped twice until then.
    pub(crate) most_bytes: u64,
}

impl Holdings {
    /// Whether more than is known of the tree's files would be counted because this process alone has so much of them mapped now:
    /// what it has mapped twice should be counted before. A process that has not joined yet has no memory here.
    pub(crate) fn may_count_twice(&self, pid: u32, shared_bytes: u64) -> bool {
        let holding = self.processes.get(&pid);
        let (twice, raised) =
            holding.map_or((0, 0), |it| (it.mapped_twice_bytes(), it.raised_bytes));
        let distinct = shared_bytes.saturating_sub(twice);
        let raise = distinct.saturating_sub(self.files.bytes());
        let least = (self.bytes() / UNPROVED_PART).max(LEAST_TWICE_BYTES);
        raise > 0 && raise + raised > least
    }

    /// So much of what a process has mapped now is mapped more than once: call before [`Holdings::update`].
    pub(crate) fn see_mapped_twice(&mut self, pid: u32, bytes: u64) {
        if let Some(holding) = self.processes.get_mut(&pid) {
            holding.see_mapped_twice(bytes);
        }
    }

    /// Bytes by which file pages may be off.
    pub(crate) fn file_doubt_bytes(&self) -> u64 {
        self.files.doubt_bytes()
    }

    /// File pages that were counted because one process has mapped so many, and that it may have mapped twice.
    pub(crate) fn raised_file_bytes(&self) -> u64 {
        self.files.raised_bytes()
    }

    /// What is open about file pages now.
    pub(crate) fn file_doubt(&self) -> Doubt {
        self.files.open()
    }

    /// What a process holds of files.
    pub(crate) fn file_bytes(&self, pid: u32) -> u64 {
        self.processes
            .get(&pid)
            .map_or(0, |holding| holding.file.bytes)
    }

    /// What the resident memory of a process counts more than once. The parts of a library often share a page: less than this is not told.
    pub(crate) fn mapped_twice_bytes(&self, pid: u32) -> u64 {
        let holding = self.processes.get(&pid);
        let bytes = holding.map_or(0, Holding::mapped_twice_bytes);
        if bytes < LEAST_TWICE_BYTES { 0 } else { bytes }
    }

    /// File pages of the tree were counted.
    pub(crate) fn take_files(&mut self, counted: &CountedFiles, doubt_at_begin: Doubt) {
        if let Some(plain) = counted.plain {
            let is_alone = self.processes.len() == 1;
            // Somebody joined meanwhile: what they share was not looked at, and stays in doubt.
            if let Some(holding) = self.processes.get_mut(&plain.pid).filter(|_| is_alone) {
                holding.count_files_at_most(plain.most_bytes);
                self.files.measured(holding.file.bytes, doubt_at_begin);
            }
            return;
        }
        for (pid, holding) in &mut self.processes {
            match counted.held.get(pid) {
                Some(part) => holding.take_file(*part),
                // It is about to go, or may not be looked at: nothing that was counted is its own.
                None => {
                    holding.file.alone = 0;
                    holding.raised_bytes = 0;
                }
            }
        }
        self.files.measured(counted.distinct_bytes, doubt_at_begin);
    }
}
