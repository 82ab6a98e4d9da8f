//! The peak of a recording: what the kernel saw, where it keeps marks, and the samples elsewhere.
//!
//! What a process holds are distinct pages of the tree, each counted once however often it has mapped it (`process_peaks.rs`):
//! so the tree's peak is at least that of its largest process.
//! A cgroup's own peak is no evidence: it counts page cache and kernel memory, of this job and of others before it.

use nilo_sample::{Event, RecordedTable, Recording, Subject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::process_peaks::held_peaks;

/// A peak must exceed another by this factor to take the place of its kind and time, so that these do not flicker over rounding.
const MARGIN: f64 = 1.001;

/// Where the figure of a peak comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeakKind {
    /// The kernel's high-water mark of a process.
    Vmhwm,
    /// The kernel's account of a process that ended.
    Rusage,
    /// A sample in which every page of the tree is counted once.
    SampledDistinctPages,
    /// A sample of several processes whose shared pages were not measured yet.
    SampledEstimate,
    /// A sample of one process.
    SampledRss,
    /// A sample for which there was no room in the run's files.
    Unstored,
    /// Samples with what was swapped out; in requests alone.
    SampledWithSwap,
    /// The job's own cgroup without page cache; in requests alone.
    CgroupUnreclaimable,
}

impl PeakKind {
    /// Who measured it, in the few words that a table or a plot has room for.
    pub fn measured_by(self) -> &'static str {
        match self {
            PeakKind::Vmhwm => "VmHWM",
            PeakKind::Rusage => "ru_maxrss",
            PeakKind::SampledDistinctPages | PeakKind::Unstored => "samples",
            PeakKind::SampledEstimate => "estimate",
            PeakKind::SampledRss => "RSS",
            PeakKind::SampledWithSwap => "samples with swap",
            PeakKind::CgroupUnreclaimable => "cgroup without page cache",
        }
    }
}

/// The most memory, what says so, and when it was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// How much.
    pub bytes: f64,
    /// Where it comes from.
    pub kind: PeakKind,
    /// As nearly as it is known, and never after the process ended.
    pub time_nanos: u64,
}

pub(crate) fn larger(best: Peak, next: Peak) -> Peak {
    match next.bytes > best.bytes * MARGIN {
        true => next,
        // Whichever says so: a tree has at least what is shown of its largest process.
        false => Peak {
            bytes: best.bytes.max(next.bytes),
            ..best
        },
    }
}

/// The peak of the tree.
pub fn tree_peak(recording: &Recording) -> Option<Peak> {
    let tree = recording.table(&Subject::Tree);
    let sampled = tree.and_then(|tree| {
        let (time_nanos, bytes) = tree.series("memory_bytes")?.max()?;
        let kind = sample_kind(tree, time_nanos);
        Some(Peak {
            bytes,
            kind,
            time_nanos,
        })
    });
    let marked = tree.and_then(|tree| {
        let (time_nanos, bytes) = tree.series("high_water_bytes")?.max()?;
        let after_the_end = is_after_the_samples(tree, time_nanos);
        Some(Peak {
            bytes,
            kind: match after_the_end {
                true => PeakKind::Rusage,
                false => PeakKind::Vmhwm,
            },
            time_nanos: match sampled {
                Some(sampled) if after_the_end => sampled.time_nanos,
                _ => time_nanos,
            },
        })
    });
    let largest = held_peaks(recording)
        .into_values()
        .max_by(|a, b| a.bytes.total_cmp(&b.bytes));
    let candidates = [sampled, marked, largest, told_at_the_end(recording)];
    candidates.into_iter().flatten().reduce(larger)
}

/// Whether a mark was written after the last sample: `wait4` told it, and it was reached while the command lived.
fn is_after_the_samples(tree: &RecordedTable, time_nanos: u64) -> bool {
    let samples = tree.series("memory_bytes");
    let last_sample = samples.and_then(|samples| samples.present().next_back());
    last_sample.is_none_or(|(last, _)| time_nanos > last)
}

/// What `wait4` told of the command, where that is above every sample of the tree.
pub(crate) fn told_by_wait(recording: &Recording) -> Option<f64> {
    let tree = recording.table(&Subject::Tree)?;
    let (time_nanos, bytes) = tree.series("high_water_bytes")?.max()?;
    is_after_the_samples(tree, time_nanos).then_some(bytes)
}

/// The recorder's own account, which has the samples that could not be stored.
fn told_at_the_end(recording: &Recording) -> Option<Peak> {
    recording
        .events
        .iter()
        .rev()
        .find_map(|timed| match timed.event {
            Event::CommandEnded {
                peak_bytes: Some(bytes),
                ..
            } if recording.dropped_samples() > 0 => Some(Peak {
                bytes: bytes as f64,
                kind: PeakKind::Unstored,
                time_nanos: timed.time_nanos,
            }),
            _ => None,
        })
}

/// What the sample of this time is: of one process, of several measured ones, or of some that were not measured yet.
fn sample_kind(tree: &RecordedTable, time_nanos: u64) -> PeakKind {
    let row = tree.times.partition_point(|t| *t < time_nanos);
    let at = |column: &str| tree.series(column)?.values.get(row).copied();
    match (at("processes"), at("pss_processes")) {
        (Some(processes), _) if processes <= 1.0 => PeakKind::SampledRss,
        (Some(processes), Some(measured)) if measured >= processes => {
            PeakKind::SampledDistinctPages
        }
        (Some(_), Some(_)) => PeakKind::SampledEstimate,
        _ => PeakKind::SampledRss,
    }
}

#[cfg(test)]
#[path = "peak_tests.rs"]
mod tests;
