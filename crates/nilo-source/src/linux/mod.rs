//! The process tree of a Linux machine, from `/proc`.
//!
//! `tree.rs` holds the tree and its tick, `discover.rs` finds processes that joined, `process.rs` reads one process, `children_cpu.rs` counts what its children used,
//! `measuring.rs` decides when to measure shared memory, inside `budget.rs`, `file_pages.rs` counts pages of files, `stat.rs` parses, `proc_folder.rs` is `/proc` itself, `blind.rs` remembers what was refused.

mod blind;
mod budget;
mod children_cpu;
mod cpu_clock;
mod describe;
mod discover;
mod file_pages;
mod measuring;
mod proc_folder;
mod process;
pub(crate) mod stat;
mod tree;

pub(crate) use cpu_clock::process_cpu_nanos;
pub(crate) use describe::{command_of, describe, is_python};
pub(crate) use proc_folder::{ProcFolder, STAT_BYTES, page_bytes};
pub(crate) use stat::{parse_arguments, parse_statm, parse_status};
pub use tree::{ProcessTree, TreeOptions};
