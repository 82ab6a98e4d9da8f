//! The summary of a run: what `nilo show` and the block after `nilo run` print.
//!
//! Its JSON form is a promise (`nilo.show/1`): keys carry their units, and every memory figure says what kind it is.

use std::collections::BTreeMap;

use nilo_sample::units::{NANOS_PER_SEC, to_secs};
use nilo_sample::{
    Alert, Ending, Event, ProcessId, ProcessInfo, Recording, RunMode, RunStatus, Severity, Subject,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::assessment::ran_out;
use crate::bottleneck::{Bottleneck, TimedPhase, find_bottleneck};
use crate::ending::limit_in_force;
use crate::exceptions::{ExceptionSummary, ending_exception, exceptions};
use crate::failed_rank::{FailedRank, failed_rank};
use crate::findings::{Finding, JudgedRecording, find};
use crate::gpus::{GpuSummary, summarize_gpus};
use crate::held_of_limit::held_of_limit;
use crate::metrics::{MetricSummary, summarize_metrics};
use crate::oom_summary::OomSummary;
use crate::owned_cgroup::owned_cgroup_table;
use crate::peak::{PeakKind, process_peaks, tree_peak};
use crate::phases::{PhaseSummary, summarize_phases};
use crate::rate::{busiest_cpu_percent, growth, minimum, time_weighted_mean};
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
    /// From start to end.
    pub duration_secs: f64,
    /// Memory ran out: the kernel killed, or an exception says so. A kill of which it is not sure that it was the job's is here too.
    pub oom: Option<OomSummary>,
    /// The unhandled exception that ended the program, where it uses the Python package.
    pub exception: Option<ExceptionSummary>,
    /// Every unhandled exception, those of other threads and processes too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exceptions: Vec<ExceptionSummary>,
    /// Memory of the whole tree.
    pub memory: MemorySummary,
    /// CPU of the whole tree.
    pub cpu: CpuSummary,
    /// What the kernel counted for the command and everything that it waited for, as `wait4` tells at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageSummary>,
    /// Every process seen, the one that added most first.
    pub processes: Vec<ProcessSummary>,
    /// GPUs by their driver's account: those that the job held memory on, and those that it might have.
    pub gpus: Vec<GpuSummary>,
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
    pub advice: Vec<serde_json::Value>,
    /// Alerts as they were raised and cleared.
    pub alerts: Vec<Alert>,
    /// Alerts that did not reach the alert command or the webhook, by reason.
    pub alerts_not_delivered: Vec<UndeliveredAlerts>,
    /// The user's marks.
    pub marks: Vec<MarkSummary>,
    /// Processes that went on after the command ended.
    pub left_running: Vec<u32>,
    /// What could not be seen.
    pub blind_spots: Vec<String>,
    /// What the recording itself cost and lost.
    pub recorder: RecorderSummary,
}

/// Memory of the tree.
#[derive(Debug, Clone, Default, JsonSchema, Serialize)]
pub struct MemorySummary {
    /// The largest level, from the kernel where it keeps one.
    pub peak_bytes: Option<u64>,
    /// Where the peak comes from.
    pub peak_kind: Option<PeakKind>,
    /// When it was reached, as nearly as it is known.
    pub peak_secs: Option<f64>,
    /// The largest sampled level, to compare.
    pub sampled_peak_bytes: Option<u64>,
    /// Mean over time.
    pub mean_bytes: Option<u64>,
    /// The smallest sample.
    pub min_bytes: Option<u64>,
    /// Peak less the first sample.
    pub growth_bytes: Option<i64>,
    /// How many samples.
    pub samples: u64,
    /// What the samples are.
    pub sample_kind: SampleKind,
    /// The largest swap.
    pub swap_peak_bytes: Option<u64>,
    /// The limit in force.
    pub limit_bytes: Option<u64>,
    /// What imposes it.
    pub limit_source: Option<String>,
    /// What of it the job held at the peak: the peak may count file pages that are charged to another cgroup.
    #[serde(skip)]
    pub limit_used_bytes: Option<u64>,
    /// The kernel's own peak of the job's cgroup, page cache and kernel memory included.
    pub cgroup_peak_bytes: Option<u64>,
    /// The largest sampled working set of the job's cgroup.
    pub cgroup_working_set_peak_bytes: Option<u64>,
}

/// What the samples of a tree's memory count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampleKind {
    /// Resident memory: of one process, or with shared pages that were not measured.
    #[default]
    Rss,
    /// Every page of the tree once.
    DistinctPages,
}

