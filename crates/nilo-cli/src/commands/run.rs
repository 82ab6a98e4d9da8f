//! `nilo run`: record a command.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

use nilo_analysis::summarize;
use nilo_export::CsvLog;
use nilo_recorder::{
    Backend, CommandSettings, CreatedFolder, RecorderError, create_run_folder, describe_run,
    run_command,
};
use nilo_runfile::RunFolder;
use nilo_sample::{Ending, RunDescription};

use crate::alerts::settle_alerts;
use crate::args::{RunArgs, Sampling, Source};
use crate::end_by_signal::end_by_signal;
use crate::failure::{self, Failure};
use crate::folder::runs_root;
use crate::settings::{Settings, decide_privacy};
use crate::text::fresh_line::begin_line;
use crate::text::held_back::HeldBack;
use crate::text::live_line::LiveLine;
use crate::text::screen::Screen;
use crate::text::summary::{FEW, write_summary};
use crate::text::wrap::Wrapped;

const DEFAULT_INTERVAL_NANOS: u64 = 100_000_000;

pub(crate) fn run(args: RunArgs, settings: &Settings) -> Result<u8, Failure> {
    let sampling = &args.sampling;
    let quiet = sampling.quiet || settings.is_quiet();
    decide_privacy(settings, sampling.privacy());
    let interval_nanos = interval(sampling, settings, DEFAULT_INTERVAL_NANOS)?;
    let log = open_log(sampling.memory_log.as_deref())?;
    check_writable(sampling.json.as_deref(), "summary")?;
    let held_back = HeldBack::for_command();
    let alerts = settle_alerts(&args.alerts, &settings.alerts, quiet, &held_back)?;
    let words: Vec<String> = args
        .command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let name = args.name.clone().unwrap_or_else(|| program_name(&words));
    let mut description = describe("run", words, &name, sampling);
    description.name = args.name;
    description.interval_nanos = interval_nanos;
    let Some(folder) = create_folder(&runs_root(&args.place, settings), &mut description) else {
        return Err(run_unrecorded(&args.command));
    };

    let mut live = LiveLine::commands_terminal(sampling.live, quiet, log, held_back.clone());
    let outcome = run_command(
        CommandSettings {
            command: args.command.clone(),
            folder: &folder,
            description,
            interval_nanos,
            backend: backend(sampling.source),
            wait_for_all: args.wait_all,
            alerts,
        },
        &mut live,
    );
    drop(live);
    held_back.release();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            // A run without a command is no run.
            std::fs::remove_dir_all(folder.path()).ok();
            if !matches!(error, RecorderError::Launch(_)) {
                let reason = Failure::from(error).sentence();
                failure::warn(&format!("{reason}; nothing is recorded"));
                return Err(run_unrecorded(&args.command));
            }
            return Err(explain(error));
        }
    };
    let ending = (&outcome.ending, outcome.dropped);
    report(&folder, ending, quiet, sampling.json.as_deref());
    if let Some(signal) = outcome.signal {
        end_by_signal(signal);
    }
    Ok(outcome.exit_code as u8)
}

/// Prints the summary and writes it where asked; trouble here never changes the command's status.
///
/// The ending and the number of lost rows are those that the recorder knows: on a full disk the folder has neither.
pub(crate) fn report(
    folder: &RunFolder,
    (ending, dropped): (&Ending, u64),
    quiet: bool,
    json: Option<&Path>,
) {
    if quiet && json.is_none() {
        return;
    }
    if !quiet {
        begin_line();
    }
    let mut recording = match folder.load() {
        Ok(recording) => recording,
        Err(error) => {
            Failure::from(error).report();
            return;
        }
    };
    let of_programs = recording.dropped_program_rows;
    recording.dropped_rows = recording.dropped_rows.max(dropped + of_programs);
    let summary = summarize(&recording, ending);
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&summary).unwrap_or_default();
        if let Err(error) = std::fs::write(path, text + "\n") {
            failure::warn(&format!(
                "could not write the summary to {}: {error}",
                path.display()
            ));
        }
    }
    if !quiet {
        let mut text = Vec::new();
        write_summary(
            &mut Wrapped::new(&mut text, Screen::stderr()),
            Screen::stderr(),
            &summary,
            &folder.path().display().to_string(),
            FEW,
        )
        .ok();
        std::io::Write::write_all(&mut std::io::stderr().lock(), &text).ok();
    }
}

