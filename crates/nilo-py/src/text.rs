//! Text from Python. It may hold what no file takes: an argument or a file name that is not UTF-8 arrives as lone surrogates.

use std::borrow::Cow;
use std::ops::Deref;

use pyo3::prelude::*;
use pyo3::types::PyString;

/// A `str`; see [`text_of`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text(pub(crate) String);

impl<'py> FromPyObject<'_, 'py> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Text> {
        let text = object.cast::<PyString>()?;
        Ok(Text(text_of(&text).into_owned()))
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// The text, with lone surrogates as Python's `backslashreplace` writes them (`\ud800`): a call in the training loop does not raise for them,
/// and two names stay two names.
pub(crate) fn text_of<'a>(text: &'a Bound<'_, PyString>) -> Cow<'a, str> {
    if let Ok(text) = text.to_str() {
        return Cow::Borrowed(text);
    }
    let escaped = text.call_method1("encode", ("utf-8", "backslashreplace"));
    match escaped.and_then(|bytes| bytes.extract::<Vec<u8>>()) {
        Ok(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        Err(_) => text.to_string_lossy(),
    }
}
