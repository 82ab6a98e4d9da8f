//! What `nilo.toml` and the environment say to programs: where runs lie, how often memory is read. The command reads the same.

use std::path::PathBuf;

use nilo_sample::units::parse_duration;
use pyo3::prelude::*;

use crate::errors::value_error;

/// A settings file is a page of text, not a data set.
const LARGEST_BYTES: u64 = 1 << 20;
/// As `nilo run --interval` takes them.
const SHORTEST_NANOS: u64 = 1_000_000;
const LONGEST_NANOS: u64 = 3_600_000_000_000;

/// The nearest `nilo.toml` in this folder and its parents.
struct Project {
    file: PathBuf,
    settings: toml::Table,
}

impl Project {
    fn find() -> PyResult<Option<Project>> {
        let Ok(here) = std::env::current_dir() else {
            return Ok(None);
        };
        let file = here
            .ancestors()
            .map(|folder| folder.join("nilo.toml"))
            .find(|path| path.is_file());
        let Some(file) = file else {
            return Ok(None);
        };
        let wrong = |what: &str| value_error(format!("cannot use {}: {what}", file.display()));
        if file
            .metadata()
            .is_ok_and(|found| found.len() > LARGEST_BYTES)
        {
            return Err(wrong("it is too large"));
        }
        let text = std::fs::read_to_string(&file).map_err(|error| wrong(&error.to_string()))?;
        let settings = toml::from_str(&text).map_err(|error| wrong(error.message()))?;
        Ok(Some(Project { file, settings }))
    }

    fn wrong(&self, what: &str) -> PyErr {
        value_error(format!("cannot use {}: {what}", self.file.display()))
    }
}

/// `dir` of the nearest `nilo.toml` in this folder and its parents, relative to that file; None without one.
#[pyfunction]
pub(crate) fn project_folder() -> PyResult<Option<PathBuf>> {
    let Some(project) = Project::find()? else {
        return Ok(None);
    };
    match project.settings.get("dir") {
        None => Ok(None),
        Some(toml::Value::String(dir)) => Ok(project.file.parent().map(|folder| folder.join(dir))),
        Some(_) => Err(project.wrong("dir is not a text")),
    }
}

/// The sampling interval in seconds by `NILO_INTERVAL`, or else by `interval` of the nearest `nilo.toml`; None where neither says.
#[pyfunction]
pub(crate) fn configured_interval() -> PyResult<Option<f64>> {
    if let Ok(text) = std::env::var("NILO_INTERVAL")
        && !text.is_empty()
    {
        let wrong = |what| value_error(format!("cannot use NILO_INTERVAL={text}: {what}"));
        return interval_secs(&text).map(Some).map_err(wrong);
    }
    let Some(project) = Project::find()? else {
        return Ok(None);
    };
    let text = match project.settings.get("interval") {
        None => return Ok(None),
        Some(toml::Value::String(text)) => text.clone(),
        Some(toml::Value::Float(secs)) => secs.to_string(),
        Some(toml::Value::Integer(secs)) => secs.to_string(),
        Some(_) => return Err(project.wrong("interval is neither a number nor a text")),
    };
    interval_secs(&text)
        .map(Some)
        .map_err(|what| project.wrong(&format!("interval: {what}")))
}

fn interval_secs(text: &str) -> Result<f64, String> {
    let nanos = parse_duration(text).map_err(|error| error.to_string())?;
    if (SHORTEST_NANOS..=LONGEST_NANOS).contains(&nanos) {
        Ok(nanos as f64 / 1e9)
    } else {
        Err(format!("{text} is not between 1 ms and 1 h"))
    }
}
