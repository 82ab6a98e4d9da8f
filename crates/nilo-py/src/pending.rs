//! Values that still lie on a device.
//!
//! Reading a GPU tensor makes the program wait for the GPU. Instead a copy is queued behind the work that computes it
//! (`nilometer._device.begin_read`), and the number is stored, with the time and step of its logging, once it has arrived.

use std::collections::VecDeque;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// More values than this on their way make the oldest waited for: memory stays bounded.
const MOST_PENDING: usize = 4_096;

static BEGIN_READ: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A number on its way from a device.
pub(crate) struct DeviceNumber(Py<PyAny>);

impl DeviceNumber {
    /// Queues the copy of a tensor of one element.
    pub(crate) fn begin(tensor: &Bound<'_, PyAny>) -> PyResult<DeviceNumber> {
        let py = tensor.py();
        let begin_read = BEGIN_READ.get_or_try_init(py, || {
            let module = py.import("nilometer._device")?;
            PyResult::Ok(module.getattr("begin_read")?.unbind())
        })?;
        Ok(DeviceNumber(begin_read.call1(py, (tensor,))?))
    }

    pub(crate) fn clone_ref(&self, py: Python<'_>) -> DeviceNumber {
        DeviceNumber(self.0.clone_ref(py))
    }

    pub(crate) fn is_ready(&self, py: Python<'_>) -> bool {
        let ready = self.0.call_method0(py, "ready");
        // A handle that fails is as ready as it will ever be; `value` tells why.
        ready
            .and_then(|ready| ready.extract::<bool>(py))
            .unwrap_or(true)
    }

    /// The number; waits for it where it must.
    pub(crate) fn value(&self, py: Python<'_>) -> PyResult<f64> {
        self.0.call_method0(py, "value")?.extract(py)
    }
}

/// A number on its way into the run.
pub(crate) struct Pending {
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) time_nanos: u64,
    pub(crate) step: Option<i64>,
    pub(crate) number: DeviceNumber,
}

/// The numbers on their way, oldest first.
#[derive(Default)]
pub(crate) struct PendingQueue(VecDeque<Pending>);

impl PendingQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, pending: Pending) {
        self.0.push_back(pending);
    }

    /// Adds younger ones behind.
    pub(crate) fn append(&mut self, mut younger: PendingQueue) {
        self.0.append(&mut younger.0);
    }

    /// Takes out those that have arrived, or all with `wait`.
    ///
    /// Called without any lock held: asking Python may let other threads run.
    pub(crate) fn take_arrived(&mut self, py: Python<'_>, wait: bool) -> Vec<Pending> {
        let mut arrived = Vec::new();
        while let Some(front) = self.0.front() {
            if !wait && self.0.len() <= MOST_PENDING && !front.number.is_ready(py) {
                break;
            }
            arrived.extend(self.0.pop_front());
        }
        arrived
    }
}
