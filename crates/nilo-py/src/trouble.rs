//! Reporting what went wrong inside the training loop: a warning once, or an exception with `NILO_STRICT=1`.
//!
//! The rule itself is `nilometer._trouble.report`; it knows the user's line.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

static REPORT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static WARN_ONCE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Says it; the error is the exception that strict mode wants raised.
#[cold]
pub(crate) fn report(py: Python<'_>, text: &str) -> PyResult<()> {
    say(py, &REPORT, "report", text)
}

/// Says it once, also in strict mode: something to know, not a trouble.
#[cold]
pub(crate) fn warn_once(py: Python<'_>, text: &str) -> PyResult<()> {
    say(py, &WARN_ONCE, "warn_once", text)
}

fn say(py: Python<'_>, function: &PyOnceLock<Py<PyAny>>, name: &str, text: &str) -> PyResult<()> {
    let function = function.get_or_try_init(py, || {
        let module = py.import("nilometer._trouble")?;
        PyResult::Ok(module.getattr(name)?.unbind())
    })?;
    function.call1(py, (PyString::new(py, text),))?;
    Ok(())
}