/// CPU of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Default, JsonSchema, Serialize)]
pub struct CpuSummary {
    /// User and system time of all processes.
    pub total_secs: f64,
    /// Mean percent of one core.
    pub mean_percent: f64,
    /// The busiest second, or the mean of a shorter run.
    pub max_percent: f64,
}

/// What the kernel counted for the command.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct UsageSummary {
    /// CPU time in user mode.
    pub user_secs: f64,
    /// CPU time in the kernel.
    pub system_secs: f64,
    /// Page faults served without reading from storage.
    pub minor_faults: u64,
    /// Page faults that had to read from storage.
    pub major_faults: u64,
    /// Times that it waited for something.
    pub voluntary_switches: u64,
    /// Times that its processor was taken away.
    pub involuntary_switches: u64,
    /// Bytes read from storage.
    pub read_bytes: u64,
    /// Bytes written to storage.
    pub written_bytes: u64,
}

/// One process of the tree.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ProcessSummary {
    /// PID.
    pub pid: u32,
    /// Parent when first seen.
    pub parent: u32,
    /// Recognisable name.
    pub name: String,
    /// Command line.
    pub command: String,
    /// When it was first seen.
    pub started_secs: f64,
    /// When it left, if it did.
    pub ended_secs: Option<f64>,
    /// The largest resident set during the recording: the kernel's high-water mark, or the largest sample where that is larger.
    pub peak_rss_bytes: Option<u64>,
    /// The most that it added to the tree: pages that several processes hold count for the oldest of them.
    pub peak_added_bytes: Option<u64>,
    /// The last level.
    pub last_rss_bytes: Option<u64>,
    /// The last measured proportional share.
    pub pss_bytes: Option<u64>,
    /// The last measured private memory.
    pub uss_bytes: Option<u64>,
    /// CPU time.
    pub cpu_secs: f64,
    /// Most threads seen.
    pub max_threads: Option<u64>,
    /// Most open files seen.
    pub max_open_files: Option<u64>,
    /// Bytes read from storage.
    pub read_bytes: Option<u64>,
    /// Bytes written to storage.
    pub written_bytes: Option<u64>,
}

/// Alerts that did not arrive.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct UndeliveredAlerts {
    /// How many.
    pub alerts: u64,
    /// Why.
    pub reason: String,
}

/// A mark set by the user.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct MarkSummary {
    /// When.
    pub secs: f64,
    /// What.
    pub text: String,
}

/// What the recording cost and lost.
#[derive(Debug, Clone, Default, JsonSchema, Serialize)]
pub struct RecorderSummary {
    /// CPU time of the recorder.
    pub cpu_secs: f64,
    /// The same as percent of one core over the run.
    pub cpu_percent: f64,
    /// The recorder's largest resident memory.
    pub peak_rss_bytes: Option<u64>,
    /// Rows that could not be stored, those that programs logged included.
    pub dropped_samples: u64,
    /// Of them those that programs logged.
    pub dropped_logged_rows: u64,
    /// Why the last of them could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_reason: Option<String>,
    /// Ticks that came later than half an interval.
    pub late_ticks: u64,
    /// The asked-for interval.
    pub interval_secs: f64,
    /// Each time the pace changed because the machine could not keep up, or could again, in words.
    pub slowed: Vec<String>,
    /// Stretches without samples.
    pub gaps: u64,
    /// What was wrong with the files.
    pub damage: Vec<String>,
}

/// The value of [`Summary::schema`].
pub const SHOW_SCHEMA: &str = "nilo.show/1";

/// Summarizes a recording whose ending has been judged.
pub fn summarize(recording: &Recording, ending: &Ending) -> Summary {
    let description = &recording.description;
    let duration_nanos = ending.time_nanos.max(1);
    let (mut tracker, changes) = ResourceTracker::over(recording);
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
    Summary {
        schema: SHOW_SCHEMA,
        run: description.id.to_string(),
        name: description.name.clone(),
        parent: description.parent.as_ref().map(ToString::to_string),
        resumes: description.resumes.as_ref().map(ToString::to_string),
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
        failed_rank: failed_rank(recording),
        duration_secs: to_secs(duration_nanos),
        oom: OomSummary::of(ran_out.as_ref(), ending.oom.as_ref()),
        exception: ending_exception(recording, ending).map(ExceptionSummary::of),
        exceptions: exceptions(recording).map(ExceptionSummary::of).collect(),
        memory: memory(recording),
        cpu: cpu(recording, duration_nanos),
        usage: usage(recording),
        processes: processes(recording),
        gpus: summarize_gpus(recording, ending.time_nanos),
        torch_memory: summarize_torch_memory(recording),
        config: settings(recording),
        metrics: summarize_metrics(recording),
        bottleneck: find_bottleneck(phase_totals),
        phases,
        throughput: summarize_throughput(recording),
        findings: find(&seen),
        advice: Vec::new(),
        alerts: alerts(recording),
        alerts_not_delivered: alerts_not_delivered(recording),
        marks: marks(recording),
        left_running: ending.left_running.clone(),
        blind_spots: blind_spots(recording),
        recorder: recorder(recording, duration_nanos),
    }
}

