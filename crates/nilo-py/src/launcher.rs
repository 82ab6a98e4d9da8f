//! What started this process, by its number.

use nilo_source::{Roots, arguments_of, parent_of, started_ticks_of};
use pyo3::prelude::*;

/// The command line of a process; empty when nothing is known of it.
#[pyfunction]
pub(crate) fn process_arguments(pid: u32) -> Vec<String> {
    arguments_of(&Roots::default(), pid)
}

/// When a process began, in ticks since boot.
#[pyfunction]
pub(crate) fn process_started(pid: u32) -> Option<u64> {
    started_ticks_of(&Roots::default(), pid)
}

/// The process that started another, or that took it in since.
#[pyfunction]
pub(crate) fn process_parent(pid: u32) -> Option<u32> {
    parent_of(&Roots::default(), pid)
}

/// Whether a process is a fork of the program that its parent runs.
#[pyfunction]
pub(crate) fn is_fork_of_parent(pid: u32) -> bool {
    nilo_source::is_fork_of_parent(&Roots::default(), pid)
}
