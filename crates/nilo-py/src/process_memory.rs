//! Memory of this process and of its workers, as the kernel counts it.

use nilo_source::{Roots, own_peak_rss_bytes, own_rss_bytes, private_pages_of};
use pyo3::prelude::*;

/// The largest resident memory of this process so far, in bytes.
#[pyfunction]
pub(crate) fn peak_rss() -> PyResult<u64> {
    own_peak_rss_bytes().ok_or_else(|| {
        pyo3::exceptions::PyOSError::new_err("this system does not report a process's peak memory")
    })
}

/// Resident memory of this process now, in bytes; 0 where the system does not tell.
#[pyfunction]
pub(crate) fn current_rss() -> u64 {
    own_rss_bytes().unwrap_or(0)
}

/// What a process has written and holds alone, and its share of all its pages, in bytes; None of one that is gone.
#[pyfunction]
pub(crate) fn private_pages(pid: u32) -> Option<(u64, u64)> {
    let pages = private_pages_of(&Roots::default(), pid)?;
    Some((pages.private_dirty_bytes, pages.pss_bytes))
}