impl Summary {
    /// Whether it ended because memory ran out.
    pub fn has_run_out(&self) -> bool {
        let of_something = |oom: &OomSummary| oom.resource.is_some();
        self.oom.as_ref().is_some_and(of_something)
    }

    /// How it ended in a word or two: `exited 3`, `killed 9`, `oom-killed`.
    pub fn short_ending(&self) -> String {
        match (self.status, self.exit_code, self.signal) {
            (RunStatus::Exited, Some(code), _) => format!("exited {code}"),
            (RunStatus::Killed, _, Some(signal)) => format!("killed {signal}"),
            (status, _, _) => status.as_str().to_owned(),
        }
    }

    /// How serious its ending is, as of a finding; nothing for one that went well or is not known.
    pub fn ending_severity(&self) -> Option<Severity> {
        match (self.status, self.exit_code) {
            _ if self.has_run_out() => Some(Severity::Critical),
            (RunStatus::OomKilled, _) => Some(Severity::Critical),
            (RunStatus::Killed | RunStatus::Lost, _) => Some(Severity::Warning),
            (RunStatus::Exited, Some(code)) if code != 0 => Some(Severity::Warning),
            _ => None,
        }
    }

    /// The metric to draw when nobody names one: the loss, or else the first.
    pub fn usual_metric(&self) -> Option<String> {
        let names = || self.metrics.iter().map(|metric| metric.name.as_str());
        let loss = names().find(|name| *name == "loss");
        let some_loss = || names().find(|name| name.ends_with("/loss"));
        let chosen = loss.or_else(some_loss).or_else(|| names().next())?;
        Some(chosen.to_owned())
    }
}

/// Settings by name; the last word counts.
fn whole(value: f64) -> Option<u64> {
    (value.is_finite() && value >= 0.0).then_some(value as u64)
}

/// The most memory that the job held at once.
pub fn peak_memory_bytes(recording: &Recording) -> Option<u64> {
    memory(recording).peak_bytes
}

fn memory(recording: &Recording) -> MemorySummary {
    let limit = limit_in_force(recording);
    let mut summary = MemorySummary {
        limit_bytes: limit.as_ref().map(|limit| limit.bytes),
        limit_source: limit.map(|limit| limit.source.to_string()),
        ..MemorySummary::default()
    };
    let Some(tree) = recording.table(&Subject::Tree) else {
        return summary;
    };
    let Some(level) = tree.series("memory_bytes") else {
        return summary;
    };
    let shared_once = tree
        .series("pss_processes")
        .and_then(|series| series.max())
        .is_some_and(|(_, n)| n > 0.0);
    summary.sample_kind = match shared_once {
        true => SampleKind::DistinctPages,
        false => SampleKind::Rss,
    };
    summary.samples = level.present().count() as u64;
    summary.mean_bytes = time_weighted_mean(level).and_then(whole);
    summary.min_bytes = minimum(level).and_then(whole);
    summary.swap_peak_bytes = tree
        .series("swap_bytes")
        .and_then(|series| series.max())
        .and_then(|(_, v)| whole(v));

    summary.sampled_peak_bytes = level.max().and_then(|(_, value)| whole(value));
    if let Some(owned) = owned_cgroup(recording) {
        summary.cgroup_peak_bytes = owned.peak.and_then(whole);
        summary.cgroup_working_set_peak_bytes = owned.working_set_peak.and_then(whole);
    }
    if let Some(peak) = tree_peak(recording) {
        summary.peak_bytes = whole(peak.bytes);
        summary.limit_used_bytes = whole(held_of_limit(recording, peak.bytes));
        summary.peak_kind = Some(peak.kind);
        summary.peak_secs = Some(to_secs(peak.time_nanos));
        let first = level.present().next();
        summary.growth_bytes = first.map(|(_, first)| (peak.bytes - first) as i64);
    }
    summary
}

