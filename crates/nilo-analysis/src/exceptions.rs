//! Exceptions that nobody caught, and the one that ended the run.

use nilo_sample::units::to_secs;
use nilo_sample::{Ending, Event, Recording, RunStatus, UnhandledException};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::failed_rank::failed_rank;

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
/// The program that runs the notebook fails with another that tells of it, which counts where the notebook itself told nothing.
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
        .filter(|(_, exception)| !is_told_by_notebook(recording, exception))
}

/// What programs that run notebooks raise where a cell has failed.
const OF_NOTEBOOK_PROGRAM: &str = "nbclient.";

/// Whether it tells of the exception of a cell that is there as the notebook told it: the message ends with type and message of that.
fn is_told_by_notebook(recording: &Recording, told: &UnhandledException) -> bool {
    told.type_name.starts_with(OF_NOTEBOOK_PROGRAM)
        && recording.events.iter().any(|timed| match &timed.event {
            Event::Exception(cell) if cell.pid != told.pid => {
                let name = cell.type_name.rsplit('.').next().unwrap_or_default();
                told.message.contains(name) && told.message.contains(cell.message.trim_end())
            }
            _ => false,
        })
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
/// Where a rank tells that it failed, the first exception is the reason.
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
        RunStatus::Ended | RunStatus::Killed | RunStatus::Lost | RunStatus::GpuOutOfMemory => true,
        RunStatus::Running | RunStatus::OomKilled | RunStatus::Detached => false,
    };
    // The first process to fail takes the others with it.
    let first = of_main_thread().next().filter(|_| has_failed);
    match of_command.filter(|_| ending.exit_code != Some(0)) {
        Some((_, exception)) if exception.is_of_failed_child() => first,
        // Of ranks that a launcher started, the one that began the run lost its connection to the one that failed.
        Some(of_command) => first
            .filter(|_| failed_rank(recording).is_some())
            .or(Some(of_command)),
        None => first,
    }
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
