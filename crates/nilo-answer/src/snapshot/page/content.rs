//! Everything on the page: for each GPU the answer of `summary`, the curve, the peak by call stack, the segments, and what `why` says.

use std::ops::Range;

use nilo_allocator::GpuSnapshot;
use nilo_allocator::usage::{MemoryLayout, TracePeaks, TraceStart, usage_by_stack};
use nilo_sample::printable::printable;
use serde::Serialize;

use super::super::problem::SnapshotProblem;
use super::super::settings_text::SnapshotSettings;
use super::super::summary::{SummarizedDevice, SummarizedSnapshot};
use super::super::trace_place::{TraceMoment, TraceRange, chosen_device};
use super::super::why::{ExplainedOom, SnapshotWhyAnswer};
use super::flame_tree::FlameTree;
use super::frame_table::{FrameTable, PageFrame, PageStack};
use super::segment_map::{MapMoment, SegmentMap};
use super::timeline::PackedTimeline;

/// Rows of the table of call stacks.
const MOST_STACKS: usize = 100;
/// Failed allocations of a device that are explained, the last ones.
const MOST_OOMS: usize = 5;
/// Call stacks that each of them names.
const OOM_STACKS: usize = 10;

/// What is asked of a page.
#[derive(Debug, Clone, Copy, Default)]
pub struct PageRequest {
    /// One GPU, or all that have events.
    pub device: Option<usize>,
    /// Which part of the trace.
    pub range: TraceRange,
}

/// The content of a page.
#[derive(Debug, Serialize)]
pub struct SnapshotPage {
    /// The file.
    pub file: String,
    /// The settings it was recorded with.
    pub settings: SnapshotSettings,
    /// Whether allocations have call stacks.
    pub has_stacks: bool,
    /// The functions that the rest names by number.
    pub frames: Vec<PageFrame>,
    /// The call stacks that segments name by number.
    pub stacks: Vec<PageStack>,
    /// Its GPUs, the largest reserved peak first.
    pub devices: Vec<DevicePage>,
}

/// One GPU.
#[derive(Debug, Serialize)]
pub struct DevicePage {
    /// As `nilo snapshot summary` answers.
    pub summary: SummarizedDevice,
    /// Allocated and reserved bytes over the trace.
    pub timeline: PackedTimeline,
    /// The allocated bytes at their peak.
    pub flame: FlameTree,
    /// The segments at moments worth looking at.
    pub maps: Vec<SegmentMap>,
    /// As `nilo snapshot why` answers.
    pub ooms: Vec<ExplainedOom>,
}

impl SnapshotPage {
    /// The page of a snapshot.
    pub fn of(
        file: String,
        snapshot: &GpuSnapshot,
        request: &PageRequest,
    ) -> Result<Self, SnapshotProblem> {
        if let Some(device) = request.device {
            chosen_device(snapshot, Some(device))?;
        }
        let range = &request.range;
        let summarized = SummarizedSnapshot::of(file.clone(), snapshot, range, MOST_STACKS)?;
        let why = SnapshotWhyAnswer::of(file, snapshot, range, MOST_OOMS, OOM_STACKS)?;
        let asked = |device: usize| request.device.is_none_or(|asked| asked == device);
        let mut frames = FrameTable::default();
        let mut devices = Vec::new();
        for summary in summarized.devices {
            if asked(summary.device) {
                let ooms = why.ooms.iter().filter(|oom| oom.device == summary.device);
                let ooms = ooms.cloned().collect();
                let rows = range.rows(snapshot, summary.device)?;
                devices.push(DevicePage::of(snapshot, summary, ooms, rows, &mut frames));
            }
        }
        Ok(Self {
            file: printable(&summarized.file),
            settings: summarized.settings,
            has_stacks: summarized.has_stacks,
            frames: frames.frames,
            stacks: frames.stacks,
            devices,
        })
    }
}

impl DevicePage {
    fn of(
        snapshot: &GpuSnapshot,
        summary: SummarizedDevice,
        ooms: Vec<ExplainedOom>,
        rows: Range<usize>,
        frames: &mut FrameTable,
    ) -> Self {
        let device = summary.device;
        let trace = snapshot.trace(device);
        let peaks = TracePeaks::within(snapshot, device, rows.clone());
        let mut moments = vec![
            (peaks.allocated.row, MapMoment::PeakAllocated),
            (peaks.reserved.row, MapMoment::PeakReserved),
            (Some(rows.end - 1), MapMoment::End),
        ];
        let oom_row = |oom: &ExplainedOom| trace.start + oom.moment.event as usize - 1;
        moments.extend(ooms.iter().map(|oom| (Some(oom_row(oom)), MapMoment::Oom)));
        moments.sort_unstable();
        let mut maps = Vec::new();
        let mut flame = None;
        let mut layout = MemoryLayout::new(snapshot, TraceStart::of(snapshot, device));
        let mut next = trace.start;
        for (row, kind) in moments {
            let end = row.map_or(next, |row| row + 1).max(next);
            for index in next..end {
                layout.apply(snapshot.events.row(index));
            }
            next = end;
            if kind == MapMoment::PeakAllocated {
                flame = Some(FlameTree::of(snapshot, &usage_by_stack(&layout), frames));
            }
            let moment = TraceMoment::of_peak(snapshot, device, row, &rows);
            maps.push(SegmentMap::of(snapshot, &layout, kind, moment, frames));
        }
        maps.sort_by_key(|map| (map.kind, map.moment.event));
        Self {
            timeline: PackedTimeline::of(snapshot, device, rows),
            flame: flame.unwrap_or_else(|| FlameTree::of(snapshot, &[], frames)),
            maps,
            summary,
            ooms,
        }
    }
}
