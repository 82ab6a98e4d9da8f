//! The live blocks and reserved ranges of a device, followed event by event.

use std::collections::BTreeMap;

use super::ranges::{ReservedRange, ReservedRanges};
use super::start::TraceStart;
use crate::model::AllocatorSettings;
use crate::snapshot::{GpuSnapshot, TraceAction, TraceRow};

/// A block the program or another stream has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveBlock {
    /// Where it begins.
    pub address: u64,
    /// Its bytes, rounding included.
    pub size: u64,
    /// The bytes the program asked for.
    pub requested: u64,
    /// The stream, by number.
    pub stream: u16,
    /// The memory pool, by number.
    pub pool: u16,
    /// Where it was allocated, by number; none if that was before the trace begins and the file does not say.
    pub stack: u32,
    /// Whether the program gave it back and another stream may still use it.
    pub pending: bool,
    pub(crate) exact_size: bool,
}

/// The memory of a device at a moment.
#[derive(Debug, Clone)]
pub struct MemoryLayout {
    settings: AllocatorSettings,
    pub(crate) ranges: ReservedRanges,
    pub(crate) blocks: BTreeMap<u64, LiveBlock>,
    allocated: u64,
    active: u64,
}

impl MemoryLayout {
    /// The memory before the first event of a trace.
    pub fn new(snapshot: &GpuSnapshot, start: TraceStart) -> Self {
        let sum = |pending: bool| {
            start
                .blocks()
                .filter(|block| pending || !block.pending)
                .fold(0_u64, |sum, block| sum.saturating_add(block.size))
        };
        Self {
            settings: AllocatorSettings::from(&snapshot.settings),
            allocated: sum(false),
            active: sum(true),
            ranges: start.ranges,
            blocks: start.blocks,
        }
    }

    /// The memory of a device after an event, or at the end of its trace.
    pub fn after(snapshot: &GpuSnapshot, device: usize, last: Option<usize>) -> Self {
        let mut layout = Self::new(snapshot, TraceStart::of(snapshot, device));
        let rows = snapshot.trace(device);
        let end = last.map_or(rows.end, |last| last.saturating_add(1).min(rows.end));
        for index in rows.start..end {
            layout.apply(snapshot.events.row(index));
        }
        layout
    }

    /// Follows one event.
    pub fn apply(&mut self, row: TraceRow) {
        match row.action {
            TraceAction::Alloc => self.allocate(row),
            TraceAction::FreeRequested => {
                if let Some(block) = self.blocks.get_mut(&row.address)
                    && !block.pending
                {
                    block.pending = true;
                    self.allocated = self.allocated.saturating_sub(block.size);
                }
            }
            TraceAction::FreeCompleted => self.remove(row.address),
            TraceAction::SegmentAlloc => self.ranges.insert(ReservedRange::of_event(row, false)),
            TraceAction::SegmentMap => self.ranges.insert(ReservedRange::of_event(row, true)),
            TraceAction::SegmentFree | TraceAction::SegmentUnmap => {
                self.ranges.remove(row.address, row.size)
            }
            _ => {}
        }
    }

    fn remove(&mut self, address: u64) {
        if let Some(block) = self.blocks.remove(&address) {
            self.active = self.active.saturating_sub(block.size);
            if !block.pending {
                self.allocated = self.allocated.saturating_sub(block.size);
            }
        }
    }

    /// A block begins where a free one did; it takes all of it where the rest is not worth splitting off.
    fn allocate(&mut self, row: TraceRow) {
        self.remove(row.address);
        let mut size = self.settings.rounded_bytes(row.size);
        if let Some(range) = self.ranges.containing(row.address) {
            let next = self
                .blocks
                .range(row.address..)
                .next()
                .map_or(u64::MAX, |(start, _)| *start);
            let room = range.end().min(next) - row.address;
            if room >= size && !self.settings.splits(range.is_small, room, size) {
                size = room;
            }
        }
        self.allocated = self.allocated.saturating_add(size);
        self.active = self.active.saturating_add(size);
        let block = LiveBlock {
            address: row.address,
            size,
            requested: row.size.min(size),
            stream: row.stream,
            pool: row.pool,
            stack: row.stack,
            pending: false,
            exact_size: true,
        };
        self.blocks.insert(row.address, block);
    }

    /// The bytes in blocks the program has.
    pub fn allocated_bytes(&self) -> u64 {
        self.allocated
    }

    /// The bytes in blocks the program or another stream has.
    pub fn active_bytes(&self) -> u64 {
        self.active
    }

    /// The bytes in segments.
    pub fn reserved_bytes(&self) -> u64 {
        self.ranges.total_bytes()
    }

    /// The live blocks, by address.
    pub fn blocks(&self) -> impl Iterator<Item = &LiveBlock> + '_ {
        self.blocks.values()
    }

    /// Whether a live block begins at an address.
    pub fn is_live(&self, address: u64) -> bool {
        self.blocks.contains_key(&address)
    }

    /// The reserved ranges, by address.
    pub fn ranges(&self) -> impl Iterator<Item = &ReservedRange> + '_ {
        self.ranges.iter()
    }

    /// The live blocks of a range, cut to it and to each other, so that what is left is free.
    pub(crate) fn blocks_in(&self, range: &ReservedRange) -> impl Iterator<Item = LiveBlock> + '_ {
        let end = range.end();
        let mut free_from = range.address;
        self.blocks
            .range(range.address..end)
            .map(move |(_, block)| {
                let start = block.address.max(free_from);
                let stop = block.address.saturating_add(block.size).min(end).max(start);
                free_from = stop;
                LiveBlock {
                    address: start,
                    size: stop - start,
                    requested: block.requested.min(stop - start),
                    ..*block
                }
            })
    }
}
