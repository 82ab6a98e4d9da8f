//! Text from Python. It may hold what no file takes: an argument or a file name that is not UTF-8 arrives as lone surrogates.

use std::ops::Deref;

use pyo3::prelude::*;
use pyo3::types::PyString;

/// A `str`, with replacement characters where it cannot be encoded: a call in the training loop does not raise for that.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text(pub(crate) String);

impl<'py> FromPyObject<'_, 'py> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Text> {
        let text = object.cast::<PyString>()?;
        Ok(Text(text.to_string_lossy().into_owned()))
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}
