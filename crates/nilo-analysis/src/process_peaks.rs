//! The most that each process held, and the most that it added to the tree: one figure for the summary, the plot and the peak of the tree.
//!
//! The kernel counts a page once for each time that a process has mapped it (two `np.memmap` of one file), in RSS and in its marks;
//! what a process holds is its distinct pages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use nilo_sample::{
    Event, ProcessId, ProcessInfo, RecordedTable, Recording, RunMode, SeriesView, Subject,
};

use crate::peak::{Peak, PeakKind, larger, told_by_wait};

/// The peaks of one process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessPeaks {
    /// The most that it held during the recording, each page counted once.
    pub resident: Option<Peak>,
    /// The most that it added to the tree: pages that several processes hold count for the oldest of them.
    /// Older recordings do not tell it.
    pub added_bytes: Option<f64>,
    /// When it had the figure that it is listed with, and what it held at that time.
    pub(crate) listed_at: Option<ListedMoment>,
}

/// A moment of one process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ListedMoment {
    pub(crate) time_nanos: u64,
    pub(crate) held_bytes: f64,
}

impl ListedMoment {
    fn of(peak: Peak) -> ListedMoment {
        ListedMoment {
            time_nanos: peak.time_nanos,
            held_bytes: peak.bytes,
        }
    }
}

impl ProcessPeaks {
    /// The figure that a process is listed with.
    pub fn listed_bytes(&self) -> Option<f64> {
        let resident = || self.resident.map(|peak| peak.bytes);
        self.added_bytes.or_else(resident)
    }
}

/// The peaks of every process that was recorded.
pub fn process_peaks(recording: &Recording) -> HashMap<ProcessId, ProcessPeaks> {
    let resident = held_peaks(recording);
    let added = added_peaks(recording, &resident);
    let ids = resident.keys().chain(added.keys());
    ids.map(|id| {
        let peaks = ProcessPeaks {
            resident: resident.get(id).copied(),
            added_bytes: added.get(id).map(|(bytes, _)| *bytes),
            listed_at: match added.get(id) {
                Some((_, moment)) => Some(*moment),
                None => resident.get(id).copied().map(ListedMoment::of),
            },
        };
        (*id, peaks)
    })
    .collect()
}

/// The most that each process added to the tree.
///
/// A spike between two samples that its own mark shows was its own. The mark of a forked process began with what it inherited:
/// there a spike counts once the mark rose while the process was recorded. What it grew by above every sample is new pages; copies of inherited ones do not show in RSS.
/// The oldest process of a run inside a job has nobody older in that run to count its pages for.
fn added_peaks(
    recording: &Recording,
    resident: &HashMap<ProcessId, Peak>,
) -> HashMap<ProcessId, (f64, ListedMoment)> {
    let mut sampled: HashMap<ProcessId, SampledPeaks> = HashMap::new();
    for table in &recording.tables {
        let Subject::Process(id) = table.spec.subject else {
            continue;
        };
        let (Some(added), Some(held)) = (table.series("memory_bytes"), held_series(table)) else {
            continue;
        };
        for (row, bytes) in added.values.iter().copied().enumerate() {
            let held_bytes = held.values.get(row).copied().unwrap_or(bytes);
            if bytes.is_finite() {
                let moment = ListedMoment {
                    time_nanos: table.times.get(row).copied().unwrap_or(0),
                    held_bytes,
                };
                match sampled.entry(id) {
                    Entry::Occupied(mut known) => known.get_mut().see(bytes, moment),
                    Entry::Vacant(new) => drop(new.insert(SampledPeaks::first(bytes, moment))),
                }
            }
        }
    }
    let is_inside_job = recording.description.parent.is_some();
    let oldest = sampled.keys().min_by_key(|id| (id.start_ticks, id.pid));
    let oldest = oldest.copied().filter(|_| is_inside_job);
    let forked = forked_processes(recording);
    let risen = risen_marks(recording);
    let added = sampled.into_iter().map(|(id, sampled)| {
        let peak = resident.get(&id).copied();
        let highest = peak.map_or(sampled.at_held, ListedMoment::of);
        let (peak, sampled_held) = (highest.held_bytes, sampled.at_held.held_bytes);
        let bytes = match () {
            () if Some(id) == oldest => peak.max(sampled.added),
            () if forked.contains(&id) => {
                let mark = risen.get(&id).copied().unwrap_or(0.0);
                let spike = (mark - sampled_held).max(0.0);
                sampled.added.max(sampled.added_at_held + spike)
            }
            () => sampled.added + (peak - sampled_held).max(0.0),
        };
        let moment = match bytes > sampled.added {
            true => highest,
            false => sampled.at_added,
        };
        (id, (bytes, moment))
    });
    added.collect()
}

