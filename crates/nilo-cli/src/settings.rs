//! `nilo.toml`: defaults of a project, looked for in this folder and its parents.
//!
//! A flag wins over a `NILO_*` variable, that over this file, and this over the built-in default.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::failure::Failure;

/// A settings file is a page of text, not a data set.
const LARGEST_BYTES: u64 = 1 << 20;

/// What a project may set.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Folder that holds the runs, relative to the settings file.
    pub(crate) dir: Option<PathBuf>,
    /// Time between samples, as after `--interval`.
    pub(crate) interval: Option<Interval>,
    /// Print neither live line nor summary.
    #[serde(default)]
    pub(crate) quiet: bool,
}

/// `interval = 0.1` or `interval = "100ms"`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Interval {
    Seconds(f64),
    Text(String),
}

impl Settings {
    /// Reads the nearest `nilo.toml`, if there is one.
    pub(crate) fn load() -> Result<Settings, Failure> {
        let Ok(here) = std::env::current_dir() else {
            return Ok(Settings::default());
        };
        match here
            .ancestors()
            .map(|folder| folder.join("nilo.toml"))
            .find(|path| path.is_file())
        {
            Some(path) => Settings::read(&path),
            None => Ok(Settings::default()),
        }
    }

    fn read(path: &Path) -> Result<Settings, Failure> {
        let about = |error: &dyn std::fmt::Display| {
            Failure::new(format!("cannot use {}: {error}", path.display()))
                .hint("known settings: dir = \"runs\", interval = 0.1, quiet = true")
        };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(|error| about(&error))?;
        file.take(LARGEST_BYTES)
            .read_to_string(&mut text)
            .map_err(|error| about(&error))?;
        let mut settings: Settings =
            toml::from_str(&text).map_err(|error| about(&error.to_string().trim_end()))?;
        if let (Some(dir), Some(base)) = (&settings.dir, path.parent()) {
            settings.dir = Some(base.join(dir));
        }
        settings.interval_nanos().map_err(|error| about(&error))?;
        Ok(settings)
    }

    /// The interval in nanoseconds.
    pub(crate) fn interval_nanos(&self) -> Result<Option<u64>, String> {
        match &self.interval {
            Some(Interval::Seconds(seconds)) => {
                crate::args::interval(&seconds.to_string()).map(Some)
            }
            Some(Interval::Text(text)) => crate::args::interval(text).map(Some),
            None => Ok(None),
        }
    }
}
