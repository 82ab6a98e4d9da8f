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
    /// What to alert of, and whom.
    #[serde(default)]
    pub(crate) alerts: AlertTable,
}

/// `[alerts]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AlertTable {
    pub(crate) memory_warning: Option<f64>,
    pub(crate) memory_critical: Option<f64>,
    pub(crate) gpu_warning: Option<f64>,
    pub(crate) gpu_critical: Option<f64>,
    pub(crate) leak: Option<bool>,
    pub(crate) oom_risk: Option<bool>,
    pub(crate) on_alert: Option<String>,
    pub(crate) webhook: Option<String>,
    pub(crate) signal: Option<String>,
    /// Print no line for an alert.
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

/// Whether nobody but us and root can have written a file: only such a file may name a command.
/// Settings are looked for in parent folders too, and `/tmp` is everybody's.
fn is_trusted(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let ours = rustix::process::geteuid().as_raw();
    std::fs::metadata(path).is_ok_and(|meta| {
        let anybody_writes = meta.mode() & 0o002 != 0;
        (meta.uid() == ours || meta.uid() == 0) && !anybody_writes
    })
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
            let sentence = format!("cannot use {}: {error}", path.display());
            let hint = if error.to_string().contains("[alerts]") {
                crate::alerts::KNOWN
            } else {
                "known settings: dir = \"runs\", interval = 0.1, quiet = true, [alerts]"
            };
            Failure::new(sentence).hint(hint)
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
        crate::alerts::check(&settings.alerts).map_err(|error| about(&error))?;
        if settings.alerts.on_alert.is_some() && !is_trusted(path) {
            let sentence = format!(
                "{} names a command to run on alerts, and belongs to somebody else or can be written by anybody",
                path.display()
            );
            return Err(Failure::new(sentence).hint("give the command with --on-alert instead"));
        }
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