/// The largest samples of one process.
#[derive(Debug, Clone, Copy)]
struct SampledPeaks {
    added: f64,
    at_added: ListedMoment,
    /// The sample in which it held most, and what it added in it.
    at_held: ListedMoment,
    added_at_held: f64,
}

impl SampledPeaks {
    fn first(added: f64, moment: ListedMoment) -> SampledPeaks {
        SampledPeaks {
            added,
            at_added: moment,
            at_held: moment,
            added_at_held: added,
        }
    }

    fn see(&mut self, added: f64, moment: ListedMoment) {
        if added > self.added {
            (self.added, self.at_added) = (added, moment);
        }
        if moment.held_bytes >= self.at_held.held_bytes {
            (self.at_held, self.added_at_held) = (moment, added);
        }
    }
}

/// High-water marks that rose after they were first read.
fn risen_marks(recording: &Recording) -> HashMap<ProcessId, f64> {
    let mapped_twice = MappedTwice::of(recording);
    let marks = read_marks(recording).into_iter();
    marks
        .filter_map(|(id, marks)| Some((id, marks.highest(true, mapped_twice.get(&id))?.bytes)))
        .collect()
}

/// The marks that were read of each process while it lived.
fn read_marks(recording: &Recording) -> HashMap<ProcessId, HighWaterMarks> {
    let mut marks: HashMap<ProcessId, HighWaterMarks> = HashMap::new();
    for table in &recording.tables {
        let Subject::ProcessDetail(id) = table.spec.subject else {
            continue;
        };
        let Some(series) = table.series("peak_rss_bytes") else {
            continue;
        };
        let marks = marks.entry(id).or_default();
        for (time_nanos, bytes) in series.present() {
            marks.see(bytes, PeakKind::Vmhwm, time_nanos);
        }
    }
    for timed in &recording.events {
        if let Event::HighWater { id, rss_bytes, .. } = timed.event {
            let marks = marks.entry(id).or_default();
            marks.see(rss_bytes as f64, PeakKind::Vmhwm, timed.time_nanos);
        }
    }
    marks
}

/// What a process held by its samples. Older recordings have its resident set alone.
fn held_series(table: &RecordedTable) -> Option<SeriesView<'_>> {
    let distinct = table.series("distinct_bytes");
    let distinct = distinct.filter(|series| series.present().next().is_some());
    distinct.or_else(|| table.series("rss_bytes"))
}

/// Processes that began as a copy of one that was recorded: they have its command.
fn forked_processes(recording: &Recording) -> Vec<ProcessId> {
    let mut commands: HashMap<u32, &ProcessInfo> = HashMap::new();
    let mut forked = Vec::new();
    for timed in &recording.events {
        match &timed.event {
            Event::ProcessStarted { id, info } => {
                let parent = commands.get(&info.parent);
                if parent.is_some_and(|parent| parent.command == info.command) {
                    forked.push(*id);
                }
                commands.insert(id.pid, info);
            }
            Event::ProcessRenamed { id, info } => {
                commands.insert(id.pid, info);
            }
            _ => {}
        }
    }
    forked
}

