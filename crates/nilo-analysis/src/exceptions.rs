//! Exceptions that nobody caught, and the one that ended the run.

use nilo_sample::units::to_secs;
use nilo_sample::{Ending, Event, Recording, RunStatus, UnhandledException};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An exception as `nilo show` has it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ExceptionSummary {
    /// When.
    pub secs: f64,
    /// What.
    #[serde(flatten)]
    pub exception: UnhandledException,
}

impl ExceptionSummary {
    pub(crate) fn of((time_nanos, exception): (u64, &UnhandledException)) -> ExceptionSummary {
        ExceptionSummary {
            secs: to_secs(time_nanos),
            exception: exception.clone(),
        }
    }
}

/// Every unhandled exception with its time, in the order in which they came.
///
/// That of a notebook's last cell is stored once more when the kernel ends, without the cell: it has ended the notebook, and counts once.
pub fn exceptions(
    recording: &Recording,
) -> impl DoubleEndedIterator<Item = (u64, &UnhandledException)> {
    recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::Exception(exception) => Some((timed.time_nanos, &**exception)),
            _ => None,
        })
        .filter(|(_, exception)| exception.cell.is_none() || !has_ended(recording, exception))
}

/// Whether an exception of a cell is there as the one that ended the notebook, too.
fn has_ended(recording: &Recording, of_cell: &UnhandledException) -> bool {
    let without_cell = UnhandledException {
        cell: None,
        ..of_cell.clone()
    };
    let is_it = |event: &Event| matches!(event, Event::Exception(e) if **e == without_cell);
    recording.events.iter().any(|timed| is_it(&timed.event))
}

/// The exception that ended the run, with its time.
///
/// An exception of another thread does not end a program, nor does one of a notebook's cell. One of the command itself ends the run; one of a process below it does where the command failed:
/// a launcher or a shell script fails with what it started, and a program that goes on after its worker has failed does not.
pub fn ending_exception<'a>(
    recording: &'a Recording,
    ending: &Ending,
) -> Option<(u64, &'a UnhandledException)> {
    let of_main_thread = || {
        let all = exceptions(recording);
        all.filter(|(_, exception)| exception.thread.is_none() && exception.cell.is_none())
    };
    let is_root = |pid: u32| recording.description.root_pids.contains(&pid);
    let of_command = of_main_thread().rfind(|(_, exception)| is_root(exception.pid));
    let has_failed = match ending.status {
        RunStatus::Exited => ending.exit_code != Some(0),
        RunStatus::Ended | RunStatus::Killed | RunStatus::Lost => true,
        RunStatus::Running | RunStatus::OomKilled | RunStatus::Detached => false,
    };
    // The first process to fail takes the others with it.
    of_command
        .filter(|_| ending.exit_code != Some(0))
        .or_else(|| of_main_thread().next().filter(|_| has_failed))
}

/// The exception that ended the run, where it says that an allocation failed.
pub(crate) fn failed_allocation<'a>(
    recording: &'a Recording,
    ending: &Ending,
) -> Option<(u64, &'a UnhandledException)> {
    let ended_by = ending_exception(recording, ending);
    ended_by.filter(|(_, exception)| {
        exception.is_gpu_out_of_memory() || exception.is_host_out_of_memory()
    })
}

#[cfg(test)]
#[path = "exceptions_tests.rs"]
mod tests;
