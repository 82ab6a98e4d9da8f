//! Errors of the crates below as Python exceptions.

use std::error::Error;

use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyValueError};
use pyo3::prelude::*;

/// The error and its causes, each said once even when an error quotes its cause.
pub(crate) fn sentence(error: &dyn Error) -> String {
    let mut sentence = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let text = deeper.to_string();
        if !sentence.contains(&text) {
            sentence = format!("{sentence}: {text}");
        }
        cause = deeper.source();
    }
    sentence
}

/// For files and folders.
pub(crate) fn os_error(error: impl Error) -> PyErr {
    PyOSError::new_err(sentence(&error))
}

/// For what is not there.
pub(crate) fn not_found(error: impl Error) -> PyErr {
    PyFileNotFoundError::new_err(sentence(&error))
}

/// For arguments.
pub(crate) fn value_error(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}
