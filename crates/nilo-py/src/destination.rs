//! The run that a class adds to.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::run::Run;
use crate::shared::{SharedRun, lock};

static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The run that a class adds to: a given one, or whichever is current when the first point comes.
pub(crate) struct Destination {
    given: Option<Arc<SharedRun>>,
    found: Mutex<Option<Arc<SharedRun>>>,
}

impl Destination {
    pub(crate) fn new(run: Option<&Run>) -> Destination {
        Destination {
            given: run.map(|run| Arc::clone(&run.shared)),
            found: Mutex::new(None),
        }
    }

    /// The run; asks `nilometer.run.run_to_log_to` when there is none or the last one has ended.
    #[inline]
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Arc<SharedRun>> {
        if let Some(shared) = &self.given {
            return Ok(Arc::clone(shared));
        }
        if let Some(shared) = &*lock(&self.found)
            && !shared.is_finished()
        {
            return Ok(Arc::clone(shared));
        }
        self.find(py)
    }

    #[cold]
    fn find(&self, py: Python<'_>) -> PyResult<Arc<SharedRun>> {
        let current = CURRENT.get_or_try_init(py, || {
            let module = py.import("nilometer.run")?;
            PyResult::Ok(module.getattr("run_to_log_to")?.unbind())
        })?;
        let run = current.call0(py)?;
        let run = run.bind(py).cast::<Run>()?.get();
        *lock(&self.found) = Some(Arc::clone(&run.shared));
        Ok(Arc::clone(&run.shared))
    }
}
