//! The summary of a run: what `nilo show` and the block after `nilo run` print.
//!
//! Its JSON form is a promise (`nilo.show/1`): keys carry their units, and every memory figure says what kind it is.

mod advice;
mod cpu;
mod events;
mod figures;
mod memory;
mod processes;
mod recommendations;
mod recorder;

pub use advice::Advice;
pub use cpu::{CpuSummary, UsageSummary};
pub use events::{AttachmentSummary, MarkSummary, UndeliveredAlerts};
pub use figures::ChartFigures;
pub use memory::{MemorySummary, NOTABLE_SHARE, SampleKind, notable_charge, peak_memory_bytes};
pub use processes::ProcessSummary;
pub use recorder::{RecorderSummary, damage};

use std::collections::BTreeMap;

use advice::collect_advice;
use cpu::{summarize_cpu, summarize_usage};
pub(crate) use memory::summarize_memory;
use nilo_advice::{Facts, Recommendation};
use nilo_sample::units::to_secs;
use nilo_sample::{
    Alert, Ending, LostRank, Optimization, RecorderDeath, Recording, RunMode, RunStatus, Severity,
};
use processes::summarize_processes;
use recommendations::take_over_advice;
use recorder::summarize_recorder;
use schemars::JsonSchema;
use serde::Serialize;

use crate::assessment::ran_out;
use crate::bottleneck::{Bottleneck, TimedPhase, find_bottleneck};
use crate::exceptions::{ExceptionSummary, ending_exception, exceptions};
use crate::facts::{SummaryFigures, facts_of, optimizations};
use crate::failed_rank::{FailedRank, failed_rank};
use crate::findings::{Finding, JudgedRecording, find};
use crate::gpu_account::{GpuAccount, account_for_gpus};
use crate::gpus::{GpuSummary, summarize_gpus};
use crate::handled_gpu_failures::{HandledGpuFailures, handled_gpu_failures};
use crate::host_memory::{HostMemorySummary, summarize_host};
use crate::metrics::{MetricSummary, summarize_metrics};
use crate::oom_summary::OomSummary;
use crate::outline::{ending_severity, has_run_out_of, short_ending};
use crate::phases::{PhaseSummary, summarize_phases};
use crate::settings::settings;
use crate::slurm_place::SlurmPlace;
use crate::throughput::{ThroughputSummary, summarize_throughput};
use crate::torch_memory::{TorchMemorySummary, summarize_torch_memory};
use crate::tracking::ResourceTracker;

