//! Memory of this process and its descendants, read on demand.

use std::sync::{Mutex, PoisonError};

use nilo_recorder::OwnMemory;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::os_error;

/// Reads the memory of this process tree and the limit above it.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct MemorySampler {
    memory: Mutex<OwnMemory>,
}

#[pymethods]
impl MemorySampler {
    #[new]
    fn new() -> PyResult<MemorySampler> {
        let memory = OwnMemory::new().map_err(os_error)?;
        Ok(MemorySampler {
            memory: Mutex::new(memory),
        })
    }

    /// A reading: `memory_bytes`, `peak_bytes`, `processes`, `limit_bytes`, `limit_source`, `available_bytes`; None where a figure is not known.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let reading = py.detach(|| {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.read(None)
        });
        let dict = PyDict::new(py);
        dict.set_item("memory_bytes", reading.memory_bytes)?;
        dict.set_item("peak_bytes", reading.peak_bytes)?;
        dict.set_item("processes", reading.processes)?;
        let limit = reading.limit.as_ref();
        dict.set_item("limit_bytes", limit.map(|limit| limit.bytes))?;
        dict.set_item("limit_source", limit.map(|limit| limit.source.to_string()))?;
        dict.set_item("available_bytes", reading.available_bytes)?;
        Ok(dict)
    }
}
