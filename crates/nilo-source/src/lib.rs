//! Where readings come from: process trees, cgroups, the machine, the kernel's log.
//!
//! The hot path is [`ProcessTree`]: one clock call and at most one read of a kept-open file for each process and tick, nothing allocated while nothing changes.
//! GPUs are read through NVIDIA's library and AMD's files, on a thread of its own: [`gpu`].
//! What a process may take before it is killed comes from [`resolve_limits`], and what its cgroup says of itself from [`MemoryCgroup`].
//!
//! It is all Linux's: there is no source for another system.
//! Everything that could not be read is `None`.
//! Both roots, `/proc` and `/sys/fs/cgroup`, are parameters ([`Roots`]), so that captured trees can be read like a live machine.

#[cfg(not(target_os = "linux"))]
compile_error!("Nilometer records on Linux only: readings come from /proc and cgroups");

mod ancestors;
mod cgroup;
mod descendants;
mod descriptors;
mod error;
mod free;
pub mod gpu;
mod holdings;
mod host;
pub mod kernel_log;
mod kernel_text;
mod launcher;
mod limits;
mod linux;
mod listing;
mod local_ranks;
mod names;
mod own_children;
mod own_process;
mod pid_namespace;
mod pipe_readers;
mod private_pages;
mod process_file;
mod processor_turns;
mod processor_use;
mod rank;
mod roots;
mod tracked_process;
mod write_calls;

pub use ancestors::with_ancestors;
pub use cgroup::{CgroupReading, MemoryCgroup, memory_cgroup_path};
pub use descendants::descendants_of;
pub use descriptors::raise_own_fd_limit;
pub use error::SourceError;
pub use free::{free_memory, usual_budget};
pub use host::{Host, HostReading};
pub use launcher::{arguments_of, is_fork_of_parent, parent_of, started_ticks_of};
pub use limits::{limiting_cgroup, resolve_limits};
pub use linux::{ProcessTree, TreeOptions};
pub use listing::{ProcessListing, is_nilo_process, list_processes, process_id};
pub use local_ranks::local_ranks;
pub use names::{command_text, display_name};
pub use own_children::own_children;
pub use own_process::{
    own_arguments, own_peak_rss_bytes, own_resident_bytes, own_rss_bytes, reopen_stderr,
};
pub use pid_namespace::has_machine_pids;
pub use pipe_readers::pipe_readers;
pub use private_pages::{PrivatePages, private_pages_of};
pub use process_file::ProcessFile;
pub use processor_turns::{ProcessorTurns, processor_turns};
pub use processor_use::{ProcessorUse, processor_use};
pub use rank::{Rank, own_rank, tell_own_rank};
pub use roots::Roots;
pub use tracked_process::{Change, ProcessDetail, ProcessReading, ResidentMemory, TrackedProcess};
pub use write_calls::write_calls;
