//! What a recording begins with: its interval, its description and its folder.

use nilo_recorder::{CreatedFolder, RunsRoot, create_run_folder, describe_run};
use nilo_runfile::RunFolder;
use nilo_sample::{RunDescription, RunMode};

use crate::args::SamplingArgs;
use crate::failure::{self, Failure};
use crate::folder::{RunsDir, runs_root};
use crate::settings::Settings;

/// The flag or variable, else `nilo.toml`, else the default.
pub(crate) fn interval(
    sampling: &SamplingArgs,
    settings: &Settings,
    default: u64,
) -> Result<u64, Failure> {
    let configured = settings.interval_nanos().map_err(Failure::new)?;
    Ok(sampling.interval.or(configured).unwrap_or(default))
}

/// The description of a run that begins now.
pub(crate) fn describe(
    mode: RunMode,
    command: Vec<String>,
    name: &str,
    sampling: &SamplingArgs,
) -> RunDescription {
    describe_run(mode, command, name, sampling.tags.iter().cloned().collect())
}

/// The file name of the program, and of the script where it is an interpreter.
pub(crate) fn program_name(command: &[String]) -> String {
    let parts: Vec<&str> = command.iter().map(String::as_str).collect();
    let comm = parts
        .first()
        .map_or("", |first| first.rsplit('/').next().unwrap_or(first));
    nilo_source::display_name(comm, &parts)
}

/// Creates the run's folder where asked, or where it can be: the job must run either way. A `--dir` that can never be a folder is refused.
pub(crate) fn create_folder(
    place: &RunsDir,
    settings: &Settings,
    description: &mut RunDescription,
) -> Result<Option<RunFolder>, Failure> {
    let path = runs_root(place, settings);
    let root = match place.is_named() {
        true => RunsRoot::Named(&path),
        false => RunsRoot::Configured(&path),
    };
    match create_run_folder(root, description) {
        Ok(CreatedFolder { folder, refused }) => {
            if let Some(error) = refused {
                let reason = Failure::from(error).sentence();
                let at = folder.path().parent().unwrap_or(folder.path());
                failure::warn(&format!("{reason}; recording to {} instead", at.display()));
            }
            Ok(Some(folder))
        }
        Err(error) => {
            if let Some(why) = root.refusal(&error) {
                let sentence = format!("--dir {} cannot hold runs: {why}", path.display());
                return Err(Failure::new(sentence).hint(
                    "name a folder that you can write to; it is created where it is missing",
                ));
            }
            let refused = Failure::from(error).sentence();
            failure::warn(&format!("{refused}; nothing is recorded"));
            Ok(None)
        }
    }
}
