//! The forecast of a level that can run out, for series that Python reads: the native half of `nilometer.memory.Forecaster`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nilo_analysis::assessment::{
    Prediction, WarningText, growth_while_loading, is_warning as is_warning_level,
};
use nilo_forecast::{Cause, Forecaster as Following, Reading, RiskLevel, level_trend as trend_of};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::value_error;

/// Follows one resource: readings in, a judgement out.
#[pyclass(name = "Forecaster", frozen, subclass, module = "nilometer._native")]
pub(crate) struct PyForecaster {
    following: Mutex<Following>,
}

#[pymethods]
impl PyForecaster {
    #[new]
    fn new() -> PyForecaster {
        PyForecaster {
            following: Mutex::default(),
        }
    }

    /// Takes in a reading. One that is no number, or whose time does not lie after the last one's, is ignored and counted.
    #[pyo3(signature = (time_secs, used_bytes, limit_bytes=None, *, held_bytes=None, reclaimable_bytes=0.0, children_bytes=None, own_bytes=None, swap_used_bytes=None, swap_total_bytes=None, step=None))]
    #[allow(clippy::too_many_arguments)]
    fn observe(
        &self,
        py: Python<'_>,
        time_secs: f64,
        used_bytes: f64,
        limit_bytes: Option<f64>,
        held_bytes: Option<f64>,
        reclaimable_bytes: f64,
        children_bytes: Option<f64>,
        own_bytes: Option<f64>,
        swap_used_bytes: Option<f64>,
        swap_total_bytes: Option<f64>,
        step: Option<i64>,
    ) {
        // A time that is none makes the whole reading one that is no number, so that it is counted where the others are.
        let placed = time_secs.is_finite() && time_secs >= 0.0;
        let reading = Reading {
            time_nanos: (time_secs * 1e9) as u64,
            used_bytes: if placed { used_bytes } else { f64::NAN },
            limit_bytes,
            held_bytes,
            reclaimable_bytes,
            children_bytes,
            own_bytes,
            swap_used_bytes,
            swap_total_bytes,
            step,
            ..Reading::default()
        };
        py.detach(|| self.locked().observe(&reading));
    }

    /// A boundary of the training at which memory may be given back: the end of an epoch.
    fn boundary(&self) {
        self.locked().boundary();
    }

    /// The newest judgement: `level`, `used_share`, `seconds`, `seconds_low`, `seconds_high`, `confidence`, `cause`, `bytes_per_sec`, `lasted_secs`.
    fn forecast<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let forecast = *self.locked().forecast();
        let dict = PyDict::new(py);
        dict.set_item("level", forecast.level.as_str())?;
        dict.set_item("used_share", forecast.used_share)?;
        dict.set_item("seconds", forecast.seconds)?;
        dict.set_item("seconds_low", forecast.seconds_low)?;
        dict.set_item("seconds_high", forecast.seconds_high)?;
        dict.set_item("confidence", forecast.confidence)?;
        dict.set_item("cause", forecast.cause.map(Cause::as_str))?;
        dict.set_item("bytes_per_sec", forecast.bytes_per_sec)?;
        dict.set_item("lasted_secs", forecast.lasted_secs)?;
        Ok(dict)
    }

    /// The lasting growth of what is held, if there is one of at least `least_bytes`; one that may be loading is not called a leak:
    /// `kind` (growth, leak), `bytes_per_sec`, `bytes_per_sec_low`, `bytes_per_sec_high`, `grown_bytes`, `lasted_secs`.
    #[pyo3(signature = (least_bytes, may_be_loading=false))]
    fn growth<'py>(
        &self,
        py: Python<'py>,
        least_bytes: f64,
        may_be_loading: bool,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(mut growth) = py.detach(|| self.locked().growth(least_bytes)) else {
            return Ok(None);
        };
        if may_be_loading {
            growth = growth_while_loading(growth);
        }
        let dict = PyDict::new(py);
        dict.set_item("kind", growth.kind.as_str())?;
        dict.set_item("bytes_per_sec", growth.bytes_per_sec)?;
        dict.set_item("bytes_per_sec_low", growth.bytes_per_sec_low)?;
        dict.set_item("bytes_per_sec_high", growth.bytes_per_sec_high)?;
        dict.set_item("grown_bytes", growth.grown_bytes)?;
        dict.set_item("lasted_secs", growth.lasted_secs)?;
        Ok(Some(dict))
    }

    /// Readings that made no sense.
    #[getter]
    fn ignored(&self) -> u64 {
        self.locked().ignored()
    }
}

impl PyForecaster {
    fn locked(&self) -> MutexGuard<'_, Following> {
        self.following
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seconds until something runs out, between which that is in four of five cases, and how sure it is, if that is known.
type PredictionParts = (f64, Option<(f64, f64)>, Option<f64>);

/// The block that is printed for a warning, or for a risk that is none.
#[pyfunction]
#[pyo3(signature = (name, level, used_percent=None, prediction=None, cause=None, recommendations=Vec::new(), reason=""))]
pub(crate) fn warning_text(
    name: &str,
    level: &str,
    used_percent: Option<f64>,
    prediction: Option<PredictionParts>,
    cause: Option<&str>,
    recommendations: Vec<String>,
    reason: &str,
) -> PyResult<String> {
    let level = risk_level(level)?;
    let recommendations: Vec<&str> = recommendations.iter().map(String::as_str).collect();
    let confidence = prediction.and_then(|(_, _, confidence)| confidence);
    let prediction = prediction.map(|(seconds, range, _)| Prediction {
        seconds,
        seconds_low: range.map(|range| range.0),
        seconds_high: range.map(|range| range.1),
        confidence: confidence.unwrap_or(0.0),
    });
    let text = WarningText {
        name,
        level,
        used_percent,
        prediction,
        confidence,
        cause: cause.and_then(Cause::from_name),
        has_run_out: false,
        recommendations: &recommendations,
        reason,
    };
    Ok(text.to_text())
}

/// Whether somebody should be told of a risk of this level.
#[pyfunction]
pub(crate) fn is_warning(level: &str) -> PyResult<bool> {
    Ok(is_warning_level(risk_level(level)?))
}

fn risk_level(name: &str) -> PyResult<RiskLevel> {
    RiskLevel::from_name(name)
        .ok_or_else(|| value_error(format!("no risk level is called {name:?}")))
}

/// Where a level went that was read at these seconds: `increasing`, `decreasing` or `stable`; None when it was read too seldom.
#[pyfunction]
pub(crate) fn level_trend(seconds: Vec<f64>, bytes: Vec<f64>) -> Option<&'static str> {
    let end = seconds.last().copied()?;
    let trend = trend_of(&seconds, &bytes, end, seconds.len() as u64)?;
    Some(trend.as_str())
}
