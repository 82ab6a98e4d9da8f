//! The process's own peak of resident memory.

use pyo3::prelude::*;

/// The largest resident memory of this process so far, in bytes.
#[pyfunction]
pub(crate) fn peak_rss() -> PyResult<u64> {
    nilo_source::own_peak_rss_bytes().ok_or_else(|| {
        pyo3::exceptions::PyOSError::new_err("this system does not tell a process's peak memory")
    })
}
