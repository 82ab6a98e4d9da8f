//! What `nilo snapshot summary` answers: the peaks of each device, what the reserved bytes were for, and who held them.

use std::ops::Range;

use nilo_allocator::GpuSnapshot;
use nilo_allocator::snapshot::TraceAction;
use nilo_allocator::usage::{
    MemoryLayout, PeakMoment, ReservedBreakdown, TracePeaks, usage_by_stack,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::call_stack::{HeldByStack, largest_holders};
use super::held_by::{HeldByCategory, HeldByKind, HeldByPhase};
use super::problem::SnapshotProblem;
use super::reserved_parts::{ReservedParts, has_stacks, layout_at};
use super::settings_text::SnapshotSettings;
use super::trace_place::{TraceMoment, TraceRange, secs_between};

/// The value of [`SnapshotSummaryAnswer::schema`].
pub const SNAPSHOT_SUMMARY_SCHEMA: &str = "nilo.snapshot-summary/1";

/// The peaks of one or more snapshots.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct SnapshotSummaryAnswer {
    /// `nilo.snapshot-summary/1`.
    #[schemars(extend("const" = SNAPSHOT_SUMMARY_SCHEMA))]
    pub schema: &'static str,
    /// The most that any device had allocated.
    pub peak_allocated_bytes: u64,
    /// The most that any device had reserved.
    pub peak_reserved_bytes: u64,
    /// One for each file, the largest reserved peak first.
    pub snapshots: Vec<SummarizedSnapshot>,
}

/// One file: one rank.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct SummarizedSnapshot {
    /// The file.
    pub file: String,
    /// The settings it was recorded with.
    pub settings: SnapshotSettings,
    /// Whether allocations have call stacks.
    pub has_stacks: bool,
    /// Its devices, the largest reserved peak first.
    pub devices: Vec<SummarizedDevice>,
}

/// One GPU of a snapshot.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct SummarizedDevice {
    /// Its ordinal.
    pub device: usize,
    /// The events that were looked at.
    pub events: u64,
    /// How long they took.
    pub duration_secs: Option<f64>,
    /// Whether the trace begins after the first allocation: earlier peaks are not in it.
    pub begins_late: bool,
    /// Allocations that failed.
    pub oom_events: u64,
    /// The most in blocks that the program had.
    pub peak_allocated_bytes: u64,
    /// The most in segments.
    pub peak_reserved_bytes: u64,
    /// When most was allocated.
    pub at_peak_allocated: MemoryAtPeak,
    /// When most was reserved.
    pub at_peak_reserved: MemoryAtPeak,
    /// What the allocated bytes at their peak were, most first; the rows add up to `peak_allocated_bytes`.
    pub categories: Vec<HeldByCategory>,
    /// What the program was doing when it allocated them, most first; empty where the snapshot has neither annotations nor metadata.
    pub phases: Vec<HeldByPhase>,
    /// Who held the allocated bytes at their peak, most first.
    pub stacks: Vec<HeldByStack>,
    /// How many call stacks held some.
    pub stack_count: u64,
}

/// What was reserved at a peak, and what for.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct MemoryAtPeak {
    /// When it was.
    #[serde(flatten)]
    pub moment: TraceMoment,
    /// What the bytes were for.
    #[serde(flatten)]
    pub parts: ReservedParts,
}

/// From this part of the reserved bytes on, free ones are worth a look at other settings.
const NOTABLE_FREE_SHARE: f64 = 0.1;

impl SummarizedDevice {
    /// The bytes that were reserved and free at the peak, where they are so many that other settings may help.
    pub fn notable_free_bytes(&self) -> Option<u64> {
        let free = self.at_peak_reserved.parts.free_bytes();
        let is_notable = free as f64 >= NOTABLE_FREE_SHARE * self.peak_reserved_bytes as f64;
        is_notable.then_some(free)
    }
}

impl SnapshotSummaryAnswer {
    /// The answer for several files.
    pub fn new(mut snapshots: Vec<SummarizedSnapshot>) -> Self {
        snapshots.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.peak_reserved_bytes()));
        let devices = || snapshots.iter().flat_map(|snapshot| &snapshot.devices);
        let allocated = devices().map(|device| device.peak_allocated_bytes).max();
        let reserved = devices().map(|device| device.peak_reserved_bytes).max();
        Self {
            schema: SNAPSHOT_SUMMARY_SCHEMA,
            peak_allocated_bytes: allocated.unwrap_or(0),
            peak_reserved_bytes: reserved.unwrap_or(0),
            snapshots,
        }
    }
}

