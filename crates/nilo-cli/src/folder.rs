//! Where runs lie, and which run the user means.

use std::path::{Path, PathBuf};

use nilo_recorder::{after_the_fact, fallback_folders};
use nilo_runfile::{RunFolder, list_runs};
use nilo_sample::{Ending, Recording, RunDescription, TableSpec};

use crate::args::Place;
use crate::failure::Failure;
use crate::settings::Settings;

/// The folder that holds the runs.
pub(crate) fn runs_root(place: &Place, settings: &Settings) -> PathBuf {
    let asked = place.dir.clone().or_else(|| settings.dir.clone());
    asked.unwrap_or_else(|| PathBuf::from(".nilo"))
}

/// Every run of a folder that can be described, oldest first; what is broken is left to `nilo verify`.
pub(crate) fn readable_runs(root: &Path) -> Vec<(RunFolder, RunDescription)> {
    let folders = list_runs(root).into_iter().filter_map(Result::ok);
    folders
        .filter_map(|folder| {
            folder
                .describe()
                .ok()
                .map(|description| (folder, description))
        })
        .collect()
}

/// The runs inside jobs, oldest first.
pub(crate) fn runs_inside(
    jobs: &[(RunFolder, RunDescription)],
) -> Vec<(RunFolder, RunDescription)> {
    let inside = jobs.iter().flat_map(|(job, _)| job.runs_inside());
    inside
        .filter_map(|folder| folder.describe().ok().map(|told| (folder, told)))
        .collect()
}

/// Every run that the user may mean, oldest first: those of a folder, and those of this directory
/// that lie in the fallback folder because their own could not be written.
pub(crate) fn known_runs(root: &Path) -> Vec<(RunFolder, RunDescription)> {
    let mut runs = readable_runs(root);
    runs.extend(runs_elsewhere(root).into_iter().flat_map(|(_, runs)| runs));
    runs.sort_by(|(_, a), (_, b)| a.id.as_str().cmp(b.id.as_str()));
    runs
}

/// The fallback folders with the runs of this directory in them.
pub(crate) fn runs_elsewhere(root: &Path) -> Vec<(PathBuf, Vec<(RunFolder, RunDescription)>)> {
    let Ok(here) = std::env::current_dir() else {
        return Vec::new();
    };
    let is_root = |folder: &PathBuf| folder.canonicalize().ok() == root.canonicalize().ok();
    let elsewhere = fallback_folders().into_iter().filter(|it| !is_root(it));
    elsewhere
        .map(|folder| {
            let mut runs = readable_runs(&folder);
            runs.retain(|(_, run)| Path::new(&run.cwd) == here);
            (folder, runs)
        })
        .filter(|(_, runs)| !runs.is_empty())
        .collect()
}

/// The run that the user means by an id, the beginning of one, a name, a path or `last`.
pub(crate) fn find_run(root: &Path, asked: Option<&str>) -> Result<RunFolder, Failure> {
    let asked = asked.unwrap_or("last");
    if asked.contains('/') || Path::new(asked).join("run.json").is_file() {
        return Ok(RunFolder::open(Path::new(asked))?);
    }
    let mut runs = known_runs(root);
    if runs.is_empty() {
        return Err(Failure::new(format!("no runs in {}", root.display()))
            .hint("record one with `nilo run -- COMMAND`, or say where with --dir"));
    }
    if let Some(back) = steps_back(asked) {
        return match runs.len().checked_sub(back + 1) {
            Some(index) => Ok(runs.swap_remove(index).0),
            None => Err(Failure::new(format!("there are only {} runs", runs.len()))
                .hint("`nilo runs` lists them")),
        };
    }
    // After the jobs, so that of two with the same name the training is meant.
    let inside = runs_inside(&runs);
    runs.extend(inside);
    let exact = runs.iter().rposition(|(_, run)| run.id.as_str() == asked);
    let named = || {
        runs.iter()
            .rposition(|(_, run)| run.name.as_deref() == Some(asked))
    };
    if let Some(index) = exact.or_else(named) {
        return Ok(runs.swap_remove(index).0);
    }
    let begins: Vec<usize> = (0..runs.len())
        .filter(|&index| runs[index].1.id.as_str().starts_with(asked))
        .collect();
    match begins[..] {
        [only] => Ok(runs.swap_remove(only).0),
        [] => {
            Err(Failure::new(format!("no run is called {asked:?}")).hint("`nilo runs` lists them"))
        }
        _ => {
            let ids: Vec<&str> = begins
                .iter()
                .map(|&index| runs[index].1.id.as_str())
                .collect();
            Err(
                Failure::new(format!("{asked:?} could be any of {}", ids.join(", ")))
                    .hint("give more of the id"),
            )
        }
    }
}

/// `last` is 0, `last~2` is 2.
fn steps_back(asked: &str) -> Option<usize> {
    match asked.strip_prefix("last")? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

/// A run read whole, with its ending.
pub(crate) fn load(folder: &RunFolder) -> Result<(Recording, Ending), Failure> {
    load_where(folder, &|_| true)
}

/// Some tables of a run, with its ending.
pub(crate) fn load_where(
    folder: &RunFolder,
    keep: &dyn Fn(&TableSpec) -> bool,
) -> Result<(Recording, Ending), Failure> {
    let recording = folder.load_where(keep)?;
    let ending = after_the_fact(&recording);
    Ok((recording, ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_counts_backwards() {
        assert_eq!(steps_back("last"), Some(0));
        assert_eq!(steps_back("last~3"), Some(3));
        assert_eq!(steps_back("lastly"), None);
        assert_eq!(steps_back("first"), None);
    }
}
