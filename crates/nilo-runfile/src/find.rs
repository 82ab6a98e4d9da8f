//! Which run the user means: the same answer for the command and for Python.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use nilo_sample::RunDescription;
use thiserror::Error;

use crate::error::RunfileError;
use crate::folder::{RunFolder, list_runs};

/// A run's folder and its `run.json`.
pub type DescribedRun = (RunFolder, RunDescription);

/// Why no run was found.
#[derive(Debug, Error)]
pub enum FindError {
    /// Nothing was recorded there.
    #[error("no runs in {root}", root = root.display())]
    NoRuns {
        /// Where.
        root: PathBuf,
    },
    /// Something was, but it cannot be read.
    #[error("none of the {} in {root} can be read: {first}", runs(*.count), root = root.display())]
    AllDamaged {
        /// Where.
        root: PathBuf,
        /// How many there are.
        count: usize,
        /// What is wrong with the first of them.
        first: String,
    },
    /// `last~N` reaches back too far.
    #[error("{asked} reaches back too far: there {are} {count} (not counting runs inside jobs)", are = if *count == 1 { "is" } else { "are" }, count = runs(*count))]
    TooFarBack {
        /// What was asked for.
        asked: String,
        /// How many there are.
        count: usize,
    },
    /// Neither an id nor a name.
    #[error("no run is called {asked:?}")]
    NoSuchRun {
        /// What was asked for.
        asked: String,
    },
    /// Several ids begin so.
    #[error("{asked:?} could be any of {}", some_of(ids))]
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// The ids.
        ids: Vec<String>,
    },
    /// A path that leads to no run.
    #[error(transparent)]
    Open(#[from] RunfileError),
}

impl FindError {
    /// What the user can do about it, as one sentence for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            FindError::NoRuns { .. } => {
                Some("record one with `nilo run -- COMMAND`, or choose another folder with --dir")
            }
            FindError::TooFarBack { .. } | FindError::NoSuchRun { .. } => {
                Some("`nilo runs` lists them")
            }
            FindError::AllDamaged { .. } => Some(
                "`nilo verify --all`, with the same --dir if one was given, shows what is wrong; `nilo run -- COMMAND` records a new one",
            ),
            FindError::Ambiguous { .. } => Some("type more of the id"),
            FindError::Open(error) => error.hint(),
        }
    }
}

/// Every run of a folder that can be described, oldest first; what is broken is left to `nilo verify`.
pub fn readable_runs(root: &Path) -> Vec<DescribedRun> {
    let folders = list_runs(root).into_iter().filter_map(Result::ok);
    folders.filter_map(described).collect()
}

/// Fallback folders with the runs in them that were meant for this folder, which could not be written then.
pub fn runs_elsewhere(root: &Path, fallbacks: &[PathBuf]) -> Vec<(PathBuf, Vec<DescribedRun>)> {
    let Ok(here) = std::env::current_dir() else {
        return Vec::new();
    };
    let asked_for = std::path::absolute(root).ok();
    let is_root = |folder: &Path| folder.canonicalize().ok() == root.canonicalize().ok();
    let elsewhere = fallbacks.iter().filter(|folder| !is_root(folder));
    elsewhere
        .map(|folder| {
            let mut runs = readable_runs(folder);
            runs.retain(|(_, run)| match &run.asked_dir {
                Some(asked) => Some(Path::new(asked)) == asked_for.as_deref(),
                // Recorded before it was written down.
                None => Path::new(&run.cwd) == here,
            });
            (folder.clone(), runs)
        })
        .filter(|(_, runs)| !runs.is_empty())
        .collect()
}

/// The runs of a folder and those of this directory in fallback folders, oldest first, without those inside jobs.
pub fn known_runs(root: &Path, fallbacks: &[PathBuf]) -> Vec<DescribedRun> {
    let mut runs = readable_runs(root);
    let elsewhere = runs_elsewhere(root, fallbacks).into_iter();
    runs.extend(elsewhere.flat_map(|(_, runs)| runs));
    sort_by_start(&mut runs);
    runs
}

