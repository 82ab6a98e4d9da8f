//! What is known of a process of the tree, and what can happen to it.

use nilo_sample::process::{ProcessId, ProcessInfo};

/// What is read of a process on each tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessReading {
    /// Resident memory; pages shared with others count in full.
    pub rss_bytes: u64,
    /// The part of it that belongs to files and shared memory, which other processes may hold too; 0 where it is not known.
    pub shared_bytes: u64,
    /// Its address space, touched or not.
    pub virtual_bytes: u64,
    /// CPU time since the process began, all threads, user and system.
    pub cpu_nanos: u64,
}

/// Resident memory by kind, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResidentMemory {
    /// All of it.
    pub rss_bytes: u64,
    /// Without pages of files and shared memory.
    pub anon_bytes: u64,
}

/// What is read of a process about once a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessDetail {
    /// The kernel's high-water mark (`VmHWM`): no spike is missing from it.
    pub peak_rss_bytes: Option<u64>,
    /// What was resident at the moment of that mark's reading, which may be long after [`ProcessReading`] on a busy machine.
    pub at_mark: Option<ResidentMemory>,
    /// The high-water mark of its address space (`VmPeak`).
    pub peak_virtual_bytes: Option<u64>,
    /// Private writable addresses, touched or not (`VmData`).
    pub data_bytes: Option<u64>,
    /// Memory in swap.
    pub swap_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Open file descriptors.
    pub open_files: Option<u64>,
    /// Page faults without I/O, since the start.
    pub minor_faults: Option<u64>,
    /// Page faults with I/O, since the start.
    pub major_faults: Option<u64>,
    /// Bytes read from storage, since the start.
    pub read_bytes: Option<u64>,
    /// Bytes written to storage, since the start.
    pub written_bytes: Option<u64>,
    /// Proportional set: shared pages divided by their number of users. From the last time it was measured.
    pub pss_bytes: Option<u64>,
    /// Unique set: what would be freed if this process ended. Likewise.
    pub uss_bytes: Option<u64>,
}

/// A process of the tree, alive on the last tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackedProcess {
    /// Who.
    pub id: ProcessId,
    /// Name, command line, parent, owner.
    pub info: ProcessInfo,
    /// From the last tick.
    pub reading: ProcessReading,
    /// From the last time that detail was read.
    pub detail: ProcessDetail,
    /// Whether any of `detail` but PSS and USS was read on the last tick.
    pub detail_is_new: bool,
    /// Whether PSS and USS were measured on the last tick.
    pub pss_is_new: bool,
    /// What it adds to the tree: pages that several processes hold count for the oldest of them.
    /// Over all processes this adds up to the distinct pages of the tree.
    pub memory_bytes: u64,
    /// What its resident memory counts more than once, because it has mapped pages of files or shared memory more than once; as last measured.
    pub mapped_twice_bytes: u64,
    /// It runs in memory that it has from its parent: forked, or just about to become another program.
    pub is_forked: bool,
    /// The tick on which it was first seen.
    pub first_seen_nanos: u64,
    /// CPU time that is not the tree's: what a process that was born elsewhere had spent when it joined.
    pub cpu_before_nanos: u64,
}

impl TrackedProcess {
    /// What it holds: resident memory with each page counted once, however often it has mapped it.
    pub fn distinct_bytes(&self) -> u64 {
        self.reading
            .rss_bytes
            .saturating_sub(self.mapped_twice_bytes)
    }
}

/// Something that happened to the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A process joined; it is in [`crate::ProcessTree::processes`].
    Started(ProcessId),
    /// A process has another command line or name: `exec`, `setproctitle`.
    Renamed(ProcessId),
    /// A process left.
    Ended {
        /// Who.
        id: ProcessId,
        /// What was known of it.
        info: ProcessInfo,
        /// The last memory seen, and the final CPU time where the zombie could still be asked.
        last_reading: ProcessReading,
        /// The last high-water mark seen.
        peak_rss_bytes: Option<u64>,
    },
}