/// What a peak of a process counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counting {
    /// Each page that it holds.
    DistinctPages,
    /// Each page as often as it has mapped it, as the kernel does.
    Mappings,
}

/// The most that each process held during the recording.
pub(crate) fn held_peaks(recording: &Recording) -> HashMap<ProcessId, Peak> {
    peaks_counting(recording, Counting::DistinctPages)
}

/// The largest resident set of each process during the recording, by the kernel's account.
pub(crate) fn resident_peaks(recording: &Recording) -> HashMap<ProcessId, Peak> {
    peaks_counting(recording, Counting::Mappings)
}

fn peaks_counting(recording: &Recording, counting: Counting) -> HashMap<ProcessId, Peak> {
    let mut sampled: HashMap<ProcessId, Peak> = HashMap::new();
    for table in &recording.tables {
        let Subject::Process(id) = table.spec.subject else {
            continue;
        };
        let series = match counting {
            Counting::DistinctPages => held_series(table),
            Counting::Mappings => table.series("rss_bytes"),
        };
        if let Some((time_nanos, bytes)) = series.and_then(|series| series.max()) {
            let peak = Peak {
                bytes,
                kind: PeakKind::SampledRss,
                time_nanos,
            };
            let known = sampled.entry(id).or_insert(peak);
            *known = larger(*known, peak);
        }
    }
    let mut marks = read_marks(recording);
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
    let mapped_twice = match counting {
        Counting::DistinctPages => MappedTwice::of(recording),
        Counting::Mappings => HashMap::new(),
    };
    let was_there = those_before_us(recording);
    for (id, marks) in marks {
        // A mark from before we came says nothing about the recording until it rises.
        let Some(mark) = marks.highest(was_there.contains(&id), mapped_twice.get(&id)) else {
            continue;
        };
        let known = sampled.entry(id).or_insert(mark);
        *known = larger(*known, mark);
    }
    add_command_mark(recording, &mut sampled);
    sampled
}

/// What `wait4` tells of a command with children is the largest of it and of those that it waited for.
///
/// It is taken for the command's own where that is the largest process and was seen with half as much:
/// a child that nobody saw would have to outgrow it between two samples.
fn add_command_mark(recording: &Recording, peaks: &mut HashMap<ProcessId, Peak>) {
    let description = &recording.description;
    let root = description.root_pids.first().copied();
    let (Some(root), RunMode::Run) = (root, &description.mode) else {
        return;
    };
    let Some(bytes) = told_by_wait(recording) else {
        return;
    };
    let largest = peaks
        .iter_mut()
        .max_by(|a, b| a.1.bytes.total_cmp(&b.1.bytes));
    if let Some((id, peak)) = largest
        && id.pid == root
        && peak.bytes >= bytes / 2.0
        && peak.bytes < bytes
    {
        *peak = Peak {
            bytes,
            kind: PeakKind::Rusage,
            ..*peak
        };
    }
}

/// High-water marks of one process.
#[derive(Debug, Default)]
struct HighWaterMarks {
    seen: Vec<Peak>,
}

impl HighWaterMarks {
    fn see(&mut self, bytes: f64, kind: PeakKind, time_nanos: u64) {
        // Of a mark that stands still, the first and the last reading say all.
        if let [.., before, last] = self.seen.as_mut_slice()
            && before.bytes == bytes
            && (last.bytes, last.kind) == (bytes, kind)
            && last.time_nanos <= time_nanos
        {
            last.time_nanos = time_nanos;
            return;
        }
        self.seen.push(Peak {
            bytes,
            kind,
            time_nanos,
        });
    }

