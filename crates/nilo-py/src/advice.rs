//! The rules of `nilo-advice` for Python, and the judge of the settings that `nilo optimize --config` reads too.

use nilo_advice::{AllocatorMoment, Facts, recommend};
use nilo_answer::optimize_config::OptimizeConfig;
use pyo3::prelude::*;

use crate::errors::value_error;

/// What the rules recommend for facts, best first: JSON to JSON.
#[pyfunction]
pub(crate) fn recommendations(facts: &str) -> PyResult<String> {
    let facts: Facts =
        serde_json::from_str(facts).map_err(|error| value_error(error.to_string()))?;
    serde_json::to_string(&recommend(&facts)).map_err(|error| value_error(error.to_string()))
}

/// What to do about the free memory of a GPU's allocator, from the figures of `analyze_fragmentation` as JSON.
#[pyfunction]
pub(crate) fn fragmentation_advice(figures: &str) -> PyResult<Vec<String>> {
    let moment: AllocatorMoment =
        serde_json::from_str(figures).map_err(|error| value_error(error.to_string()))?;
    Ok(moment.advice())
}

/// Raises ValueError for the text of a settings file that `nilo optimize --config` would refuse.
#[pyfunction]
pub(crate) fn check_settings(text: &str) -> PyResult<()> {
    match OptimizeConfig::parse(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(value_error(format!("{error}; {}", error.hint()))),
    }
}