/// These runs and those inside them, oldest first.
pub fn with_runs_inside(mut runs: Vec<DescribedRun>) -> Vec<DescribedRun> {
    let inside = runs.iter().flat_map(|(job, _)| job.runs_inside());
    let inside: Vec<_> = inside.filter_map(described).collect();
    runs.extend(inside);
    sort_by_start(&mut runs);
    runs
}

/// The runs that the user may mean by a path, an id or the beginning of one, a name, or `last~N`, oldest first.
///
/// A text with a slash is a name where no run lies at that path.
/// There is at least one; several have the same name, and the last of them is meant unless something is to be deleted.
pub fn find_runs(
    root: &Path,
    fallbacks: &[PathBuf],
    asked: &Path,
) -> Result<Vec<RunFolder>, FindError> {
    let has_slash = asked.as_os_str().as_encoded_bytes().contains(&b'/');
    if has_slash || asked.join("run.json").is_file() {
        let no_run = match RunFolder::open(asked) {
            Ok(folder) => return Ok(vec![folder]),
            Err(error) => error,
        };
        let mut runs = with_runs_inside(known_runs(root, fallbacks));
        runs.retain(|(_, run)| run.name.as_deref().map(Path::new) == Some(asked));
        return match runs.is_empty() {
            true => Err(no_run.into()),
            false => Ok(runs.into_iter().map(|(folder, _)| folder).collect()),
        };
    }
    let mut runs = known_runs(root, fallbacks);
    if runs.is_empty() {
        return Err(nothing_in(root));
    }
    let asked = asked.to_string_lossy().into_owned();
    if let Some(back) = steps_back(&asked) {
        let count = runs.len();
        return match count.checked_sub(back).and_then(|it| it.checked_sub(1)) {
            Some(index) => Ok(vec![runs.swap_remove(index).0]),
            None => Err(FindError::TooFarBack { asked, count }),
        };
    }
    let runs = with_runs_inside(runs);
    let those = |is_meant: &dyn Fn(&RunDescription) -> bool| -> Vec<RunFolder> {
        let meant = runs.iter().filter(|(_, run)| is_meant(run));
        meant.map(|(folder, _)| folder.clone()).collect()
    };
    let exact = those(&|run| run.id.as_str() == asked);
    if !exact.is_empty() {
        return Ok(exact);
    }
    let named = those(&|run| run.name.as_deref() == Some(&asked));
    if !named.is_empty() {
        return Ok(named);
    }
    let begins = those(&|run| !asked.is_empty() && run.id.as_str().starts_with(&asked));
    match begins.len() {
        0 => Err(unusable_run(root, &asked).unwrap_or(FindError::NoSuchRun { asked })),
        1 => Ok(begins),
        _ => {
            let ids = begins.iter().filter_map(|run| run.path().file_name());
            let ids = ids.map(OsStr::to_string_lossy);
            let ids = ids.map(|id| id.into_owned()).collect();
            Err(FindError::Ambiguous { asked, ids })
        }
    }
}

/// The folder of a run by its id, whether or not the run can be opened; links are none.
pub fn folder_of_id(root: &Path, id: &str) -> Option<PathBuf> {
    let is_name = Path::new(id).file_name() == Some(OsStr::new(id));
    let path = root.join(id);
    let is_folder = path.symlink_metadata().is_ok_and(|it| it.is_dir());
    (is_name && is_folder).then_some(path)
}

/// What is wrong with a run that is there by its id and cannot be described.
fn unusable_run(root: &Path, id: &str) -> Option<FindError> {
    let folder = RunFolder::open(&folder_of_id(root, id)?);
    let error = folder.and_then(|folder| folder.describe()).err()?;
    Some(error.into())
}

/// Why a folder has no run that can be used.
fn nothing_in(root: &Path) -> FindError {
    let root = root.to_owned();
    let broken: Vec<RunfileError> = list_runs(&root)
        .into_iter()
        .filter_map(|run| run.and_then(|run| run.describe()).err())
        .collect();
    match broken.first() {
        Some(first) => FindError::AllDamaged {
            first: first.to_string(),
            count: broken.len(),
            root,
        },
        None => FindError::NoRuns { root },
    }
}

