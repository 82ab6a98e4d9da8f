//! Memory cgroups, version 1 and 2.
//!
//! `place.rs` finds where a process's cgroups lie, `reading.rs` parses their files, `memory.rs` is one cgroup with its files kept open, `notice.rs` asks to be told of a coming OOM kill.

mod memory;
mod notice;
mod place;
mod reading;

pub use memory::MemoryCgroup;
pub use place::memory_cgroup_path;
pub(crate) use place::{CgroupAncestor, levels_of};
pub use reading::CgroupReading;
pub(crate) use reading::parse_limit;
