//! What belongs to one process. A forked child may find it half changed by a thread that it does not have: there it is neither used nor dropped.

use std::mem::ManuallyDrop;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

pub(crate) struct ProcessLocal<T> {
    pid: u32,
    value: ManuallyDrop<T>,
}

impl<T> ProcessLocal<T> {
    pub(crate) fn new(value: T) -> ProcessLocal<T> {
        ProcessLocal {
            pid: std::process::id(),
            value: ManuallyDrop::new(value),
        }
    }

    pub(crate) fn get(&self) -> PyResult<&T> {
        match self.pid == std::process::id() {
            true => Ok(&self.value),
            false => Err(PyRuntimeError::new_err(
                "this object belongs to the parent process; create it again after the fork",
            )),
        }
    }
}

impl<T> Drop for ProcessLocal<T> {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            // SAFETY: it is dropped here and nowhere else, and nobody uses it after.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