struct OwnedCgroup {
    peak: Option<f64>,
    working_set_peak: Option<f64>,
}

/// The job's own cgroup in figures.
fn owned_cgroup(recording: &Recording) -> Option<OwnedCgroup> {
    let table = owned_cgroup_table(recording)?;
    let peaks = table.series("peak_bytes")?;
    let first = peaks.present().next().map(|(_, value)| value);
    // A peak that was there before the run began says nothing about the run.
    let peak = peaks.last().filter(|last| Some(*last) > first);
    Some(OwnedCgroup {
        peak,
        working_set_peak: table
            .series("working_set_bytes")
            .and_then(|series| series.max())
            .map(|(_, v)| v),
    })
}

fn cpu(recording: &Recording, duration_nanos: u64) -> CpuSummary {
    let Some(series) = recording
        .table(&Subject::Tree)
        .and_then(|tree| tree.series("cpu_nanos"))
    else {
        return CpuSummary::default();
    };
    // What a watched process spent before we came is not part of the run.
    let sampled = match recording.description.mode {
        RunMode::Watch | RunMode::Python => growth(series),
        _ => series.last(),
    };
    // Children that came and went between two samples are in the account of the one who waited for them.
    let waited = recording
        .events
        .iter()
        .rev()
        .find_map(|timed| match timed.event {
            Event::CommandEnded { cpu_nanos, .. } => cpu_nanos,
            _ => None,
        });
    let total = sampled.unwrap_or(0.0).max(waited.unwrap_or(0) as f64);
    let mean_percent = 100.0 * total / duration_nanos as f64;
    CpuSummary {
        total_secs: total / NANOS_PER_SEC as f64,
        mean_percent,
        // What nobody sampled counts in the mean alone.
        max_percent: busiest_cpu_percent(series, NANOS_PER_SEC)
            .map_or(mean_percent, |busiest| busiest.max(mean_percent)),
    }
}

fn usage(recording: &Recording) -> Option<UsageSummary> {
    let mut events = recording.events.iter().rev();
    events.find_map(|timed| match &timed.event {
        Event::ResourceUsage(usage) => Some(UsageSummary {
            user_secs: to_secs(usage.user_nanos),
            system_secs: to_secs(usage.system_nanos),
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
            read_bytes: usage.read_bytes,
            written_bytes: usage.written_bytes,
        }),
        _ => None,
    })
}

fn processes(recording: &Recording) -> Vec<ProcessSummary> {
    let mut found: BTreeMap<ProcessId, ProcessSummary> = BTreeMap::new();
    for timed in &recording.events {
        match &timed.event {
            Event::ProcessStarted { id, info } | Event::ProcessRenamed { id, info } => {
                let entry = found
                    .entry(*id)
                    .or_insert_with(|| unmeasured(*id, info, timed.time_nanos));
                entry.name.clone_from(&info.name);
                entry.command.clone_from(&info.command);
            }
            Event::ProcessEnded { id, .. } => {
                if let Some(entry) = found.get_mut(id) {
                    entry.ended_secs = Some(to_secs(timed.time_nanos));
                }
            }
            _ => {}
        }
    }
    for table in &recording.tables {
        let (Subject::Process(id) | Subject::ProcessDetail(id)) = &table.spec.subject else {
            continue;
        };
        let Some(entry) = found.get_mut(id) else {
            continue;
        };
        let largest = |column: &str| {
            table
                .series(column)?
                .max()
                .and_then(|(_, value)| whole(value))
        };
        let last = |column: &str| table.series(column)?.last().and_then(whole);
        if matches!(table.spec.subject, Subject::Process(_)) {
            entry.peak_added_bytes = entry.peak_added_bytes.max(largest("memory_bytes"));
            entry.last_rss_bytes = last("rss_bytes");
            entry.cpu_secs = to_secs(last("cpu_nanos").unwrap_or(0));
        } else {
            entry.pss_bytes = last("pss_bytes");
            entry.uss_bytes = last("uss_bytes");
            entry.max_threads = largest("threads");
            entry.max_open_files = largest("open_files");
            entry.read_bytes = last("read_bytes");
            entry.written_bytes = last("written_bytes");
        }
    }
    for (id, peak) in process_peaks(recording) {
        if let Some(entry) = found.get_mut(&id) {
            entry.peak_rss_bytes = whole(peak.bytes);
        }
    }
    let mut processes: Vec<ProcessSummary> = found.into_values().collect();
    // Older recordings do not tell what a process added.
    processes.sort_by_key(|process| {
        let added = process.peak_added_bytes.or(process.peak_rss_bytes);
        std::cmp::Reverse((added, process.peak_rss_bytes))
    });
    processes
}

