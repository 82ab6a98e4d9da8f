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
    /// Several folders hold the run, as after copying one: they may have become different since.
    #[error("{} folders hold the run {id}:{}", paths.len(), lines(paths))]
    SeveralFolders {
        /// The run.
        id: String,
        /// Where it lies.
        paths: Vec<PathBuf>,
    },
    /// Several runs have this name, and taking the newest would be a guess.
    #[error("{} runs are called {asked:?}:{}", paths.len(), lines(paths))]
    SeveralRuns {
        /// What was asked for.
        asked: String,
        /// Where they lie.
        paths: Vec<PathBuf>,
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
            FindError::SeveralFolders { .. } => Some("name one by its path"),
            FindError::SeveralRuns { .. } => Some("name one by its id or its path"),
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

/// What a name means that several runs have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SameName {
    /// The newest of them.
    Newest,
    /// Nothing, where a guess could do harm.
    Refused,
}

/// The run that the user means by a path, an id or the beginning of one, a name, or `last~N`.
///
/// A text with a slash is a name where no run lies at that path. Only a path says which of several copies of a run is meant.
pub fn find_run(
    root: &Path,
    fallbacks: &[PathBuf],
    asked: &Path,
    same_name: SameName,
) -> Result<RunFolder, FindError> {
    let found = match find_runs(root, fallbacks, asked)? {
        FoundRuns::AtPath(folder) => return Ok(folder),
        FoundRuns::Known(found) => found,
    };
    let Some((newest, told)) = found.last() else {
        let asked = asked.to_string_lossy().into_owned();
        return Err(FindError::NoSuchRun { asked });
    };
    let paths = |is_one: &dyn Fn(&RunDescription) -> bool| -> Vec<PathBuf> {
        let those = found.iter().filter(|(_, run)| is_one(run));
        those.map(|(folder, _)| folder.path().to_owned()).collect()
    };
    let copies = paths(&|run| run.id == told.id);
    let all = paths(&|_| true);
    if copies.len() > 1 && (copies.len() == all.len() || same_name == SameName::Newest) {
        return Err(FindError::SeveralFolders {
            id: told.id.to_string(),
            paths: copies,
        });
    }
    if all.len() > 1 && same_name == SameName::Refused {
        return Err(FindError::SeveralRuns {
            asked: asked.to_string_lossy().into_owned(),
            paths: all,
        });
    }
    Ok(newest.clone())
}

/// What fits the words of the user.
enum FoundRuns {
    /// The run at that path: nothing else is meant.
    AtPath(RunFolder),
    /// Runs of one id or one name, oldest first.
    Known(Vec<DescribedRun>),
}

