//! What started this process, by its number.

use nilo_source::{Roots, arguments_of, started_ticks_of};
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
