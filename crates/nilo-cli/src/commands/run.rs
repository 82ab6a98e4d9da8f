//! `nilo run`: record a command.

use std::ffi::OsString;

use nilo_recorder::{CommandSettings, RecorderError, run_command, stored_message};
use nilo_runfile::RunFolder;
use nilo_sample::printable::text_of_bytes;
use nilo_sample::{Ending, RunMode};

use crate::alerts::settle_alerts;
use crate::args::RunArgs;
use crate::end_by_signal::end_by_signal;
use crate::failure::{self, Failure};
use crate::recording::{
    check_writable, create_folder, describe, explain, interval, open_log, program_name, report,
};
use crate::settings::{DEFAULT_INTERVAL_NANOS, Settings, decide_privacy};
use crate::text::deferred_warnings::DeferredWarnings;
use crate::text::live_line::LiveLine;
use crate::text::pager::wait_for_pager;

/// A command that was recorded and has ended.
#[derive(Debug)]
pub(crate) struct RecordedCommand {
    pub(crate) folder: RunFolder,
    pub(crate) ending: Ending,
    /// Rows that could not be stored.
    pub(crate) dropped: u64,
    pub(crate) exit_code: u8,
    /// The signal that we have to die of.
    pub(crate) signal: Option<i32>,
    /// What was kept back while the command had the terminal.
    pub(crate) warnings: DeferredWarnings,
}

pub(crate) fn run(args: RunArgs, settings: &Settings) -> Result<u8, Failure> {
    let quiet = args.sampling.quiet || settings.is_quiet();
    let json = args.sampling.json.clone();
    let recorded = record(args, settings)?;
    let ending = (&recorded.ending, recorded.dropped);
    // Who sends these wants us gone; on Ctrl-C a pager stays.
    let is_told_to_end = recorded.signal.is_some_and(|signal| signal != libc::SIGINT);
    let has_to_wait = (!quiet || recorded.warnings.are_pending()) && !is_told_to_end;
    report(
        &recorded.folder,
        ending,
        quiet,
        json.as_deref(),
        settings,
        || {
            let is_terminal_free = !has_to_wait || wait_for_pager();
            if is_terminal_free {
                recorded.warnings.release();
            }
            is_terminal_free
        },
    );
    if let Some(signal) = recorded.signal {
        end_by_signal(signal);
    }
    Ok(recorded.exit_code)
}

/// Runs a command and records it. Where nothing can be recorded it takes our place, and this does not return.
pub(crate) fn record(args: RunArgs, settings: &Settings) -> Result<RecordedCommand, Failure> {
    let sampling = &args.sampling;
    let quiet = sampling.quiet || settings.is_quiet();
    decide_privacy(settings, sampling.privacy());
    let interval_nanos = interval(sampling, settings, DEFAULT_INTERVAL_NANOS)?;
    let hooks = !args.no_hooks && settings.wants_hooks()?;
    let log = open_log(sampling.memory_log.as_deref())?;
    check_writable(sampling.json.as_deref(), "summary")?;
    let deferred = DeferredWarnings::for_command();
    let alerts = settle_alerts(&args.alerts, &settings.alerts, quiet, &deferred)?;
    let words: Vec<String> = args
        .command
        .iter()
        .map(|word| text_of_bytes(word.as_encoded_bytes()).into_owned())
        .collect();
    let given = args.name.clone().filter(|name| !name.is_empty());
    let name = given.clone().unwrap_or_else(|| program_name(&words));
    let mut description = describe(RunMode::Run, words, &name, sampling);
    description.name = given.as_deref().map(stored_message);
    description.interval_nanos = interval_nanos;
    let Some(folder) = create_folder(&args.place, settings, &mut description)? else {
        return Err(run_unrecorded(&args.command));
    };

    let mut live = LiveLine::commands_terminal(sampling.live, quiet, log, deferred.clone());
    let outcome = run_command(
        CommandSettings {
            command: args.command.clone(),
            folder: &folder,
            description,
            interval_nanos,
            wait_for_all: args.wait_all,
            alerts,
            hooks,
        },
        &mut live,
    );
    drop(live);
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            deferred.release();
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
    Ok(RecordedCommand {
        ending: outcome.ending,
        dropped: outcome.dropped,
        exit_code: outcome.exit_code as u8,
        signal: outcome.signal,
        folder,
        warnings: deferred,
    })
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
