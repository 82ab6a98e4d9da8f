//! Where readings come from: process trees, cgroups, the machine, the kernel's log.
//!
//! The hot path is [`ProcessTree`]: one clock call and at most one read of a kept-open file for each process and tick, nothing allocated while nothing changes.
//! [`PortableTree`] gives the same over `sysinfo`, for systems without `/proc`.
//! GPUs are read through NVIDIA's driver, on a thread of its own: [`gpu`].
//! What a process may take before it is killed comes from [`resolve_limits`], and what its cgroup says of itself from [`MemoryCgroup`].
//!
//! Everything that could not be read is `None`.
//! Both roots, `/proc` and `/sys/fs/cgroup`, are parameters ([`Roots`]), so that captured trees can be read like a live machine.

mod error;
mod holdings;
mod names;
mod portable;
mod rank;
mod source;

#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod descendants;
#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod free;
#[cfg(target_os = "linux")]
pub mod gpu;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
pub mod kernel_log;
#[cfg(target_os = "linux")]
mod kernel_text;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod listing;
#[cfg(target_os = "linux")]
mod local_ranks;
#[cfg(target_os = "linux")]
mod own_children;
mod roots;
#[cfg(target_os = "linux")]
mod write_calls;

pub use error::SourceError;
pub use names::display_name;
pub use portable::PortableTree;
pub use roots::Roots;
pub use source::{Change, ProcessDetail, ProcessReading, ProcessSource, TrackedProcess};

#[cfg(target_os = "linux")]
pub use cgroup::{CgroupReading, MemoryCgroup};
#[cfg(target_os = "linux")]
pub use descendants::descendants_of;
#[cfg(target_os = "linux")]
pub use descriptors::raise_own_fd_limit;
#[cfg(target_os = "linux")]
pub use free::{free_memory, usual_budget};
#[cfg(target_os = "linux")]
pub use host::{Host, HostReading};
#[cfg(target_os = "linux")]
pub use limits::{limiting_cgroup, resolve_limits};
#[cfg(target_os = "linux")]
pub use linux::{ProcessTree, TreeOptions};
#[cfg(target_os = "linux")]
pub use listing::{ProcessListing, is_nilo_process, list_processes, process_id};
#[cfg(target_os = "linux")]
pub use local_ranks::local_ranks;
#[cfg(target_os = "linux")]
pub use own_children::own_children;
pub use rank::{Rank, own_rank, tell_own_rank};
#[cfg(target_os = "linux")]
pub use write_calls::write_calls;
