//! Finding the files, and putting together what they say.

use std::path::{Path, PathBuf};

use nilo_sample::printable::printable;
use thiserror::Error;

use crate::approvals::{Approvals, absolute_variable};
use crate::contents::{KNOWN_ALERTS, Settings};
use crate::file::{Refusal, SettingsFile, Whose, read, read_found};

/// The name that is searched for.
const FILE_NAME: &str = "nilo.toml";

/// What holds here.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// One sentence on what was left alone, and what to do about it.
    pub notice: Option<String>,
}

/// A file of the user's that cannot be understood.
#[derive(Debug, Error)]
#[error("cannot use {path}: {what}", path = path.display())]
pub struct SettingsError {
    /// Which.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

impl SettingsError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        if self.what.contains("[alerts]") {
            KNOWN_ALERTS
        } else {
            "known settings: dir = \"runs\", interval = 0.1, quiet = true, keep_secrets = true, shared = true, [alerts]"
        }
    }
}

/// Reads the files that concern this process in this folder.
pub fn load() -> Result<Loaded, SettingsError> {
    let mut refused = None;
    let mut settings = Settings::default();
    if let Some(path) = own_file() {
        match read(&path, Whose::Own) {
            Ok(Some(file)) => settings = parse(&file)?,
            Ok(None) => {}
            Err(refusal) => refused = Some((path, refusal)),
        }
    }
    if let Some(path) = named_file() {
        let what = match read(&path, Whose::Named) {
            Ok(Some(file)) => {
                let notice = refused.map(about_refused);
                let settings = parse(&file)?.or(settings);
                return Ok(Loaded { settings, notice });
            }
            Ok(None) => "there is no such file (NILO_CONFIG names it)".to_owned(),
            Err(refusal) => refusal.to_string(),
        };
        return Err(SettingsError { path, what });
    }
    let Ok(here) = std::env::current_dir() else {
        let notice = refused.map(about_refused);
        return Ok(Loaded { settings, notice });
    };
    let (found, refused_here) = nearest(&here);
    let mut notice = refused.or(refused_here).map(about_refused);
    if let Some(file) = found {
        let project = parse(&file)?;
        let needing = project.needing_approval();
        let is_approved = || Approvals::of_user().is_some_and(|all| all.contains(&file));
        let project = if needing.is_empty() || is_approved() {
            project
        } else {
            notice.get_or_insert_with(|| about_unapproved(&file.path, &needing));
            project.without_approval()
        };
        settings = project.or(settings);
    }
    Ok(Loaded { settings, notice })
}

/// The nearest `nilo.toml` that is acceptable, in a folder and its parents, and the first that was not.
///
/// The search goes on above a file of a stranger's, so that it has no effect whatever.
pub fn nearest(folder: &Path) -> (Option<SettingsFile>, Option<(PathBuf, Refusal)>) {
    let mut refused = None;
    for path in folder.ancestors().map(|folder| folder.join(FILE_NAME)) {
        match read_found(&path) {
            Ok(Some(file)) => return (Some(file), refused),
            Ok(None) => {}
            Err(refusal) => {
                refused.get_or_insert((path, refusal));
            }
        }
    }
    (None, refused)
}

/// What a file says.
pub fn parse(file: &SettingsFile) -> Result<Settings, SettingsError> {
    let wrong = |what: String| SettingsError {
        path: file.path.clone(),
        // What the parser quotes comes from the file.
        what: printable(&what),
    };
    let text = std::str::from_utf8(&file.bytes)
        .map_err(|error| wrong(format!("not UTF-8 after byte {}", error.valid_up_to())))?;
    let mut settings: Settings = toml::from_str(text).map_err(|error| {
        let before = error.span().map(|span| &file.bytes[..span.start]);
        let line = before.map(|bytes| bytes.iter().filter(|byte| **byte == b'\n').count() + 1);
        let message = error.message();
        wrong(match line {
            Some(line) => format!("line {line}: {message}"),
            None => message.to_owned(),
        })
    })?;
    settings.check().map_err(wrong)?;
    if let (Some(dir), Some(base)) = (&settings.dir, file.path.parent()) {
        settings.dir = Some(base.join(dir));
    }
    Ok(settings)
}

/// The user's own file: it needs no approval.
fn own_file() -> Option<PathBuf> {
    let folder = absolute_variable("XDG_CONFIG_HOME")
        .or_else(|| Some(absolute_variable("HOME")?.join(".config")))?;
    Some(folder.join("nilo/config.toml"))
}

/// The file that the user names in place of a search.
fn named_file() -> Option<PathBuf> {
    let name = std::env::var_os("NILO_CONFIG")?;
    (!name.is_empty()).then(|| PathBuf::from(name))
}

fn about_refused((path, refusal): (PathBuf, Refusal)) -> String {
    format!(
        "{} is ignored: {refusal}",
        printable(&path.to_string_lossy())
    )
}

fn about_unapproved(path: &Path, needing: &[(&str, String)]) -> String {
    let names: Vec<&str> = needing.iter().map(|(name, _)| *name).collect();
    let path = printable(&path.to_string_lossy());
    format!(
        "ignoring {} of {path}, which is not approved; to approve it: nilo trust {path}",
        names.join(", ")
    )
}
