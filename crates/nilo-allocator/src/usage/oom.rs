//! Why allocations failed: what was asked, what was free, and why it did not do.

use std::ops::Range;

use super::breakdown::ReservedBreakdown;
use super::layout::{LiveBlock, MemoryLayout};
use super::peaks::{StackUsage, usage_by_stack};
use super::pinning::{PinningStack, pinning_stacks};
use super::ranges::ReservedRange;
use super::start::TraceStart;
use crate::model::AllocatorSettings;
use crate::snapshot::{GpuSnapshot, TraceAction};

/// One failed allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OomReport {
    /// The event.
    pub row: usize,
    /// The block that was asked for.
    pub block_bytes: u64,
    /// What the driver was asked for to hold it.
    pub segment_bytes: u64,
    /// What the device had left, as the driver said.
    pub device_free_bytes: u64,
    /// The bytes in blocks the program had.
    pub allocated_bytes: u64,
    /// The reserved bytes by what they are for.
    pub breakdown: ReservedBreakdown,
    /// Free bytes that the request could have come from: same pool, same stream, same class of size.
    pub eligible_free_bytes: u64,
    /// The largest free block among them.
    pub largest_eligible_bytes: u64,
    /// Whether all free bytes together would have been enough.
    pub fits_defragmented: bool,
    /// The eligible segment that least keeps from being free.
    pub pinned: Option<PinnedSegment>,
    /// Who lives in the eligible segments with gaps, most free bytes kept first.
    pub pinning: Vec<PinningStack>,
    /// Who held the allocated bytes, most first.
    pub holders: Vec<StackUsage>,
}

/// A segment large enough for the request, were it not for a few blocks in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedSegment {
    /// The segment.
    pub range: ReservedRange,
    /// The blocks in it, by address.
    pub blocks: Vec<LiveBlock>,
    /// Their bytes.
    pub pinned_bytes: u64,
}

/// The last failed allocations of a device, at most so many, oldest first.
pub fn explain_ooms(snapshot: &GpuSnapshot, device: usize, most: usize) -> Vec<OomReport> {
    explain_ooms_within(snapshot, device, snapshot.trace(device), most)
}

/// As [`explain_ooms`], of these events of the device alone.
pub fn explain_ooms_within(
    snapshot: &GpuSnapshot,
    device: usize,
    rows: Range<usize>,
    most: usize,
) -> Vec<OomReport> {
    let trace = snapshot.trace(device);
    let rows = rows.start.max(trace.start)..rows.end.min(trace.end);
    let settings = AllocatorSettings::from(&snapshot.settings);
    let mut layout = MemoryLayout::new(snapshot, TraceStart::of(snapshot, device));
    let ooms = snapshot.events.actions()[rows.clone()]
        .iter()
        .filter(|action| **action == TraceAction::Oom);
    let mut skipped = ooms.count().saturating_sub(most);
    let mut reports = Vec::new();

    for index in trace.start..rows.end {
        let row = snapshot.events.row(index);
        if row.action != TraceAction::Oom {
            layout.apply(row);
            continue;
        }
        if index < rows.start {
            continue;
        }
        if skipped > 0 {
            skipped -= 1;
            continue;
        }

        let block_bytes = settings.rounded_bytes(row.size);
        let segment_bytes = settings.segment_bytes(block_bytes);
        let is_small = segment_bytes == settings.segment_bytes(1);
        let eligible = |range: &&ReservedRange| {
            (range.stream, range.pool, range.is_small) == (row.stream, row.pool, is_small)
        };
        let gaps = layout
            .ranges()
            .filter(eligible)
            .flat_map(|range| gaps(&layout, range));
        let (mut eligible_free_bytes, mut largest_eligible_bytes) = (0, 0);
        for gap in gaps {
            eligible_free_bytes += gap;
            largest_eligible_bytes = largest_eligible_bytes.max(gap);
        }
        let breakdown = ReservedBreakdown::of(&layout);
        reports.push(OomReport {
            row: index,
            block_bytes,
            segment_bytes,
            device_free_bytes: row.address,
            allocated_bytes: layout.allocated_bytes(),
            fits_defragmented: breakdown.free_bytes() >= block_bytes,
            breakdown,
            eligible_free_bytes,
            largest_eligible_bytes,
            pinned: find_pinned(&layout, layout.ranges().filter(eligible), block_bytes),
            pinning: pinning_stacks(&layout, layout.ranges().filter(eligible)),
            holders: usage_by_stack(&layout),
        });
    }
    reports
}

/// The sizes of the free pieces of a range.
fn gaps(layout: &MemoryLayout, range: &ReservedRange) -> Vec<u64> {
    let mut free_from = range.address;
    let mut gaps = Vec::new();
    for block in layout.blocks_in(range) {
        gaps.push(block.address.saturating_sub(free_from));
        free_from = block.address + block.size;
    }
    gaps.push(range.end().saturating_sub(free_from));
    gaps.retain(|gap| *gap > 0);
    gaps
}

fn find_pinned<'a>(
    layout: &MemoryLayout,
    eligible: impl Iterator<Item = &'a ReservedRange>,
    block_bytes: u64,
) -> Option<PinnedSegment> {
    let large_enough = eligible.filter(|range| range.size >= block_bytes);
    let pinned_bytes =
        |range: &ReservedRange| layout.blocks_in(range).map(|block| block.size).sum::<u64>();
    let (pinned_bytes, range) = large_enough
        .map(|range| (pinned_bytes(range), *range))
        .min_by_key(|(bytes, range)| (*bytes, range.address))?;
    Some(PinnedSegment {
        range,
        blocks: layout.blocks_in(&range).collect(),
        pinned_bytes,
    })
}
