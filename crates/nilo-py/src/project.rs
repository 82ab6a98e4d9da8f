//! What the settings files and the environment say to programs: where runs lie, how often memory is read, what is stored.
//! `nilo-settings` reads and judges the files, for the command too.

use std::path::PathBuf;
use std::sync::Once;

use nilo_recorder::Privacy;
use nilo_settings::{DEFAULT_INTERVAL_NANOS, NOTICE_GIVEN, Settings, parse_interval};
use pyo3::prelude::*;

use crate::errors::value_error;
use crate::trouble;

/// The settings that hold here; what was left alone is a warning, once.
fn settings(py: Python<'_>) -> PyResult<Settings> {
    let loaded = nilo_settings::load().map_err(|error| value_error(error.to_string()))?;
    if let Some(notice) = &loaded.notice {
        trouble::warn_once(py, notice)?;
        // For the processes that this one starts.
        let environment = py.import("os")?.getattr("environ")?;
        environment.set_item(NOTICE_GIVEN, notice)?;
    }
    Ok(loaded.settings)
}

/// `dir` of the settings, else the default folder of runs.
#[pyfunction]
pub(crate) fn project_folder(py: Python<'_>) -> PyResult<PathBuf> {
    let dir = settings(py)?.dir;
    Ok(dir.unwrap_or_else(nilo_settings::default_root))
}

/// The sampling interval in seconds where neither environment nor settings say another.
pub(crate) const DEFAULT_INTERVAL_SECS: f64 = DEFAULT_INTERVAL_NANOS as f64 / 1e9;

/// The sampling interval in seconds: by `NILO_INTERVAL`, or else by the settings, or else the default.
#[pyfunction]
pub(crate) fn configured_interval(py: Python<'_>) -> PyResult<f64> {
    let secs = |nanos: u64| nanos as f64 / 1e9;
    if let Ok(text) = std::env::var("NILO_INTERVAL")
        && !text.is_empty()
    {
        let wrong = |what| value_error(format!("cannot use NILO_INTERVAL={text}: {what}"));
        return parse_interval(&text).map(secs).map_err(wrong);
    }
    let nanos = settings(py)?.interval_nanos().map_err(value_error)?;
    Ok(nanos.map_or(DEFAULT_INTERVAL_SECS, secs))
}

/// The same, where it was not decided yet: for what is said many times.
pub(crate) fn decide_privacy_once() {
    static DECIDED: Once = Once::new();
    DECIDED.call_once(decide_privacy);
}

/// Decides what the runs of this process may tell, and to whom. A file that cannot be used was reported by then.
pub(crate) fn decide_privacy() {
    let settings = nilo_settings::load().unwrap_or_default().settings;
    Privacy {
        keep_secrets: settings.keep_secrets.unwrap_or(false),
        shared: settings.shared.unwrap_or(false),
    }
    .or_by_environment()
    .apply();
}
