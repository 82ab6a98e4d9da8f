//! The most that each process held, and the most that it added to the tree: one figure for the summary, the plot and the peak of the tree.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use nilo_sample::{Event, ProcessId, ProcessInfo, Recording, RunMode, Subject};

use crate::peak::{Peak, PeakKind, larger, told_by_wait};

/// The peaks of one process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessPeaks {
    /// Its largest resident set during the recording.
    pub resident: Option<Peak>,
    /// The most that it added to the tree: pages that several processes hold count for the oldest of them.
    /// Older recordings do not tell it.
    pub added_bytes: Option<f64>,
    /// When it had the figure that it is listed with, and its resident set at that time.
    pub(crate) listed_at: Option<ListedMoment>,
}

/// A moment of one process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ListedMoment {
    pub(crate) time_nanos: u64,
    pub(crate) rss_bytes: f64,
}

impl ListedMoment {
    fn of(peak: Peak) -> ListedMoment {
        ListedMoment {
            time_nanos: peak.time_nanos,
            rss_bytes: peak.bytes,
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
    let resident = resident_peaks(recording);
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
        let (Some(added), Some(rss)) = (table.series("memory_bytes"), table.series("rss_bytes"))
        else {
            continue;
        };
        for (row, bytes) in added.values.iter().copied().enumerate() {
            let rss_bytes = rss.values.get(row).copied().unwrap_or(bytes);
            if bytes.is_finite() {
                let moment = ListedMoment {
                    time_nanos: table.times.get(row).copied().unwrap_or(0),
                    rss_bytes,
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
        let highest = peak.map_or(sampled.at_rss, ListedMoment::of);
        let (peak, sampled_rss) = (highest.rss_bytes, sampled.at_rss.rss_bytes);
        let bytes = match () {
            () if Some(id) == oldest => peak.max(sampled.added),
            () if forked.contains(&id) => {
                let mark = risen.get(&id).copied().unwrap_or(0.0);
                let spike = (mark - sampled_rss).max(0.0);
                sampled.added.max(sampled.added_at_rss + spike)
            }
            () => sampled.added + (peak - sampled_rss).max(0.0),
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
    /// The sample of its largest RSS, and what it added in it.
    at_rss: ListedMoment,
    added_at_rss: f64,
}

impl SampledPeaks {
    fn first(added: f64, moment: ListedMoment) -> SampledPeaks {
        SampledPeaks {
            added,
            at_added: moment,
            at_rss: moment,
            added_at_rss: added,
        }
    }

    fn see(&mut self, added: f64, moment: ListedMoment) {
        if added > self.added {
            (self.added, self.at_added) = (added, moment);
        }
        if moment.rss_bytes >= self.at_rss.rss_bytes {
            (self.at_rss, self.added_at_rss) = (moment, added);
        }
    }
}

/// High-water marks that rose after they were first read.
fn risen_marks(recording: &Recording) -> HashMap<ProcessId, f64> {
    let marks = read_marks(recording).into_iter();
    marks
        .filter_map(|(id, marks)| Some((id, marks.highest(true)?.bytes)))
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
        if let Event::HighWater { id, rss_bytes } = timed.event {
            let marks = marks.entry(id).or_default();
            marks.see(rss_bytes as f64, PeakKind::Vmhwm, timed.time_nanos);
        }
    }
    marks
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

/// The largest resident set of each process during the recording.
pub(crate) fn resident_peaks(recording: &Recording) -> HashMap<ProcessId, Peak> {
    let mut sampled: HashMap<ProcessId, Peak> = HashMap::new();
    for table in &recording.tables {
        let Subject::Process(id) = table.spec.subject else {
            continue;
        };
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
    let was_there = those_before_us(recording);
    for (id, marks) in marks {
        // A mark from before we came says nothing about the recording until it rises.
        let Some(mark) = marks.highest(was_there.contains(&id)) else {
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
    first: Option<Peak>,
    highest: Option<Peak>,
}

impl HighWaterMarks {
    fn see(&mut self, bytes: f64, kind: PeakKind, time_nanos: u64) {
        let mark = Peak {
            bytes,
            kind,
            time_nanos,
        };
        let is_earlier = |than: &Peak| time_nanos < than.time_nanos;
        // What was told after the end has no time of its own.
        if self
            .first
            .is_none_or(|first| kind == PeakKind::Vmhwm && is_earlier(&first))
        {
            self.first = Some(mark);
        }
        let is_higher = |than: Peak| bytes > than.bytes || bytes == than.bytes && is_earlier(&than);
        if self.highest.is_none_or(is_higher) {
            self.highest = Some(mark);
        }
    }

    fn highest(&self, only_if_risen: bool) -> Option<Peak> {
        let first = self.first?;
        self.highest
            .filter(|highest| !only_if_risen || highest.bytes > first.bytes)
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
#[path = "process_peaks_tests.rs"]
mod tests;
