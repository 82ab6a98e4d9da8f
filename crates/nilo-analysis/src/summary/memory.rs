//! Memory of the whole tree: peak, mean, limit, and the kernel's account of the job's cgroup.

use nilo_sample::units::to_secs;
use nilo_sample::{LimitCounts, RecordedTable, Recording, SeriesView, Subject};
use schemars::JsonSchema;
use serde::Serialize;

use super::whole;
use crate::assessment::RanOut;
use crate::ending::limit_in_force;
use crate::held_of_limit::held_of_limit;
use crate::known_time::has_lost_its_beginning;
use crate::limit_use::{LimitUse, risen_mark_bytes};
use crate::owned_cgroup::owned_cgroup_table;
use crate::peak::{PeakKind, tree_peak};
use crate::rate::{minimum, time_weighted_mean};

/// A difference of this share of the limit is told.
pub const NOTABLE_SHARE: f64 = 0.05;

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
    /// Peak less the first sample; absent where the first samples were lost.
    pub growth_bytes: Option<i64>,
    /// How many samples.
    pub samples: u64,
    /// When the first of them was taken.
    pub first_sample_secs: Option<f64>,
    /// When the last of them was taken.
    pub last_sample_secs: Option<f64>,
    /// What the samples are.
    pub sample_kind: SampleKind,
    /// The largest swap.
    pub swap_peak_bytes: Option<u64>,
    /// The limit in force.
    pub limit_bytes: Option<u64>,
    /// What imposes it.
    pub limit_source: Option<String>,
    /// What counts against it: `limit_used_bytes` is this.
    pub limit_counts: Option<LimitCounts>,
    /// The most of it that was used. Of a cgroup's limit: what the kernel charged to it less page cache, which it drops before it kills;
    /// all that was charged, where it ran out; the tree's memory where others are in the cgroup too, or where no cgroup sets the limit.
    /// Of a limit of addresses: the most that one process had mapped; absent where that was not recorded.
    pub limit_used_bytes: Option<u64>,
    /// What filled the cgroup that sets the limit, by the kernel's account; absent where no cgroup does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_use: Option<LimitUse>,
    /// The kernel's own peak of the job's cgroup, page cache and kernel memory included.
    pub cgroup_peak_bytes: Option<u64>,
    /// The largest sampled working set of the job's cgroup.
    pub cgroup_working_set_peak_bytes: Option<u64>,
}

impl MemorySummary {
    /// The limit in force, where the memory that was held is what counts against it.
    pub fn memory_limit_bytes(&self) -> Option<u64> {
        let is_of_memory = self.limit_counts == Some(LimitCounts::Memory);
        self.limit_bytes.filter(|_| is_of_memory)
    }

    /// Where the limit ran out, all that filled it was used of it, as `nilo oom` tells it.
    pub(crate) fn with_ending(mut self, ran_out: Option<&RanOut>) -> MemorySummary {
        let at_limit = |it: &&RanOut| it.limit_use.is_some() && it.limit_bytes == self.limit_bytes;
        if let Some(ran_out) = ran_out.filter(at_limit) {
            self.limit_used_bytes = ran_out.peak_bytes;
        }
        self
    }
}

/// What was charged to the cgroup that sets the limit, where that differs by a twentieth of the limit or more from what the tree held:
/// files in tmpfs are in no process, and file pages of a process may be charged elsewhere.
pub fn notable_charge(
    limit_bytes: Option<u64>,
    limit_used_bytes: Option<u64>,
    peak_bytes: Option<u64>,
) -> Option<u64> {
    let (used, peak) = (limit_used_bytes?, peak_bytes?);
    let differs = used.abs_diff(peak) as f64 >= NOTABLE_SHARE * limit_bytes? as f64;
    differs.then_some(used)
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

/// The most memory that the job held at once.
pub fn peak_memory_bytes(recording: &Recording) -> Option<u64> {
    summarize_memory(recording).peak_bytes
}

pub(crate) fn summarize_memory(recording: &Recording) -> MemorySummary {
    let limit = limit_in_force(recording);
    let mut summary = MemorySummary {
        limit_bytes: limit.as_ref().map(|limit| limit.bytes),
        limit_counts: limit.as_ref().map(|limit| limit.source.counts()),
        limit_source: limit.map(|limit| limit.source.to_string()),
        limit_use: LimitUse::of_limit(recording),
        ..MemorySummary::default()
    };
    let tree = recording.table(&Subject::Tree);
    let level = tree.and_then(|tree| tree.series("memory_bytes"));
    if let (Some(tree), Some(level)) = (tree, level) {
        summarize_samples(&mut summary, tree, level);
    }
    if let Some(owned) = owned_cgroup(recording).filter(|_| level.is_some()) {
        summary.cgroup_peak_bytes = owned.peak.and_then(whole);
        summary.cgroup_working_set_peak_bytes = owned.working_set_peak.and_then(whole);
    }
    // Of a run between two samples of its job its process tells the kernel's mark.
    if let Some(peak) = tree_peak(recording) {
        summary.peak_bytes = whole(peak.bytes);
        summary.limit_used_bytes = held_of_limit(recording, peak.bytes).and_then(whole);
        summary.peak_kind = Some(peak.kind);
        summary.peak_secs = Some(to_secs(peak.time_nanos));
        let is_first = |(time, _): &(u64, f64)| !has_lost_its_beginning(recording, *time);
        let first = level.and_then(|level| level.present().next().filter(is_first));
        summary.growth_bytes = first.map(|(_, first)| (peak.bytes - first) as i64);
    }
    summary
}

fn summarize_samples(summary: &mut MemorySummary, tree: &RecordedTable, level: SeriesView<'_>) {
    let shared_once = tree
        .series("pss_processes")
        .and_then(|series| series.max())
        .is_some_and(|(_, n)| n > 0.0);
    summary.sample_kind = match shared_once {
        true => SampleKind::DistinctPages,
        false => SampleKind::Rss,
    };
    summary.samples = level.present().count() as u64;
    let secs = |reading: (u64, f64)| to_secs(reading.0);
    summary.first_sample_secs = level.present().next().map(secs);
    summary.last_sample_secs = level.present().last().map(secs);
    summary.mean_bytes = time_weighted_mean(level).and_then(whole);
    summary.min_bytes = minimum(level).and_then(whole);
    summary.swap_peak_bytes = tree
        .series("swap_bytes")
        .and_then(|series| series.max())
        .and_then(|(_, v)| whole(v));
    summary.sampled_peak_bytes = level.max().and_then(|(_, value)| whole(value));
}

struct OwnedCgroup {
    peak: Option<f64>,
    working_set_peak: Option<f64>,
}

/// The job's own cgroup in figures.
fn owned_cgroup(recording: &Recording) -> Option<OwnedCgroup> {
    let table = owned_cgroup_table(recording)?;
    Some(OwnedCgroup {
        peak: risen_mark_bytes(table),
        working_set_peak: table
            .series("working_set_bytes")
            .and_then(|series| series.max())
            .map(|(_, v)| v),
    })
}
