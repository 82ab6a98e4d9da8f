//! The native half of `nilometer.buffers`.

mod array_cache;
mod arrays;
mod batch;
mod fork_lock;
mod replay;

use nilo_buffer::BufferError;
use nilo_sample::Limit;
use nilo_sample::limit::smallest;
use nilo_source::{Roots, resolve_limits};
use pyo3::exceptions::{PyIndexError, PyOSError, PyValueError};
use pyo3::prelude::*;

pub(crate) use array_cache::{PyArrayCache, PyCachedArray};
pub(crate) use replay::PyReplayStore;

/// The smallest memory limit in force on this process in bytes, and what sets it; None where there is none.
#[pyfunction]
pub(crate) fn memory_limit() -> Option<(u64, String)> {
    // A limit of addresses says nothing of the memory that is held.
    let mut limits = resolve_limits(&Roots::default(), std::process::id());
    limits.retain(Limit::is_of_memory);
    let limit = smallest(limits)?;
    Some((limit.bytes, limit.source.to_string()))
}

fn buffer_error(error: BufferError) -> PyErr {
    let text = crate::errors::sentence(&error);
    match error {
        BufferError::Io { .. } => PyOSError::new_err(text),
        BufferError::NotStored { .. } => PyIndexError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}