fn find_runs(root: &Path, fallbacks: &[PathBuf], asked: &Path) -> Result<FoundRuns, FindError> {
    let has_slash = asked.as_os_str().as_encoded_bytes().contains(&b'/');
    if has_slash || asked.join("run.json").is_file() {
        let no_run = match RunFolder::open(asked) {
            Ok(folder) => return Ok(FoundRuns::AtPath(folder)),
            Err(error) => error,
        };
        let mut runs = with_runs_inside(known_runs(root, fallbacks));
        runs.retain(|(_, run)| run.name.as_deref().map(Path::new) == Some(asked));
        return match runs.is_empty() {
            true => Err(no_run.into()),
            false => Ok(FoundRuns::Known(runs)),
        };
    }
    let runs = known_runs(root, fallbacks);
    if runs.is_empty() {
        return Err(nothing_in(root));
    }
    let asked = asked.to_string_lossy().into_owned();
    if let Some(back) = steps_back(&asked) {
        let count = runs.len();
        return match count.checked_sub(back).and_then(|it| it.checked_sub(1)) {
            Some(index) => {
                let id = runs[index].1.id.clone();
                let copies = runs.into_iter().filter(|(_, run)| run.id == id);
                Ok(FoundRuns::Known(copies.collect()))
            }
            None => Err(FindError::TooFarBack { asked, count }),
        };
    }
    let runs = with_runs_inside(runs);
    let those = |is_meant: &dyn Fn(&RunDescription) -> bool| -> Vec<DescribedRun> {
        let meant = runs.iter().filter(|(_, run)| is_meant(run));
        meant.cloned().collect()
    };
    let exact = those(&|run| run.id.as_str() == asked);
    if !exact.is_empty() {
        return Ok(FoundRuns::Known(exact));
    }
    let named = those(&|run| run.name.as_deref() == Some(&asked));
    if !named.is_empty() {
        return Ok(FoundRuns::Known(named));
    }
    let begins = those(&|run| !asked.is_empty() && run.id.as_str().starts_with(&asked));
    let mut ids: Vec<String> = begins.iter().map(|(_, run)| run.id.to_string()).collect();
    ids.dedup();
    match ids.len() {
        0 => Err(unusable_run(root, &asked).unwrap_or(FindError::NoSuchRun { asked })),
        1 => Ok(FoundRuns::Known(begins)),
        _ => Err(FindError::Ambiguous { asked, ids }),
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

/// One path a line.
fn lines(paths: &[PathBuf]) -> String {
    let lines = paths.iter().map(|path| format!("\n  {}", path.display()));
    lines.collect()
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

    fn newest(root: &Path, asked: &Path) -> Result<RunFolder, FindError> {
        find_run(root, &[], asked, SameName::Newest)
    }

    #[test]
    fn a_copied_run_is_meant_by_its_path_alone() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let mut description = nilo_sample::fixture::description();
        description.name = Some("train".to_owned());
        for id in ["20261115-1", "20261115-2"] {
            description.id = id.parse().unwrap();
            RunFolder::create(root, &description).unwrap();
        }
        let copy = root.join("copy");
        std::fs::create_dir(&copy).unwrap();
        std::fs::copy(root.join("20261115-2/run.json"), copy.join("run.json")).unwrap();
        for asked in ["20261115-2", "last", "last~1", "train"] {
            let error = newest(root, Path::new(asked)).unwrap_err();
            let FindError::SeveralFolders { id, mut paths } = error else {
                panic!("{asked}: {error}");
            };
            paths.sort();
            assert_eq!(id, "20261115-2");
            assert_eq!(paths, [root.join("20261115-2"), copy.clone()]);
        }
        assert_eq!(newest(root, &copy).unwrap().path(), copy);
        let only = newest(root, Path::new("20261115-1")).unwrap();
        assert_eq!(only.path(), root.join("20261115-1"));
        // The beginning of an id that two folders have is no more ambiguous than the id.
        let error = newest(root, Path::new("20261115-")).unwrap_err();
        assert!(matches!(error, FindError::Ambiguous { ids, .. } if ids.len() == 2));
        std::fs::remove_dir_all(root.join("20261115-1")).unwrap();
        let error = newest(root, Path::new("2026")).unwrap_err();
        assert!(matches!(error, FindError::SeveralFolders { .. }), "{error}");
    }

    #[test]
    fn a_name_of_several_runs_is_refused_where_a_guess_could_do_harm() {
        let root = tempfile::tempdir().unwrap();
        let mut description = nilo_sample::fixture::description();
        description.name = Some("train".to_owned());
        for id in ["a", "b"] {
            description.id = id.parse().unwrap();
            RunFolder::create(root.path(), &description).unwrap();
        }
        let find = |same_name| find_run(root.path(), &[], Path::new("train"), same_name);
        assert_eq!(
            find(SameName::Newest).unwrap().path(),
            root.path().join("b")
        );
        let error = find(SameName::Refused).unwrap_err();
        assert!(matches!(error, FindError::SeveralRuns { paths, .. } if paths.len() == 2));
    }

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
        let find = |asked: &str| newest(root.path(), Path::new(asked)).unwrap_err();
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
        let mut description = nilo_sample::fixture::description();
        description.name = Some("sweep/lr0.1".to_owned());
        RunFolder::create(&runs, &description).unwrap();
        let found = newest(&runs, Path::new("sweep/lr0.1")).unwrap();
        assert_eq!(found.describe().unwrap().id, description.id);
        let missing = newest(&runs, Path::new("sweep/lr0.2")).unwrap_err();
        assert_eq!(missing.to_string(), "no such run: sweep/lr0.2");

        // A folder of that name is no run; a run at that path is the one that is meant.
        let path = root.path().join("sweep");
        description.name = path.to_str().map(str::to_owned);
        description.id = "named".parse().unwrap();
        RunFolder::create(&runs, &description).unwrap();
        std::fs::create_dir(&path).unwrap();
        let found = newest(&runs, &path).unwrap();
        assert_eq!(found.path(), runs.join("named"));
        std::fs::copy(runs.join("named/run.json"), path.join("run.json")).unwrap();
        let found = newest(&runs, &path).unwrap();
        assert_eq!(found.path(), path);
    }

    #[test]
    fn a_name_that_fits_many_runs_lists_a_few_and_an_empty_one_fits_none() {
        let root = tempfile::tempdir().unwrap();
        let mut description = nilo_sample::fixture::description();
        for number in 0..8 {
            description.id = format!("run-{number}").parse().unwrap();
            RunFolder::create(root.path(), &description).unwrap();
        }
        let find = |asked: &str| newest(root.path(), Path::new(asked)).unwrap_err();
        assert_eq!(
            find("run-").to_string(),
            "\"run-\" could be any of run-0, run-1, run-2, run-3, run-4 and 3 more"
        );
        assert!(matches!(find(""), FindError::NoSuchRun { .. }));
    }
}