fn unmeasured(id: ProcessId, info: &ProcessInfo, time_nanos: u64) -> ProcessSummary {
    ProcessSummary {
        pid: id.pid,
        parent: info.parent,
        name: info.name.clone(),
        command: info.command.clone(),
        started_secs: to_secs(time_nanos),
        ended_secs: None,
        peak_rss_bytes: None,
        peak_added_bytes: None,
        last_rss_bytes: None,
        pss_bytes: None,
        uss_bytes: None,
        cpu_secs: 0.0,
        max_threads: None,
        max_open_files: None,
        read_bytes: None,
        written_bytes: None,
    }
}

fn alerts(recording: &Recording) -> Vec<Alert> {
    let alerts = recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::Alert(alert) => Some(alert.as_ref().clone()),
            _ => None,
        });
    alerts.collect()
}

fn alerts_not_delivered(recording: &Recording) -> Vec<UndeliveredAlerts> {
    let mut by_reason: Vec<UndeliveredAlerts> = Vec::new();
    for timed in &recording.events {
        let Event::AlertsNotDelivered { alerts, reason } = &timed.event else {
            continue;
        };
        match by_reason.iter_mut().find(|known| known.reason == *reason) {
            Some(known) => known.alerts += alerts,
            None => by_reason.push(UndeliveredAlerts {
                alerts: *alerts,
                reason: reason.clone(),
            }),
        }
    }
    by_reason
}

fn marks(recording: &Recording) -> Vec<MarkSummary> {
    let marks = recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::Mark { text } => Some(MarkSummary {
                secs: to_secs(timed.time_nanos),
                text: text.clone(),
            }),
            _ => None,
        });
    marks.collect()
}

fn blind_spots(recording: &Recording) -> Vec<String> {
    let texts = recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::Blind { text } => Some(text.clone()),
            _ => None,
        });
    texts.collect()
}

fn paces(recording: &Recording) -> Vec<String> {
    let changes = recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::Interval { nanos, reason } => Some(format!(
                "from {:.1} s on sampled every {} s: {reason}",
                to_secs(timed.time_nanos),
                to_secs(*nanos)
            )),
            _ => None,
        });
    changes.collect()
}

/// What is wrong with the files: what the reader found, and a finished run whose tail is gone.
pub fn damage(recording: &Recording) -> Vec<String> {
    let mut damage = recording.damage.clone();
    let recorded = matches!(recording.description.mode, RunMode::Run | RunMode::Watch);
    let ended = |timed: &nilo_sample::TimedEvent| matches!(timed.event, Event::CommandEnded { .. });
    let lost_rows = recording.dropped_rows > 0;
    let finished = recording.description.ending.is_some();
    if recorded && finished && !lost_rows && !recording.events.iter().any(ended) {
        damage.push("the run ended, but the recording stops before that".to_owned());
    }
    damage
}

fn dropped_reason(recording: &Recording) -> Option<String> {
    let mut events = recording.events.iter().rev();
    events.find_map(|timed| match &timed.event {
        Event::Lost { reason, .. } => Some(reason.clone()),
        _ => None,
    })
}

fn recorder(recording: &Recording, duration_nanos: u64) -> RecorderSummary {
    let gaps = recording
        .events
        .iter()
        .filter(|timed| matches!(timed.event, Event::Gap { .. }))
        .count();
    let mut summary = RecorderSummary {
        dropped_samples: recording.dropped_rows,
        dropped_logged_rows: recording.dropped_program_rows,
        dropped_reason: dropped_reason(recording),
        interval_secs: to_secs(recording.description.interval_nanos),
        gaps: gaps as u64,
        slowed: paces(recording),
        damage: damage(recording),
        ..RecorderSummary::default()
    };
    if let Some(table) = recording.table(&Subject::Recorder) {
        let last = |column: &str| table.series(column)?.last();
        let cpu_nanos = last("cpu_nanos").unwrap_or(0.0);
        summary.cpu_secs = cpu_nanos / NANOS_PER_SEC as f64;
        summary.cpu_percent = 100.0 * cpu_nanos / duration_nanos as f64;
        summary.peak_rss_bytes = table
            .series("rss_bytes")
            .and_then(|s| s.max())
            .and_then(|(_, v)| whole(v));
        summary.late_ticks = last("late_ticks").and_then(whole).unwrap_or(0);
    }
    summary
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
