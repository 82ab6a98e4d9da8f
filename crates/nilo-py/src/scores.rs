//! Scores of verifiers: the native half of `ScoreDistributionTracker`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nilo_rewards::{ScoreHistory as History, ScoreSettings};
use pyo3::prelude::*;

use crate::errors::value_error;
use crate::flatten::as_dict;
use crate::nested::read_flat;
use crate::rewards::as_python;
use crate::text::text_of;

/// The verifier that latencies without a name belong to.
const UNNAMED: &str = "verifier";

/// Scores, counted and described.
#[pyclass(name = "ScoreHistory", frozen, module = "nilometer._native")]
pub(crate) struct PyScoreHistory {
    history: Mutex<History>,
}

#[pymethods]
impl PyScoreHistory {
    #[new]
    #[pyo3(signature = (*, exact_values=None, bins=None, drift_updates=None))]
    fn new(
        exact_values: Option<usize>,
        bins: Option<usize>,
        drift_updates: Option<usize>,
    ) -> PyResult<PyScoreHistory> {
        for (what, value) in [("bins", bins), ("drift_updates", drift_updates)] {
            if value == Some(0) {
                return Err(value_error(format!("{what} is 0; it must be positive")));
            }
        }
        let usual = ScoreSettings::default();
        Ok(PyScoreHistory {
            history: Mutex::new(History::new(ScoreSettings {
                exact_values: exact_values.unwrap_or(usual.exact_values),
                bins: bins.unwrap_or(usual.bins),
                drift_updates: drift_updates.unwrap_or(usual.drift_updates),
            })),
        })
    }

    /// Takes in one batch; nothing of it is counted when a part cannot be read. Gives the batch's total, valid and timed-out scores and the sum of the valid ones.
    #[pyo3(signature = (scores, latencies=None, timeouts=None))]
    fn push(
        &self,
        py: Python<'_>,
        scores: &Bound<'_, PyAny>,
        latencies: Option<&Bound<'_, PyAny>>,
        timeouts: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(usize, usize, u64, f64)> {
        let scores = read_flat("scores", scores).map_err(value_error)?;
        let timeouts = timeouts.map_or(Ok(0), count)?;
        let latencies = latencies.map_or(Ok(Vec::new()), by_verifier)?;
        let valid: Vec<f64> = scores.iter().copied().filter(|s| s.is_finite()).collect();
        py.detach(|| {
            let mut history = self.locked();
            history.push(&scores, timeouts);
            for (verifier, latencies) in &latencies {
                history.push_latencies(verifier, latencies);
            }
        });
        Ok((scores.len(), valid.len(), timeouts, valid.iter().sum()))
    }

    /// Everything so far; the scores and their counts are a list of pairs.
    fn distribution<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let found = py.detach(|| self.locked().distribution());
        as_python(py, serde_json::to_string(&found))
    }
}

impl PyScoreHistory {
    /// Only locked without the interpreter, so that whoever waits for it holds nothing up.
    fn locked(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number of timeouts, or a flag for each score.
fn count(timeouts: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(number) = timeouts.extract::<u64>() {
        return Ok(number);
    }
    let flags = read_flat("timeouts", timeouts).map_err(value_error)?;
    let is_list = timeouts.hasattr("__iter__")?;
    if !is_list || flags.iter().any(|flag| *flag < 0.0) {
        return Err(value_error(
            "timeouts is neither a count nor a list of flags",
        ));
    }
    Ok(flags.iter().filter(|flag| **flag > 0.0).count() as u64)
}

/// Latencies by verifier: a dictionary, or numbers of the only one.
fn by_verifier(latencies: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Vec<f64>)>> {
    let Some(dict) = as_dict(latencies) else {
        let numbers = read_flat("latencies", latencies).map_err(value_error)?;
        return Ok(vec![(UNNAMED.to_owned(), numbers)]);
    };
    let mut verifiers = Vec::with_capacity(dict.len());
    for (name, values) in dict.iter() {
        let name = text_of(&name.str()?).into_owned();
        let what = format!("latencies['{name}']");
        verifiers.push((name, read_flat(&what, &values).map_err(value_error)?));
    }
    Ok(verifiers)
}
