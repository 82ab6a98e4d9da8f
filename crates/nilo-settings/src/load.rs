//! Finding the files, and putting together what they say.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use nilo_runfile::DEFAULT_ROOT;
use nilo_sample::printable::printable;
use thiserror::Error;
use toml::de::DeTable;

use crate::approvals::{Approvals, absolute_variable};
use crate::contents::{KNOWN_ALERTS, Settings, WrongSetting};
use crate::file::{FileOrigin, SettingsFile, UntrustedFile, read, read_found, read_linked_root};

/// The name that is searched for.
const FILE_NAME: &str = "nilo.toml";
/// All known settings of a table fit behind the name of an unknown one.
const LONGEST_REASON_CHARS: usize = 400;

/// The variable with the notice that a process above this one has given already: each process of a job would repeat it.
pub const NOTICE_GIVEN: &str = "NILO_NOTICE_GIVEN";

/// What holds here.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// One sentence on what was left alone, and what to do about it; none where [`NOTICE_GIVEN`] has it.
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
            "known settings: dir = \"runs\", interval = 0.1, quiet = true, keep_secrets = true, shared = true, hooks = false, [alerts]"
        }
    }
}

/// Reads the files that concern this process in this folder.
///
/// A mistake in a file that was found must not keep a job from running: the file is left out, and the notice says why.
/// Only one in the file that `NILO_CONFIG` names is an error.
pub fn load() -> Result<Loaded, SettingsError> {
    let Loaded { settings, notice } = read_all()?;
    let given = std::env::var(NOTICE_GIVEN).ok();
    let notice = notice.filter(|notice| given.as_ref() != Some(notice));
    Ok(Loaded { settings, notice })
}

fn read_all() -> Result<Loaded, SettingsError> {
    let mut notice = None;
    let mut settings = Settings::default();
    if let Some(path) = own_file() {
        match read(&path, FileOrigin::Own) {
            Ok(Some(file)) => settings = parse_or_notice(&file, &mut notice).unwrap_or_default(),
            Ok(None) => {}
            Err(refusal) => notice = Some(about_ignored(&path, refusal)),
        }
    }
    if let Some(path) = named_file() {
        let what = match read(&path, FileOrigin::Named) {
            Ok(Some(file)) => {
                let settings = parse(&file)?.or(settings);
                return Ok(Loaded { settings, notice });
            }
            Ok(None) => "there is no such file (NILO_CONFIG names it)".to_owned(),
            Err(refusal) => refusal.to_string(),
        };
        return Err(SettingsError { path, what });
    }
    let Ok(here) = std::env::current_dir() else {
        return Ok(Loaded { settings, notice });
    };
    let (found, refused) = nearest(&here);
    if let Some((path, refusal)) = refused {
        notice.get_or_insert_with(|| about_ignored(&path, refusal));
    }
    if let Some(file) = found
        && let Some(project) = parse_or_notice(&file, &mut notice)
    {
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

/// The folder of runs where nobody says another: `.nilo` here, or what it links to if the user has approved that link.
/// One that is not approved is read through, but nothing is written there ([`nilo_runfile::check_root`]).
pub fn default_root() -> PathBuf {
    let usual = PathBuf::from(DEFAULT_ROOT);
    let approved = read_linked_root(&usual)
        .filter(|link| Approvals::of_user().is_some_and(|all| all.contains(link)));
    match approved {
        Some(_) => usual.canonicalize().unwrap_or(usual),
        None => usual,
    }
}

/// The nearest `nilo.toml` that is acceptable, in a folder and its parents, and the first that was not.
///
/// The search goes on above a file of a stranger's, so that it has no effect whatever.
pub fn nearest(folder: &Path) -> (Option<SettingsFile>, Option<(PathBuf, UntrustedFile)>) {
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

/// What a file that was found says; `None` with a notice where it has a mistake.
fn parse_or_notice(file: &SettingsFile, notice: &mut Option<String>) -> Option<Settings> {
    match parse(file) {
        Ok(settings) => Some(settings),
        Err(error) => {
            notice.get_or_insert_with(|| about_ignored(&error.path, error.what));
            None
        }
    }
}

/// What a file says.
pub fn parse(file: &SettingsFile) -> Result<Settings, SettingsError> {
    let wrong = |what: String| SettingsError {
        path: file.path.clone(),
        what: one_line(&what),
    };
    let text = std::str::from_utf8(&file.bytes)
        .map_err(|error| wrong(format!("not UTF-8 after byte {}", error.valid_up_to())))?;
    let mut settings: Settings = toml::from_str(text).map_err(|error| {
        let message = in_plain_words(error.message());
        let line = error.span().map(|span| line_at(text, span.start));
        wrong(on_line(line, &message))
    })?;
    settings
        .check()
        .map_err(|setting| wrong(on_line(line_of(text, &setting), &setting.what)))?;
    if let (Some(dir), Some(base)) = (&settings.dir, file.path.parent()) {
        settings.dir = Some(base.join(dir));
    }
    Ok(settings)
}

fn on_line(line: Option<usize>, message: &str) -> String {
    match line {
        Some(line) => format!("line {line}: {message}"),
        None => message.to_owned(),
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    before.filter(|byte| **byte == b'\n').count() + 1
}

/// The line on which a setting stands.
fn line_of(text: &str, setting: &WrongSetting) -> Option<usize> {
    let file = DeTable::parse(text).ok()?;
    let table = match setting.table {
        Some(name) => file.get_ref().get(name)?.get_ref().as_table()?,
        None => file.get_ref(),
    };
    let (key, _) = table.get_key_value(setting.key)?;
    Some(line_at(text, key.span().start))
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

/// What the parser quotes comes from the file, and may be all of it.
fn one_line(what: &str) -> String {
    let mut line: String = printable(what).chars().take(LONGEST_REASON_CHARS).collect();
    if what.chars().count() > LONGEST_REASON_CHARS {
        line.push('…');
    }
    line
}

fn about_ignored(path: &Path, why: impl Display) -> String {
    format!("{} is ignored: {why}", printable(&path.to_string_lossy()))
}

/// The parser's sentence without the names of Rust's types.
fn in_plain_words(message: &str) -> String {
    message
        .replace("unknown field", "unknown setting")
        .replace("expected f64", "expected a number")
        .replace("expected path string", "expected the path of a folder")
        .replace("expected struct AlertTable", "expected a table: [alerts]")
}

fn about_unapproved(path: &Path, needing: &[(&str, String)]) -> String {
    let names: Vec<&str> = needing.iter().map(|(name, _)| *name).collect();
    let path = printable(&path.to_string_lossy());
    format!(
        "ignoring {} of {path}, which is not approved; to approve it: nilo trust {path}",
        names.join(", ")
    )
}