/// A run in figures.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Summary {
    /// `nilo.show/1`.
    #[schemars(extend("const" = SHOW_SCHEMA))]
    pub schema: &'static str,
    /// Run id.
    pub run: String,
    /// The user's name for it.
    pub name: Option<String>,
    /// The job that it lies in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The run that it continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumes: Option<String>,
    /// The job that its program was started in, where that was over when the run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_by_job: Option<String>,
    /// Where it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provenance: Option<nilo_sample::Provenance>,
    /// The user's tags.
    pub tags: BTreeMap<String, String>,
    /// How it came to be recorded.
    pub mode: RunMode,
    /// The command line.
    pub command: Vec<String>,
    /// Where it ran.
    pub cwd: String,
    /// On which machine.
    pub host: String,
    /// The Slurm job that it ran in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurm: Option<SlurmPlace>,
    /// Nanoseconds since 1970.
    pub started_unix_nanos: u64,
    /// How it ended, or that it has not.
    pub status: RunStatus,
    /// The command's exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The rank of a distributed run that failed first, unless the first to end was told to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_rank: Option<FailedRank>,
    /// The rank of a distributed run that ended without a word, as when it is killed; the others were stopped by SIGTERM then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_rank: Option<LostRank>,
    /// From start to end.
    pub duration_secs: f64,
    /// Memory ran out: the kernel killed, or an exception says so. A kill of which it is not sure that it was the job's is here too.
    pub oom: Option<OomSummary>,
    /// Allocations on a GPU that failed while the program went on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handled_gpu_failures: Option<HandledGpuFailures>,
    /// The unhandled exception that ended the program, where it uses the Python package.
    pub exception: Option<ExceptionSummary>,
    /// Every unhandled exception, those of other threads and processes too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exceptions: Vec<ExceptionSummary>,
    /// Memory of the whole tree.
    pub memory: MemorySummary,
    /// Memory of the machine, where the run has no job (`mode` is `machine`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_memory: Option<HostMemorySummary>,
    /// CPU of the whole tree.
    pub cpu: CpuSummary,
    /// What the kernel counted for the command and everything that it waited for, as `wait4` tells at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageSummary>,
    /// Every process seen, the one that added most first.
    pub processes: Vec<ProcessSummary>,
    /// GPUs by their driver's account: those that the job held memory on, and those that it might have.
    pub gpus: Vec<GpuSummary>,
    /// What the memory of a GPU was made of at the job's peak there; only of GPUs of which it is certain which PyTorch device they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpu_accounts: Vec<GpuAccount>,
    /// GPU memory as PyTorch counts it, for each device of each process.
    pub torch_memory: Vec<TorchMemorySummary>,
    /// The program's settings, as it told them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, serde_json::Value>,
    /// What the program logged, in the order of its first values.
    pub metrics: Vec<MetricSummary>,
    /// Phases of the training step, inner ones behind their outer one.
    pub phases: Vec<PhaseSummary>,
    /// The part of the training step to look at first; absent where its parts were not timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Bottleneck>,
    /// Batches, samples and tokens; absent when the program counted none.
    pub throughput: Option<ThroughputSummary>,
    /// What was noticed.
    pub findings: Vec<Finding>,
    /// What to do about it.
    pub advice: Vec<Advice>,
    /// What the rules of advice recommend for what is known of the training, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recommendations: Vec<Recommendation>,
    /// Optimizations that were tried on the program, with what was measured before and after.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub optimizations: Vec<Optimization>,
    /// What the recommendations rest on.
    #[serde(skip)]
    pub facts: Facts,
    /// Alerts as they were raised and cleared.
    pub alerts: Vec<Alert>,
    /// Alerts that did not reach the alert command or the webhook, by reason.
    pub alerts_not_delivered: Vec<UndeliveredAlerts>,
    /// The user's marks.
    pub marks: Vec<MarkSummary>,
    /// Files attached to the run, by name; `nilo verify` tells whether they are still what was attached.
    pub attachments: Vec<AttachmentSummary>,
    /// Processes that went on after the command ended.
    pub left_running: Vec<u32>,
    /// The recorder died before the run was over, where that is why nobody saw its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorder_death: Option<RecorderDeath>,
    /// What could not be seen.
    pub blind_spots: Vec<String>,
    /// What the recording itself cost and lost.
    pub recorder: RecorderSummary,
}

/// The value of [`Summary::schema`].
pub const SHOW_SCHEMA: &str = "nilo.show/1";