impl SummarizedSnapshot {
    /// Looks at a part of each device's trace; so many stacks are named.
    pub fn of(
        file: String,
        snapshot: &GpuSnapshot,
        range: &TraceRange,
        most_stacks: usize,
    ) -> Result<Self, SnapshotProblem> {
        let mut devices = Vec::new();
        let mut problem = SnapshotProblem::NoEvents;
        for trace in snapshot
            .traces
            .iter()
            .filter(|trace| !trace.rows.is_empty())
        {
            match range.rows(snapshot, trace.device) {
                Ok(rows) => devices.push(SummarizedDevice::of(
                    snapshot,
                    trace.device,
                    rows,
                    most_stacks,
                )),
                Err(empty) => problem = empty,
            }
        }
        if devices.is_empty() {
            return Err(problem);
        }
        devices.sort_by_key(|device| std::cmp::Reverse(device.peak_reserved_bytes));
        Ok(Self {
            file,
            settings: SnapshotSettings::from(&snapshot.settings),
            has_stacks: has_stacks(snapshot),
            devices,
        })
    }

    /// The most that any of its devices had reserved.
    pub fn peak_reserved_bytes(&self) -> u64 {
        let peaks = self.devices.iter().map(|device| device.peak_reserved_bytes);
        peaks.max().unwrap_or(0)
    }
}

impl SummarizedDevice {
    fn of(snapshot: &GpuSnapshot, device: usize, rows: Range<usize>, most_stacks: usize) -> Self {
        let peaks = TracePeaks::within(snapshot, device, rows.clone());
        // Both moments in one walk: the earlier one first.
        let (first, second) = match peaks.allocated.row <= peaks.reserved.row {
            true => (peaks.allocated.row, peaks.reserved.row),
            false => (peaks.reserved.row, peaks.allocated.row),
        };
        let mut layout = layout_at(snapshot, device, first);
        let mut at = |moment: PeakMoment| {
            if moment.row != first {
                advance(&mut layout, snapshot, device, first, second);
            }
            let usage = usage_by_stack(&layout);
            let is_asked = moment == peaks.allocated;
            let kinds = is_asked.then(|| HeldByKind::of(snapshot, device, &layout, moment.row));
            let parts = ReservedParts::from(ReservedBreakdown::of(&layout));
            (parts, usage, kinds)
        };
        let (allocated, reserved) = match peaks.allocated.row == first {
            true => {
                let allocated = at(peaks.allocated);
                (allocated, at(peaks.reserved))
            }
            false => {
                let reserved = at(peaks.reserved);
                (at(peaks.allocated), reserved)
            }
        };
        let at_peak = |moment: PeakMoment, parts| MemoryAtPeak {
            moment: TraceMoment::of_peak(snapshot, device, moment.row, &rows),
            parts,
        };
        let (parts, usage, kinds) = allocated;
        let kinds = kinds.unwrap_or_default();
        let ooms = snapshot.events.actions()[rows.clone()].iter();
        Self {
            device,
            events: rows.len() as u64,
            duration_secs: secs_between(snapshot, rows.start, rows.end - 1),
            begins_late: peaks.starts_late,
            oom_events: ooms.filter(|action| **action == TraceAction::Oom).count() as u64,
            peak_allocated_bytes: peaks.allocated.allocated_bytes,
            peak_reserved_bytes: peaks.reserved.reserved_bytes,
            at_peak_allocated: at_peak(peaks.allocated, parts),
            at_peak_reserved: at_peak(peaks.reserved, reserved.0),
            categories: kinds.categories,
            phases: kinds.phases,
            stacks: largest_holders(snapshot, &usage, most_stacks),
            stack_count: usage.len() as u64,
        }
    }
}

/// Follows the events after one up to another.
fn advance(
    layout: &mut MemoryLayout,
    snapshot: &GpuSnapshot,
    device: usize,
    after: Option<usize>,
    to: Option<usize>,
) {
    let next = after.map_or(snapshot.trace(device).start, |row| row + 1);
    for row in next..to.map_or(next, |row| row + 1) {
        layout.apply(snapshot.events.row(row));
    }
}
