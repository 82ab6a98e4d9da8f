//! Texts as Python has them: `str` or `bytes`, one or many, borrowed where they are.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

/// The UTF-8 of a `str`, or the bytes of a `bytes`. Neither ever changes, so they may be read without the GIL.
pub(super) fn bytes_of<'t>(text: &'t Bound<'_, PyAny>) -> PyResult<&'t [u8]> {
    if let Ok(text) = text.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes());
    }
    if let Ok(bytes) = text.cast::<PyBytes>() {
        return Ok(bytes.as_bytes());
    }
    let kind = text.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "a text is a str or bytes, not {kind}"
    )))
}

/// Hands over the text, or each text of a list or tuple, as an iterator for training may give.
pub(super) fn for_each(item: &Bound<'_, PyAny>, mut visit: impl FnMut(&[u8])) -> PyResult<()> {
    if item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>() {
        for text in item.try_iter()? {
            visit(bytes_of(&text?)?);
        }
        return Ok(());
    }
    visit(bytes_of(item)?);
    Ok(())
}
