//! The rules of `nilo-advice` for Python.

use nilo_advice::{Facts, recommend};
use pyo3::prelude::*;

use crate::errors::value_error;

/// What the rules recommend for facts, best first: JSON to JSON.
#[pyfunction]
pub(crate) fn recommendations(facts: &str) -> PyResult<String> {
    let facts: Facts =
        serde_json::from_str(facts).map_err(|error| value_error(error.to_string()))?;
    serde_json::to_string(&recommend(&facts)).map_err(|error| value_error(error.to_string()))
}
