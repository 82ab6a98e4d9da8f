//! When most was allocated and reserved, and by whom.

use std::ops::Range;

use hashbrown::HashMap;

use super::layout::MemoryLayout;
use super::start::TraceStart;
use crate::snapshot::GpuSnapshot;

/// A moment of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeakMoment {
    /// The event after which it was so; none if it was before the first.
    pub row: Option<usize>,
    /// The bytes in blocks the program had.
    pub allocated_bytes: u64,
    /// The bytes in segments.
    pub reserved_bytes: u64,
}

/// The peaks of a device within its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracePeaks {
    /// When most was allocated first.
    pub allocated: PeakMoment,
    /// When most was reserved first.
    pub reserved: PeakMoment,
    /// Whether the trace begins late: earlier peaks are not in it.
    pub starts_late: bool,
}

impl TracePeaks {
    /// Follows the trace of a device.
    pub fn of(snapshot: &GpuSnapshot, device: usize) -> Self {
        Self::within(snapshot, device, snapshot.trace(device))
    }

    /// Follows the trace of a device; only these events of it count, and the level that they began with.
    pub fn within(snapshot: &GpuSnapshot, device: usize, rows: Range<usize>) -> Self {
        let start = TraceStart::of(snapshot, device);
        let starts_late = !start.is_empty();
        let mut layout = MemoryLayout::new(snapshot, start);
        let trace = snapshot.trace(device);
        for index in trace.start..rows.start.min(trace.end) {
            layout.apply(snapshot.events.row(index));
        }
        let moment = |layout: &MemoryLayout, row| PeakMoment {
            row,
            allocated_bytes: layout.allocated_bytes(),
            reserved_bytes: layout.reserved_bytes(),
        };
        let before = rows.start.checked_sub(1).filter(|row| *row >= trace.start);
        let first = moment(&layout, before);
        let mut peaks = Self {
            allocated: first,
            reserved: first,
            starts_late,
        };
        for index in rows.start.max(trace.start)..rows.end.min(trace.end) {
            layout.apply(snapshot.events.row(index));
            if layout.allocated_bytes() > peaks.allocated.allocated_bytes {
                peaks.allocated = moment(&layout, Some(index));
            }
            if layout.reserved_bytes() > peaks.reserved.reserved_bytes {
                peaks.reserved = moment(&layout, Some(index));
            }
        }
        peaks
    }
}

/// What one call stack holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackUsage {
    /// The stack, by number.
    pub stack: u32,
    /// Its blocks.
    pub blocks: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Who holds the live blocks, most bytes first.
pub fn usage_by_stack(layout: &MemoryLayout) -> Vec<StackUsage> {
    let mut by_stack: HashMap<u32, StackUsage> = HashMap::new();
    for block in layout.blocks().filter(|block| !block.pending) {
        let usage = by_stack.entry(block.stack).or_insert(StackUsage {
            stack: block.stack,
            blocks: 0,
            bytes: 0,
        });
        usage.blocks += 1;
        usage.bytes = usage.bytes.saturating_add(block.size);
    }
    let mut usage: Vec<StackUsage> = by_stack.into_values().collect();
    usage.sort_unstable_by_key(|usage| (std::cmp::Reverse(usage.bytes), usage.stack));
    usage
}