fn described(folder: RunFolder) -> Option<DescribedRun> {
    folder.describe().ok().map(|told| (folder, told))
}

/// Ids begin with the time.
fn sort_by_start(runs: &mut [DescribedRun]) {
    runs.sort_by(|(_, a), (_, b)| a.id.as_str().cmp(b.id.as_str()));
}

/// `last` is 0, `last~2` is 2.
fn steps_back(asked: &str) -> Option<usize> {
    match asked.strip_prefix("last")? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

/// Why a run cannot have a name: one that already says which run is meant would never find it.
pub fn refuse_name(name: &str) -> Option<String> {
    steps_back(name)?;
    Some(format!(
        "{name:?} already means a run counted from the newest; choose another name, such as {name}-run"
    ))
}

/// The first few ids, and how many more there are.
fn some_of(ids: &[String]) -> String {
    const FEW: usize = 5;
    let shown = &ids[..ids.len().min(FEW)];
    match ids.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn runs(count: usize) -> String {
    match count {
        1 => "1 run".to_owned(),
        _ => format!("{count} runs"),
    }
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

    #[test]
    fn what_counts_backwards_is_no_name() {
        for name in ["last", "last~0", "last~12"] {
            assert!(refuse_name(name).is_some(), "{name}");
        }
        for name in ["latest", "last-run", "last~", "lastly", "Last", ""] {
            assert_eq!(refuse_name(name), None, "{name}");
        }
    }

    #[test]
    fn damaged_runs_are_not_called_no_runs() {
        let root = tempfile::tempdir().unwrap();
        let find = |asked: &str| find_runs(root.path(), &[], Path::new(asked)).unwrap_err();
        assert!(matches!(find("last"), FindError::NoRuns { .. }));
        for name in ["a", "b"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
            std::fs::write(root.path().join(name).join("run.json"), "{").unwrap();
        }
        let error = find("last").to_string();
        assert!(error.starts_with("none of the 2 runs in "), "{error}");
        assert!(
            error.contains("can be read: run.json is damaged"),
            "{error}"
        );
    }

    #[test]
    fn a_name_with_a_slash_is_found_unless_a_run_lies_at_that_path() {
        let root = tempfile::tempdir().unwrap();
        let runs = root.path().join("runs");
        let mut description = nilo_sample::fixture::recording().description;
        description.name = Some("sweep/lr0.1".to_owned());
        RunFolder::create(&runs, &description).unwrap();
        let found = find_runs(&runs, &[], Path::new("sweep/lr0.1")).unwrap();
        assert_eq!(found[0].describe().unwrap().id, description.id);
        let missing = find_runs(&runs, &[], Path::new("sweep/lr0.2")).unwrap_err();
        assert_eq!(missing.to_string(), "no such run: sweep/lr0.2");

        // A folder of that name is no run; a run at that path is the one that is meant.
        let path = root.path().join("sweep");
        description.name = path.to_str().map(str::to_owned);
        description.id = "named".parse().unwrap();
        RunFolder::create(&runs, &description).unwrap();
        std::fs::create_dir(&path).unwrap();
        let found = find_runs(&runs, &[], &path).unwrap();
        assert_eq!(found[0].path(), runs.join("named"));
        std::fs::copy(runs.join("named/run.json"), path.join("run.json")).unwrap();
        let found = find_runs(&runs, &[], &path).unwrap();
        assert_eq!(found[0].path(), path);
    }

    #[test]
    fn a_name_that_fits_many_runs_lists_a_few_and_an_empty_one_fits_none() {
        let root = tempfile::tempdir().unwrap();
        let mut description = nilo_sample::fixture::recording().description;
        for number in 0..8 {
            description.id = format!("run-{number}").parse().unwrap();
            RunFolder::create(root.path(), &description).unwrap();
        }
        let find = |asked: &str| find_runs(root.path(), &[], Path::new(asked)).unwrap_err();
        assert_eq!(
            find("run-").to_string(),
            "\"run-\" could be any of run-0, run-1, run-2, run-3, run-4 and 3 more"
        );
        assert!(matches!(find(""), FindError::NoSuchRun { .. }));
    }
}
