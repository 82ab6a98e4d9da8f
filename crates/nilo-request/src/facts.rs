//! What one run tells about the memory of its job.

use nilo_sample::{Limit, LimitSource, Recording, RunStatus, Subject, setting_text};
use schemars::JsonSchema;
use serde::Serialize;

use crate::fingerprint::fingerprint;
use crate::gpu::{GpuFacts, gpus_of};
use crate::growth::{UnfinishedGrowth, growth_of};
use crate::unreclaimable::unreclaimable_peak;
use crate::usual_level::usual_level_bytes;
use nilo_analysis::SlurmPlace;
use nilo_analysis::ending::limit_in_force;
use nilo_analysis::owned_cgroup::owned_cgroup_table;
use nilo_analysis::peak::PeakKind;
use nilo_analysis::summary::Summary;

/// Whether a run saw its job's end, and so its whole need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completeness {
    /// It ended by itself, without an error.
    Whole,
    /// It ended with an error.
    Failed,
    /// A signal ended it.
    Killed,
    /// It was killed for lack of memory: it needed more than it got.
    OomKilled,
    /// Nobody saw its end.
    Lost,
    /// It is still running.
    Running,
    /// Watching ended before it did.
    Detached,
}

impl Completeness {
    /// Why the peak is only a lower bound; `None` for a whole run.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Completeness::Whole => None,
            Completeness::Failed => Some("ended with an error"),
            Completeness::Killed => Some("was killed"),
            Completeness::OomKilled => Some("was killed for lack of memory"),
            Completeness::Lost => Some("has no recorded end"),
            Completeness::Running => Some("is still running"),
            Completeness::Detached => Some("was watched for a part of its time"),
        }
    }
}

/// A limit of a process's own (`ulimit -v`) that refused memory and so ended a run.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RefusingLimit {
    /// `RLIMIT_AS` or `RLIMIT_DATA`.
    pub name: String,
    /// What it was.
    pub bytes: u64,
}

/// A run as a request sees it.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct RunFacts {
    /// Run id.
    pub run: String,
    /// The user's name for it, or its command.
    pub label: String,
    /// By which runs belong to one job; see `fingerprint.rs` for the rule.
    pub job: String,
    /// The node.
    pub host: String,
    /// How it ended.
    pub completeness: Completeness,
    /// The largest memory that could not have been taken back; `None` where nothing was measured.
    pub peak_bytes: Option<u64>,
    /// Where that figure comes from.
    pub peak_kind: Option<PeakKind>,
    /// The level below which memory stayed 95 % of the time.
    pub usual_bytes: Option<u64>,
    /// Growth that had not ended when the run did.
    pub growth: Option<UnfinishedGrowth>,
    /// From start to end.
    pub duration_secs: f64,
    /// The limit in force.
    pub limit_bytes: Option<u64>,
    /// The most of it that was used, as `nilo show` tells it.
    pub limit_used_bytes: Option<u64>,
    /// What imposes it.
    pub limit_source: Option<String>,
    /// The limit is the scheduler's or the user's, not the machine's memory.
    pub limit_was_asked_for: bool,
    /// The limit of a process's own that ended it; no request for memory raises that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<RefusingLimit>,
    /// Devices of this run.
    pub gpus: Vec<GpuFacts>,
    /// Its place in a Slurm cluster.
    pub slurm: Option<SlurmPlace>,
    /// Most processes at one time.
    pub most_processes: u64,
    /// The largest plain sum of resident memory, which counts shared pages once for each process.
    pub rss_sum_peak_bytes: Option<u64>,
    /// The largest page cache of the job's own cgroup.
    pub page_cache_peak_bytes: Option<u64>,
    /// Whether files of the recording are damaged, so that figures may be missing or too small; `nilo verify` tells more.
    pub damaged: bool,
}

