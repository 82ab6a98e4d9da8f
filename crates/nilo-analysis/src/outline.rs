//! What a list of runs tells of each: how it ended and how much memory it took, without judging what its curve predicted.
//!
//! A summary replays the recording through the forecasts; a list of a thousand runs cannot wait for that.

use nilo_sample::units::to_secs;
use nilo_sample::{Ending, RecorderDeath, Recording, RunStatus, Severity, Subject};

use crate::assessment::{ran_out, ran_out_without_growth};
use crate::exceptions::{ExceptionSummary, ending_exception};
use crate::oom_summary::OomSummary;
use crate::summary::{MemorySummary, summarize_memory};
use crate::tracking::ResourceTracker;

/// A run in few figures, the same as in its summary.
#[derive(Debug, Clone)]
pub struct RunOutline {
    /// How it ended, or that it has not.
    pub status: RunStatus,
    /// The command's exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// From start to end.
    pub duration_secs: f64,
    /// Memory ran out, or may have.
    pub oom: Option<OomSummary>,
    /// The unhandled exception that ended the program.
    pub exception: Option<ExceptionSummary>,
    /// Memory of the whole tree.
    pub memory: MemorySummary,
    /// The recorder died before the run was over.
    pub recorder_death: Option<RecorderDeath>,
}

/// Whether the outline of a run is made of such a table. Processes are: the peak is the largest of what the tree and they tell, in every view.
pub fn is_in_outline(subject: &Subject) -> bool {
    matches!(
        subject,
        Subject::Tree
            | Subject::Process(_)
            | Subject::ProcessDetail(_)
            | Subject::Cgroup { .. }
            | Subject::Host
            | Subject::Gpu { .. }
    )
}

/// Outlines a recording whose ending has been judged.
pub fn outline(recording: &Recording, ending: &Ending) -> RunOutline {
    // Only what ran out of memory has a growth that led there.
    let ran_out = ran_out_without_growth(recording, ending)
        .map(|_| ResourceTracker::over(recording, Some(ending)).0)
        .and_then(|mut tracker| ran_out(recording, ending, &mut tracker));
    RunOutline {
        status: ending.status,
        exit_code: ending.exit_code,
        signal: ending.signal,
        duration_secs: to_secs(ending.time_nanos.max(1)),
        oom: OomSummary::of(ran_out.as_ref(), ending.oom.as_ref()),
        exception: ending_exception(recording, ending).map(ExceptionSummary::of),
        memory: summarize_memory(recording).with_ending(ran_out.as_ref()),
        recorder_death: ending.recorder_death.clone(),
    }
}

impl RunOutline {
    /// How it ended in a few words: `exited 3`, `exited 1 (out of memory)`, `killed 9`, `oom-killed`, `gpu-out-of-memory`.
    pub fn short_ending(&self) -> String {
        short_ending(
            self.status,
            self.exit_code,
            self.signal,
            self.oom.as_ref(),
            self.recorder_death.as_ref(),
        )
    }

    /// Whether it ended because memory ran out.
    pub fn has_run_out(&self) -> bool {
        has_run_out_of(self.oom.as_ref())
    }

    /// How serious its ending is, as of a finding; nothing for one that went well or is not known.
    pub fn ending_severity(&self) -> Option<Severity> {
        ending_severity(self.status, self.exit_code, self.oom.as_ref())
    }
}

pub(crate) fn short_ending(
    status: RunStatus,
    exit_code: Option<i32>,
    signal: Option<i32>,
    oom: Option<&OomSummary>,
    recorder_death: Option<&RecorderDeath>,
) -> String {
    match (status, exit_code, signal) {
        (RunStatus::Exited, Some(code), _) if has_run_out_of(oom) => {
            format!("exited {code} (out of memory)")
        }
        (RunStatus::Exited, Some(code), _) => format!("exited {code}"),
        (RunStatus::Killed, _, Some(signal)) if has_run_out_of(oom) => {
            format!("killed {signal} (out of memory)")
        }
        (RunStatus::Killed, _, Some(signal)) => format!("killed {signal}"),
        (RunStatus::Lost, _, _) if recorder_death.is_some() => "lost (nilo died)".to_owned(),
        (status, _, _) => status.as_str().to_owned(),
    }
}

pub(crate) fn ending_severity(
    status: RunStatus,
    exit_code: Option<i32>,
    oom: Option<&OomSummary>,
) -> Option<Severity> {
    match (status, exit_code) {
        _ if has_run_out_of(oom) => Some(Severity::Critical),
        (RunStatus::OomKilled | RunStatus::GpuOutOfMemory, _) => Some(Severity::Critical),
        (RunStatus::Killed | RunStatus::Lost, _) => Some(Severity::Warning),
        (RunStatus::Exited, Some(code)) if code != 0 => Some(Severity::Warning),
        _ => None,
    }
}

/// Whether a run ended because memory ran out; where that is only possible, no resource is named.
pub(crate) fn has_run_out_of(oom: Option<&OomSummary>) -> bool {
    oom.is_some_and(|oom| oom.resource.is_some())
}