/// Summarizes a recording whose ending has been judged.
pub fn summarize(recording: &Recording, ending: &Ending) -> Summary {
    let description = &recording.description;
    let duration_nanos = ending.time_nanos.max(1);
    let (mut tracker, changes) = ResourceTracker::over(recording, Some(ending));
    let ran_out = ran_out(recording, ending, &mut tracker);
    let seen = JudgedRecording {
        recording,
        ending,
        ran_out: ran_out.as_ref(),
        verdicts: tracker.verdicts(None),
        changes,
    };
    let phases = summarize_phases(recording, duration_nanos);
    let phase_totals = phases.iter().map(|phase| TimedPhase {
        name: &phase.name,
        total_secs: phase.total_secs,
        count: phase.represented_count,
    });
    let bottleneck = find_bottleneck(phase_totals);
    let memory = summarize_memory(recording).with_ending(ran_out.as_ref());
    let torch_memory = summarize_torch_memory(recording);
    let metrics = summarize_metrics(recording);
    let throughput = summarize_throughput(recording);
    let figures = SummaryFigures {
        memory: &memory,
        verdicts: &seen.verdicts,
        ran_out: ran_out.as_ref(),
        torch_memory: &torch_memory,
        metrics: &metrics,
        phases: &phases,
        bottleneck: bottleneck.as_ref(),
        throughput: throughput.as_ref(),
    };
    let gpus = summarize_gpus(recording, ending.time_nanos);
    let facts = facts_of(recording, figures);
    let recommendations = nilo_advice::recommend(&facts);
    let findings = take_over_advice(find(&seen), &recommendations, &facts);
    Summary {
        schema: SHOW_SCHEMA,
        run: description.id.to_string(),
        name: description.name.clone(),
        parent: description.parent.as_ref().map(ToString::to_string),
        resumes: description.resumes.as_ref().map(ToString::to_string),
        started_by_job: description.started_by_job.as_ref().map(ToString::to_string),
        provenance: description.provenance.clone(),
        tags: description.tags.clone(),
        mode: description.mode.clone(),
        command: description.command.clone(),
        cwd: description.cwd.clone(),
        host: description.host.clone(),
        slurm: SlurmPlace::of_recording(recording),
        started_unix_nanos: description.started_unix_nanos,
        status: ending.status,
        exit_code: ending.exit_code,
        signal: ending.signal,
        failed_rank: failed_rank(recording).map(|rank| rank.within(to_secs(duration_nanos))),
        lost_rank: ending.lost_rank,
        duration_secs: to_secs(duration_nanos),
        oom: OomSummary::of(ran_out.as_ref(), ending.oom.as_ref()),
        handled_gpu_failures: handled_gpu_failures(recording, ending, |_| true),
        exception: ending_exception(recording, ending).map(ExceptionSummary::of),
        exceptions: exceptions(recording).map(ExceptionSummary::of).collect(),
        memory,
        host_memory: summarize_host(recording, ending.time_nanos),
        cpu: summarize_cpu(recording, duration_nanos),
        usage: summarize_usage(recording),
        processes: summarize_processes(recording),
        gpu_accounts: account_for_gpus(recording, &gpus),
        gpus,
        torch_memory,
        config: settings(recording),
        metrics,
        advice: collect_advice(&findings, bottleneck.as_ref()),
        bottleneck,
        phases,
        throughput,
        findings,
        recommendations,
        optimizations: optimizations(recording),
        facts,
        alerts: events::alerts(recording),
        alerts_not_delivered: events::alerts_not_delivered(recording),
        marks: events::marks(recording),
        attachments: events::attachments(recording),
        left_running: ending.left_running.clone(),
        recorder_death: ending.recorder_death.clone(),
        blind_spots: events::blind_spots(recording),
        recorder: summarize_recorder(recording),
    }
}

impl Summary {
    /// Whether it ended because memory ran out.
    pub fn has_run_out(&self) -> bool {
        has_run_out_of(self.oom.as_ref())
    }

    /// How it ended in a few words: `exited 3`, `exited 1 (out of memory)`, `killed 9`, `oom-killed`.
    pub fn short_ending(&self) -> String {
        short_ending(
            self.status,
            self.exit_code,
            self.signal,
            self.oom.as_ref(),
            self.recorder_death.as_ref(),
        )
    }

    /// How serious its ending is, as of a finding; nothing for one that went well or is not known.
    pub fn ending_severity(&self) -> Option<Severity> {
        ending_severity(self.status, self.exit_code, self.oom.as_ref())
    }

    /// The metric to draw when nobody names one: the loss, or else the first.
    pub fn usual_metric(&self) -> Option<String> {
        figures::usual_metric(self.metrics.iter().map(|metric| metric.name.as_str()))
    }
}

/// A figure as a whole number; nothing for one that is negative or not a number.
fn whole(value: f64) -> Option<u64> {
    (value.is_finite() && value >= 0.0).then_some(value as u64)
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
