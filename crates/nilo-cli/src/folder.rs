//! Where runs lie, and which run the user means.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use nilo_recorder::{after_the_fact, fallback_folders};
use nilo_runfile::RunFolder;
use nilo_runfile::find::{self, DescribedRun, FindError, SameName};
use nilo_sample::{Ending, Recording, RunDescription, RunId, TableSpec};

use crate::failure::Failure;
use crate::settings::Settings;

/// Where runs are kept.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunsDir {
    /// Folder that holds the runs [default: ./.nilo]
    #[arg(long, env = "NILO_DIR", value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

impl RunsDir {
    /// Whether `--dir` names the folder. A variable may name one that the first recording will make, or that could not be made.
    pub(crate) fn is_named(&self) -> bool {
        let variable = std::env::var_os("NILO_DIR").map(PathBuf::from);
        self.dir.is_some() && self.dir != variable
    }
}

/// The folder that holds the runs.
pub(crate) fn runs_root(place: &RunsDir, settings: &Settings) -> PathBuf {
    let asked = place.dir.clone().or_else(|| settings.dir.clone());
    asked.unwrap_or_else(nilo_settings::default_root)
}

/// The folder that holds the runs, for a command that reads them. One that `--dir` names must be there:
/// behind a misspelt name nothing lies, and what this directory has in the fallback folder is not what was asked for.
pub(crate) fn existing_root(place: &RunsDir, settings: &Settings) -> Result<PathBuf, Failure> {
    let root = runs_root(place, settings);
    let unreadable = std::fs::read_dir(&root).err().map(|error| error.kind());
    if unreadable == Some(ErrorKind::PermissionDenied) {
        let sentence = format!(
            "cannot read the folder {}: permission denied",
            root.display()
        );
        return Err(
            Failure::new(sentence).hint("its owner can share runs with `nilo run --shared`")
        );
    }
    let is_there = root.symlink_metadata().is_ok();
    if place.is_named() && is_there && unreadable == Some(ErrorKind::NotADirectory) {
        let failure = Failure::new(format!("not a folder: {}", root.display()));
        return Err(failure.hint("--dir names the folder that holds the runs"));
    }
    if !place.is_named() || is_there {
        return Ok(root);
    }
    let failure = Failure::new(format!("no such folder: {}", root.display()));
    Err(match runs_elsewhere(&root).first() {
        Some((folder, _)) => failure.hint(format!(
            "check the spelling of --dir; runs of this directory that could not be stored in it are in {}",
            folder.display()
        )),
        None => failure.hint("check the spelling of --dir"),
    })
}

/// The runs of a folder and those of this directory in the fallback folder, oldest first, without those inside jobs.
pub(crate) fn known_runs(root: &Path) -> Vec<DescribedRun> {
    find::known_runs(root, &fallback_folders())
}

/// The fallback folders with the runs of this directory in them.
pub(crate) fn runs_elsewhere(root: &Path) -> Vec<(PathBuf, Vec<DescribedRun>)> {
    find::runs_elsewhere(root, &fallback_folders())
}

/// The run that the user means by an id, the beginning of one, a name, a path or `last`: the newest of several with one name.
pub(crate) fn find_run(root: &Path, asked: Option<&str>) -> Result<RunFolder, Failure> {
    let asked = Path::new(asked.unwrap_or("last"));
    find::find_run(root, &fallback_folders(), asked, SameName::Newest).map_err(refused)
}

/// The one run that the user means: of several with one name, none.
pub(crate) fn find_only_run(root: &Path, asked: &str) -> Result<RunFolder, Failure> {
    let asked = Path::new(asked);
    find::find_run(root, &fallback_folders(), asked, SameName::Refused).map_err(refused)
}

/// The run of an id, if it is there and can be opened.
pub(crate) fn find_by_id(root: &Path, id: &RunId) -> Result<Option<RunFolder>, Failure> {
    let id = Path::new(id.as_str());
    match find::find_run(root, &fallback_folders(), id, SameName::Newest) {
        Ok(folder) => Ok(Some(folder)),
        Err(FindError::NoSuchRun { .. } | FindError::NoRuns { .. } | FindError::Open(_)) => {
            Ok(None)
        }
        Err(error) => Err(refused(error)),
    }
}

fn refused(error: FindError) -> Failure {
    let hint = error.hint();
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A run read whole, with its ending.
pub(crate) fn load(folder: &RunFolder) -> Result<(Recording, Ending), Failure> {
    load_where(folder, &|_| true)
}

/// What was recorded just now: its folder may have been deleted meanwhile, by the job itself for example.
pub(crate) fn load_recorded(folder: &RunFolder) -> Result<Recording, Failure> {
    match is_deleted(folder) {
        true => {
            let path = folder.path().display();
            let sentence = format!(
                "the run's folder was deleted while it was being recorded, and the recording is lost: {path}"
            );
            let hint =
                "where a job deletes that folder, record elsewhere with `--dir` or `NILO_DIR`";
            Err(Failure::new(sentence).hint(hint))
        }
        false => Ok(folder.load()?),
    }
}

/// Whether a run may be deleted: another program may have a `run.json`, too.
pub(crate) fn is_ours(description: &RunDescription) -> bool {
    description.schema.starts_with("nilo.run/")
}

/// What a run's folder is called; that of a copied run differs from the id in it.
pub(crate) fn folder_name(folder: &RunFolder) -> String {
    let path = folder.path();
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

pub(crate) fn is_deleted(folder: &RunFolder) -> bool {
    matches!(folder.path().try_exists(), Ok(false))
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
