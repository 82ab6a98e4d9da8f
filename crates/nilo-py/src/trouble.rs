//! Reporting what went wrong inside the training loop: a warning once, or an exception with `NILO_STRICT=1`.
//!
//! The rule itself is `nilometer._trouble.report`; it knows the user's line.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

static REPORT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Says something to know that is no trouble, once, in strict mode too.
#[cold]
pub(crate) fn warn_once(py: Python<'_>, text: &str) -> PyResult<()> {
    let module = py.import("nilometer._trouble")?;
    module.call_method1("warn_once", (PyString::new(py, text),))?;
    Ok(())
}

/// Says it; the error is the exception that strict mode wants raised.
#[cold]
pub(crate) fn report(py: Python<'_>, text: &str) -> PyResult<()> {
    let report = REPORT.get_or_try_init(py, || {
        let module = py.import("nilometer._trouble")?;
        PyResult::Ok(module.getattr("report")?.unbind())
    })?;
    report.call1(py, (PyString::new(py, text),))?;
    Ok(())
}