/// The flag or variable, else `nilo.toml`, else the default.
pub(crate) fn interval(
    sampling: &Sampling,
    settings: &Settings,
    default: u64,
) -> Result<u64, Failure> {
    let configured = settings.interval_nanos().map_err(Failure::new)?;
    Ok(sampling.interval.or(configured).unwrap_or(default))
}

pub(crate) fn backend(source: Source) -> Backend {
    match source {
        Source::Native => Backend::Native,
        Source::Portable => Backend::Portable,
    }
}

pub(crate) fn open_log(path: Option<&Path>) -> Result<Option<CsvLog<File>>, Failure> {
    let Some(path) = path else { return Ok(None) };
    if path.as_os_str() == "-" {
        let text = "the memory log cannot be written to standard output";
        return Err(Failure::new(text).hint("name a file: --memory-log memory.csv"));
    }
    let about = |error: std::io::Error| {
        Failure::new(format!(
            "cannot write the memory log {}: {error}",
            path.display()
        ))
        .hint("does its folder exist, and may you write there?")
    };
    let file = File::create(path).map_err(about)?;
    CsvLog::create(file).map(Some).map_err(about)
}

/// Says before the job, not after it, that what comes of it could not be written.
pub(crate) fn check_writable(json: Option<&Path>, what: &str) -> Result<(), Failure> {
    let Some(path) = json else { return Ok(()) };
    let open = File::options().create(true).append(true).open(path);
    open.map(drop).map_err(|error| {
        Failure::new(format!(
            "cannot write the {what} {}: {error}",
            path.display()
        ))
        .hint("does its folder exist, and may you write there?")
    })
}

/// The description of a run that begins now.
pub(crate) fn describe(
    mode: &str,
    command: Vec<String>,
    name: &str,
    sampling: &Sampling,
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

/// Creates the run's folder where asked, or where it can be: the job must run either way.
pub(crate) fn create_folder(root: &Path, description: &mut RunDescription) -> Option<RunFolder> {
    match create_run_folder(root, description) {
        Ok(CreatedFolder { folder, refused }) => {
            if let Some(error) = refused {
                let reason = Failure::from(error).sentence();
                let at = folder.path().parent().unwrap_or(folder.path());
                failure::warn(&format!("{reason}; recording to {} instead", at.display()));
            }
            Some(folder)
        }
        Err(error) => {
            let refused = Failure::from(error).sentence();
            failure::warn(&format!("{refused}; nothing is recorded"));
            None
        }
    }
}

/// There is no place to record: the command takes our place, so that it runs all the same.
fn run_unrecorded(command: &[OsString]) -> Failure {
    use std::os::unix::process::CommandExt;
    let error = std::process::Command::new(&command[0])
        .args(&command[1..])
        .exec();
    Failure::new(format!(
        "cannot run {}: {error}",
        command[0].to_string_lossy()
    ))
    .code(127)
}

/// Turns the recorder's error into one with a hint.
pub(crate) fn explain(error: RecorderError) -> Failure {
    match &error {
        RecorderError::Launch(launch) => {
            let code = launch.exit_code() as u8;
            let hint = if code == 127 {
                "is it installed, and is it in PATH? a shell built-in needs `sh -c '...'`"
            } else {
                "is it an executable file? scripts need `#!` in the first line and chmod +x"
            };
            Failure::new(launch).hint(hint).code(code)
        }
        RecorderError::Source(nilo_source::SourceError::NoSuchProcess { .. }) => {
            Failure::new(&error).hint("`nilo ps` lists processes that can be watched")
        }
        _ => Failure::from(error),
    }
}
