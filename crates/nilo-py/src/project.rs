//! What `nilo.toml` says to programs: where runs lie. The command reads the same file.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::errors::value_error;

/// A settings file is a page of text, not a data set.
const LARGEST_BYTES: u64 = 1 << 20;

/// `dir` of the nearest `nilo.toml` in this folder and its parents, relative to that file; None without one.
#[pyfunction]
pub(crate) fn project_folder() -> PyResult<Option<PathBuf>> {
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
    let settings: toml::Table = toml::from_str(&text).map_err(|error| wrong(error.message()))?;
    match settings.get("dir") {
        None => Ok(None),
        Some(toml::Value::String(dir)) => Ok(file.parent().map(|folder| folder.join(dir))),
        Some(_) => Err(wrong("dir is not a text")),
    }
}