/// Gathers the facts of a run from its recording and its summary.
pub fn facts_of(recording: &Recording, status: RunStatus, summary: &Summary) -> RunFacts {
    let peak = unreclaimable_peak(recording, &summary.memory);
    // No request for memory raises a limit of addresses, and no memory is a share of it.
    let limit = limit_in_force(recording).filter(Limit::is_of_memory);
    let tree = recording.table(&Subject::Tree);
    let largest = |column: &str| {
        let (_, value) = tree?.series(column)?.max()?;
        (value.is_finite() && value >= 0.0).then_some(value as u64)
    };
    let completeness = match (status, summary.exit_code) {
        (RunStatus::Exited, Some(0) | None) | (RunStatus::Ended, _) => Completeness::Whole,
        (RunStatus::Exited, Some(_)) | (RunStatus::GpuOutOfMemory, _) => Completeness::Failed,
        (RunStatus::Killed, _) => Completeness::Killed,
        (RunStatus::OomKilled, _) => Completeness::OomKilled,
        (RunStatus::Lost, _) => Completeness::Lost,
        (RunStatus::Running, _) => Completeness::Running,
        (RunStatus::Detached, _) => Completeness::Detached,
    };
    let ended = &summary.facts.out_of_memory;
    let refused_by = ended.refused_by.clone().zip(ended.limit_bytes);
    let end_nanos = (summary.duration_secs * 1e9) as u64;
    let settings = summary.config.iter();
    let settings = settings.map(|(name, value)| (name.clone(), setting_text(value)));
    let settings = settings.collect();
    RunFacts {
        run: summary.run.clone(),
        label: summary
            .name
            .clone()
            .unwrap_or_else(|| summary.command.join(" ")),
        job: fingerprint(&summary.command, &settings),
        host: summary.host.clone(),
        completeness,
        peak_bytes: peak.map(|peak| peak.bytes),
        peak_kind: peak.map(|peak| peak.kind),
        usual_bytes: usual_level_bytes(recording, end_nanos),
        growth: growth_of(recording, limit.as_ref().map(|limit| limit.bytes)),
        duration_secs: summary.duration_secs,
        limit_bytes: limit.as_ref().map(|limit| limit.bytes),
        limit_used_bytes: (summary.memory.limit_used_bytes).filter(|_| limit.is_some()),
        limit_was_asked_for: limit
            .as_ref()
            .is_some_and(|limit| limit.source != LimitSource::Host),
        limit_source: limit.map(|limit| limit.source.to_string()),
        refused_by: refused_by.map(|(name, bytes)| RefusingLimit {
            name,
            bytes: bytes as u64,
        }),
        gpus: gpus_of(summary),
        slurm: SlurmPlace::of_recording(recording),
        most_processes: largest("processes").unwrap_or(0),
        rss_sum_peak_bytes: largest("rss_bytes"),
        page_cache_peak_bytes: page_cache_peak_bytes(recording),
        damaged: !nilo_analysis::damage(recording).is_empty(),
    }
}

/// Files in tmpfs are no page cache: the kernel cannot drop them.
fn page_cache_peak_bytes(recording: &Recording) -> Option<u64> {
    let table = owned_cgroup_table(recording)?;
    let files = table.series("file_bytes")?;
    let shmem = table.series("shmem_bytes");
    let shmem = |row: usize| shmem.and_then(|series| series.values.get(row).copied());
    let caches = files.values.iter().enumerate().map(|(row, files)| {
        let in_memory = shmem(row).filter(|bytes| bytes.is_finite());
        files - in_memory.unwrap_or(0.0)
    });
    let cache = caches.filter(|bytes| bytes.is_finite()).reduce(f64::max)?;
    Some(cache.max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::rows::CgroupRow;
    use nilo_sample::{TableSpec, fixture};

    #[test]
    fn a_limit_of_addresses_is_no_memory_that_was_asked_for() {
        let mut recording = fixture::recording();
        recording.description.limit = Some(Limit {
            bytes: 2 << 30,
            source: LimitSource::Rlimit {
                resource: "as".to_owned(),
            },
        });
        recording.tables = vec![fixture::tree(&[(0, 2e7, 0.0, 0.0)])];
        let ending = nilo_sample::Ending {
            status: RunStatus::Exited,
            exit_code: Some(1),
            signal: None,
            time_nanos: 1,
            oom: None,
            left_running: vec![],
            recorder_death: None,
            lost_rank: None,
            gpu_out_of_memory: None,
        };
        let summary = nilo_analysis::summarize(&recording, &ending);
        let facts = facts_of(&recording, ending.status, &summary);
        assert_eq!((facts.limit_bytes, facts.limit_used_bytes), (None, None));
        assert!(!facts.limit_was_asked_for);
    }

    #[test]
    fn files_in_tmpfs_are_no_page_cache() {
        let row = |file_bytes, shmem_bytes| CgroupRow {
            usage_bytes: 300.0,
            file_bytes,
            shmem_bytes,
            owned: 1.0,
            ..CgroupRow::ABSENT
        };
        let mut recording = fixture::recording();
        let rows = [(0, row(30.0, 0.0)), (1, row(290.0, 280.0))];
        recording.tables = vec![fixture::table_of(TableSpec::cgroup("/job"), &rows)];
        assert_eq!(page_cache_peak_bytes(&recording), Some(30));
    }
}
