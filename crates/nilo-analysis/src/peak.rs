//! The peak of a recording: what the kernel saw, where it keeps marks, and the samples elsewhere.
//!
//! A process's resident pages are distinct pages of the tree, so the tree's peak is at least that of its largest process.
//! A cgroup's own peak is no evidence: it counts page cache and kernel memory, of this job and of others before it.

use std::collections::HashMap;

use nilo_sample::{Event, ProcessId, RecordedTable, Recording, RunMode, Subject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A peak must exceed another by this factor to take its place, so that the kind does not flicker over rounding.
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
    /// As it is written in JSON and on the screen.
    pub fn as_str(self) -> &'static str {
        match self {
            PeakKind::Vmhwm => "vmhwm",
            PeakKind::Rusage => "rusage",
            PeakKind::SampledDistinctPages => "sampled-distinct-pages",
            PeakKind::SampledEstimate => "sampled-estimate",
            PeakKind::SampledRss => "sampled-rss",
            PeakKind::Unstored => "unstored",
            PeakKind::SampledWithSwap => "sampled-with-swap",
            PeakKind::CgroupUnreclaimable => "cgroup-unreclaimable",
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

fn larger(best: Peak, next: Peak) -> Peak {
    if next.bytes > best.bytes * MARGIN {
        next
    } else {
        best
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
        let last_sample = tree.series("memory_bytes")?.present().next_back();
        // What `wait4` told after the last sample was reached while the command lived.
        let after_the_end = last_sample.is_none_or(|(last, _)| time_nanos > last);
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
    let largest = process_peaks(recording)
        .into_values()
        .max_by(|a, b| a.bytes.total_cmp(&b.bytes));
    let candidates = [sampled, marked, largest, told_at_the_end(recording)];
    candidates.into_iter().flatten().reduce(larger)
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

/// The largest resident set of each process during the recording.
pub(crate) fn process_peaks(recording: &Recording) -> HashMap<ProcessId, Peak> {
    let mut sampled: HashMap<ProcessId, Peak> = HashMap::new();
    let mut marks: HashMap<ProcessId, HighWaterMarks> = HashMap::new();
    for table in &recording.tables {
        match table.spec.subject {
            Subject::Process(id) => {
                let highest = table.series("rss_bytes").and_then(|series| series.max());
                if let Some((time_nanos, bytes)) = highest {
                    let peak = Peak {
                        bytes,
                        kind: PeakKind::SampledRss,
                        time_nanos,
                    };
                    let known = sampled.entry(id).or_insert(peak);
                    *known = larger(*known, peak);
                }
            }
            Subject::ProcessDetail(id) => {
                let Some(series) = table.series("peak_rss_bytes") else {
                    continue;
                };
                let marks = marks.entry(id).or_default();
                for (time_nanos, bytes) in series.present() {
                    marks.see(bytes, PeakKind::Vmhwm, time_nanos);
                }
            }
            _ => {}
        }
    }
    for timed in &recording.events {
        if let Event::ProcessEnded {
            id,
            peak_rss_bytes: Some(bytes),
            ..
        } = timed.event
        {
            // Reached before the end; when, only the samples can tell.
            let time_nanos = sampled.get(&id).map(|peak| peak.time_nanos);
            let marks = marks.entry(id).or_default();
            marks.see(
                bytes as f64,
                PeakKind::Rusage,
                time_nanos.unwrap_or(timed.time_nanos),
            );
        }
    }
    let was_there = those_before_us(recording);
    for (id, marks) in marks {
        // A mark from before we came says nothing about the recording until it rises.
        let Some(mark) = marks.highest(was_there.contains(&id)) else {
            continue;
        };
        let known = sampled.entry(id).or_insert(mark);
        *known = larger(*known, mark);
    }
    sampled
}

/// High-water marks of one process, in the order of time.
#[derive(Debug, Default)]
struct HighWaterMarks {
    first_bytes: Option<f64>,
    highest: Option<Peak>,
}

impl HighWaterMarks {
    fn see(&mut self, bytes: f64, kind: PeakKind, time_nanos: u64) {
        self.first_bytes.get_or_insert(bytes);
        if self.highest.is_none_or(|highest| bytes > highest.bytes) {
            self.highest = Some(Peak {
                bytes,
                kind,
                time_nanos,
            });
        }
    }

    fn highest(&self, only_if_risen: bool) -> Option<Peak> {
        let first = self.first_bytes?;
        self.highest
            .filter(|highest| !only_if_risen || highest.bytes > first)
    }
}

/// Processes that lived before the recording began.
fn those_before_us(recording: &Recording) -> Vec<ProcessId> {
    if recording.description.mode == RunMode::Run {
        return Vec::new();
    }
    let started = recording
        .events
        .iter()
        .filter_map(|timed| match timed.event {
            Event::ProcessStarted { id, .. } => Some((timed.time_nanos, id)),
            _ => None,
        });
    let started: Vec<(u64, ProcessId)> = started.collect();
    let first = started.iter().map(|(time, _)| *time).min();
    let there = started.iter().filter(|(time, _)| Some(*time) == first);
    there.map(|(_, id)| *id).collect()
}

#[cfg(test)]
#[path = "peak_tests.rs"]
mod tests;