    /// The highest mark, and of equal ones the first; less what of it was counted more than once, where the process did that.
    fn highest(&self, only_if_risen: bool, mapped_twice: Option<&MappedTwice>) -> Option<Peak> {
        let mut in_order: Vec<&Peak> = self.seen.iter().collect();
        // What was told after the end has no time of its own.
        in_order.sort_by_key(|mark| (mark.kind != PeakKind::Vmhwm, mark.time_nanos));
        let first = in_order.first()?.bytes;
        let (mut highest, mut highest_raw): (Option<Peak>, f64) = (None, 0.0);
        let mut read_nanos = 0;
        for mark in in_order {
            let until = match mark.kind {
                PeakKind::Vmhwm => mark.time_nanos,
                _ => u64::MAX,
            };
            if mark.bytes > highest_raw && (!only_if_risen || mark.bytes > first) {
                let twice = mapped_twice.map_or(0.0, |it| it.at_most_memory(read_nanos, until));
                let bytes = mark.bytes - twice;
                if highest.is_none_or(|highest| bytes > highest.bytes) {
                    highest = Some(Peak { bytes, ..*mark });
                }
            } else if let Some(highest) = &mut highest
                && mark.bytes == highest_raw
                && mark.time_nanos < highest.time_nanos
            {
                (highest.kind, highest.time_nanos) = (mark.kind, mark.time_nanos);
            }
            highest_raw = highest_raw.max(mark.bytes);
            read_nanos = until;
        }
        highest
    }
}

/// What the resident memory of a process counted more than once, over time.
#[derive(Debug, Default)]
struct MappedTwice {
    /// Time, resident memory, and the part of it that was counted more than once.
    samples: Vec<(u64, f64, f64)>,
}

impl MappedTwice {
    /// Of the processes that mapped anything twice: hardly any does.
    fn of(recording: &Recording) -> HashMap<ProcessId, MappedTwice> {
        let mut found: HashMap<ProcessId, MappedTwice> = HashMap::new();
        for table in &recording.tables {
            let Subject::Process(id) = table.spec.subject else {
                continue;
            };
            let series = table
                .series("rss_bytes")
                .zip(table.series("distinct_bytes"));
            let Some((resident, distinct)) = series else {
                continue;
            };
            let values = resident.values.iter().zip(distinct.values);
            let samples = table.times.iter().zip(values);
            let mut before = 0.0;
            let samples = samples.map(|(time, (rss, distinct))| {
                // A mapping that is given back is gone from the address space before its pages are from RSS: they were not mapped twice.
                let is_given_back = *distinct < before;
                before = *distinct;
                let twice = if is_given_back { 0.0 } else { rss - distinct };
                (*time, *rss, twice)
            });
            let samples: Vec<(u64, f64, f64)> =
                samples.filter(|(_, _, twice)| twice.is_finite()).collect();
            if samples.iter().any(|(_, _, twice)| *twice > 0.0) {
                found.entry(id).or_default().samples.extend(samples);
            }
        }
        for of_process in found.values_mut() {
            of_process.samples.sort_by_key(|(time, _, _)| *time);
        }
        found
    }

    /// What was counted more than once in the largest sample since a mark was read before: a spike is what the mark has above that.
    fn at_most_memory(&self, from_nanos: u64, to_nanos: u64) -> f64 {
        let begin = self.samples.partition_point(|it| it.0 <= from_nanos);
        let end = self.samples.partition_point(|it| it.0 <= to_nanos);
        // Only changes are written: the sample before that time reaches into it.
        let within = &self.samples[begin.saturating_sub(1)..end.max(begin)];
        let largest = within.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        largest.map_or(0.0, |(_, _, twice)| *twice)
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
    // Who came and went between two samples of a job tells its mark as it begins its run.
    let is_seen = |id: &ProcessId| started.iter().any(|(_, seen)| seen == id);
    let told = recording
        .events
        .iter()
        .filter_map(|timed| match timed.event {
            Event::HighWater { id, .. } if !is_seen(&id) => Some(id),
            _ => None,
        });
    there.map(|(_, id)| *id).chain(told).collect()
}

#[cfg(test)]
#[path = "process_peaks_tests.rs"]
mod tests;
