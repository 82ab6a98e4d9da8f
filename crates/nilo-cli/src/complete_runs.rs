//! Completes the name of a run for the shell.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap_complete::CompletionCandidate;
use clap_complete::engine::ArgValueCompleter;
use nilo_runfile::find::with_runs_inside;

use crate::folder::{RunsDir, known_runs, runs_root};

/// Completes the name of a run.
pub(crate) fn run_names() -> ArgValueCompleter {
    ArgValueCompleter::new(matching_runs)
}

/// `last`, names and ids that begin with what was typed, the newest first.
fn matching_runs(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else {
        return Vec::new();
    };
    let place = RunsDir { dir: typed_dir() };
    let settings = nilo_settings::load().map(|loaded| loaded.settings);
    let root = runs_root(&place, &settings.unwrap_or_default());
    let mut offered: Vec<(String, String)> = Vec::new();
    let mut offer = |value: &str, about: String| {
        let is_new = offered.iter().all(|(known, _)| known != value);
        if value.starts_with(typed) && is_new && !value.contains(char::is_control) {
            offered.push((value.to_owned(), about));
        }
    };
    let runs = with_runs_inside(known_runs(&root));
    if !runs.is_empty() {
        offer("last", "the newest run".to_owned());
    }
    for (_, run) in runs.iter().rev() {
        if let Some(name) = &run.name {
            offer(name, run.id.to_string());
        }
    }
    for (_, run) in runs.iter().rev() {
        let command: String = run.command.join(" ").chars().take(60).collect();
        offer(run.id.as_str(), command.replace(char::is_control, " "));
    }
    let candidates = offered.into_iter().enumerate();
    candidates
        .map(|(place, (value, about))| {
            CompletionCandidate::new(value)
                .help(Some(about.into()))
                .display_order(Some(place))
        })
        .collect()
}

/// The folder that was typed before the run, else the variable that `--dir` reads.
fn typed_dir() -> Option<PathBuf> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let after = words.windows(2).rev().find(|pair| pair[0] == "--dir");
    let inside = |word: &OsString| Some(word.to_str()?.strip_prefix("--dir=")?.to_owned());
    let typed = after.map(|pair| PathBuf::from(&pair[1]));
    typed
        .or_else(|| words.iter().rev().find_map(inside).map(PathBuf::from))
        .or_else(|| std::env::var_os("NILO_DIR").map(PathBuf::from))
}
