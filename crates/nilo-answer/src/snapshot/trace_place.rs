//! Places in a trace: the moment of an event, and the part of a trace that was asked for.

use std::ops::Range;

use nilo_allocator::GpuSnapshot;
use schemars::JsonSchema;
use serde::Serialize;

use super::problem::SnapshotProblem;

/// When something was so.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct TraceMoment {
    /// The number of the event in the trace of its device, from 1; 0 is before the first.
    pub event: u64,
    /// Whether it was so already when the trace, or the part of it that was asked for, began: then `event` is the one before that.
    pub at_start: bool,
    /// Seconds since the first event; absent times are `null`.
    pub secs: Option<f64>,
    /// What the program was doing, where it was annotated (`record_function`, `Optimizer.step`).
    pub stage: Option<String>,
}

impl TraceMoment {
    /// The moment of an event, by its row in the snapshot.
    pub fn of(snapshot: &GpuSnapshot, device: usize, row: Option<usize>) -> Self {
        let first = snapshot.trace(device).start;
        let Some(row) = row else {
            return Self {
                event: 0,
                at_start: true,
                secs: None,
                stage: None,
            };
        };
        Self {
            event: (row - first + 1) as u64,
            at_start: false,
            secs: secs_between(snapshot, first, row),
            stage: stage_at(snapshot, device, snapshot.events.time_micros(row)),
        }
    }

    /// The moment of a peak among these events; it may be the level that they began with.
    pub(crate) fn of_peak(
        snapshot: &GpuSnapshot,
        device: usize,
        row: Option<usize>,
        rows: &Range<usize>,
    ) -> Self {
        Self {
            at_start: row.is_none_or(|row| row < rows.start),
            ..Self::of(snapshot, device, row)
        }
    }
}

/// The seconds from one event to another; none where the file has no times.
pub(crate) fn secs_between(snapshot: &GpuSnapshot, first: usize, last: usize) -> Option<f64> {
    let times = &snapshot.events;
    let (from, to) = (times.time_micros(first), times.time_micros(last));
    (from > 0 && to >= from).then(|| (to - from) as f64 / 1e6)
}

/// The innermost stage that was open.
fn stage_at(snapshot: &GpuSnapshot, device: usize, time_micros: u64) -> Option<String> {
    let mut open = Vec::new();
    let marks = snapshot.stages.iter();
    for mark in marks.filter(|mark| mark.device == device as u64 && mark.time_micros <= time_micros)
    {
        match mark.starts {
            true => open.push(mark.name),
            false => {
                if let Some(place) = open.iter().rposition(|name| *name == mark.name) {
                    open.remove(place);
                }
            }
        }
    }
    open.last()
        .map(|name| snapshot.texts.get(*name).into_owned())
}

/// One end of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TraceBound {
    /// The number of an event, from 1.
    Event(u64),
    /// Seconds since the first event.
    Secs(f64),
}

/// A part of a trace; both ends belong to it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TraceRange {
    /// Its beginning; none is that of the trace.
    pub from: Option<TraceBound>,
    /// Its end; none is that of the trace.
    pub to: Option<TraceBound>,
}

impl TraceRange {
    /// The rows of a device in it.
    pub fn rows(
        &self,
        snapshot: &GpuSnapshot,
        device: usize,
    ) -> Result<Range<usize>, SnapshotProblem> {
        let trace = snapshot.trace(device);
        let is_after = |bound: TraceBound, row: usize| match bound {
            TraceBound::Event(number) => (row - trace.start + 1) as u64 > number,
            TraceBound::Secs(secs) => {
                secs_between(snapshot, trace.start, row).is_some_and(|at| at > secs)
            }
        };
        let is_from = |bound: TraceBound, row: usize| match bound {
            TraceBound::Event(number) => (row - trace.start + 1) as u64 >= number,
            TraceBound::Secs(secs) => {
                secs_between(snapshot, trace.start, row).is_some_and(|at| at >= secs)
            }
        };
        let start = self.from.map_or(Some(trace.start), |bound| {
            trace.clone().find(|row| is_from(bound, *row))
        });
        let end = self.to.map_or(trace.end, |bound| {
            let after = trace.clone().find(|row| is_after(bound, *row));
            after.unwrap_or(trace.end)
        });
        match start {
            Some(start) if start < end => Ok(start..end),
            _ => Err(self.problem(snapshot, device)),
        }
    }

    fn problem(&self, snapshot: &GpuSnapshot, device: usize) -> SnapshotProblem {
        let trace = snapshot.trace(device);
        if trace.is_empty() {
            return SnapshotProblem::NoEvents;
        }
        let secs = secs_between(snapshot, trace.start, trace.end - 1);
        SnapshotProblem::EmptyRange {
            device,
            events: trace.len(),
            duration: secs.map_or(String::new(), |secs| format!(" over {secs:.3} s")),
        }
    }
}

/// The device to answer for: the one named, or the one with most events.
pub fn chosen_device(
    snapshot: &GpuSnapshot,
    asked: Option<usize>,
) -> Result<usize, SnapshotProblem> {
    let largest = snapshot.traces.iter().max_by_key(|trace| trace.rows.len());
    let largest = largest.filter(|trace| !trace.rows.is_empty());
    let Some(largest) = largest else {
        return Err(SnapshotProblem::NoEvents);
    };
    match asked {
        None => Ok(largest.device),
        Some(device) if !snapshot.trace(device).is_empty() => Ok(device),
        Some(device) => {
            let present = snapshot.traces.iter().map(|trace| trace.device.to_string());
            Err(SnapshotProblem::NoSuchDevice {
                device,
                present: format!("GPU {}", present.collect::<Vec<_>>().join(", ")),
            })
        }
    }
}
