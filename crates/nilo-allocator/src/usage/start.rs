//! What was reserved and alive before the first event of a trace: the end of it, with every event undone.

use std::collections::BTreeMap;

use super::layout::LiveBlock;
use super::ranges::{ReservedRange, ReservedRanges};
use crate::model::AllocatorSettings;
use crate::snapshot::{BlockUse, GpuSnapshot, NO_STACK, TraceAction};

/// The state of a device before its first recorded event; empty of a complete trace.
#[derive(Debug, Clone, Default)]
pub struct TraceStart {
    pub(crate) ranges: ReservedRanges,
    pub(crate) blocks: BTreeMap<u64, LiveBlock>,
}

impl TraceStart {
    /// Goes back from the snapshot's segments.
    pub fn of(snapshot: &GpuSnapshot, device: usize) -> Self {
        let mut start = Self::at_end(snapshot, device);
        let settings = AllocatorSettings::from(&snapshot.settings);
        for index in snapshot.trace(device).rev() {
            let row = snapshot.events.row(index);
            match row.action {
                TraceAction::Alloc => drop(start.blocks.remove(&row.address)),
                TraceAction::FreeCompleted => {
                    let size = settings.rounded_bytes(row.size);
                    let block = LiveBlock {
                        address: row.address,
                        size,
                        requested: row.size.min(size),
                        stream: row.stream,
                        pool: row.pool,
                        stack: NO_STACK,
                        pending: true,
                        exact_size: false,
                    };
                    start.blocks.insert(row.address, block);
                }
                TraceAction::FreeRequested => {
                    if let Some(block) = start.blocks.get_mut(&row.address) {
                        block.pending = false;
                    }
                }
                TraceAction::SegmentAlloc | TraceAction::SegmentMap => {
                    start.ranges.remove(row.address, row.size)
                }
                TraceAction::SegmentFree => {
                    start.ranges.insert(ReservedRange::of_event(row, false))
                }
                TraceAction::SegmentUnmap => {
                    start.ranges.insert(ReservedRange::of_event(row, true))
                }
                _ => {}
            }
        }
        start.find_sizes(&settings);
        start
    }

    /// The state when the snapshot was taken.
    fn at_end(snapshot: &GpuSnapshot, device: usize) -> Self {
        let mut end = Self::default();
        for segment in snapshot
            .segments
            .iter()
            .filter(|segment| segment.device == device)
        {
            end.ranges.insert(ReservedRange {
                address: segment.address,
                size: segment.total_size,
                stream: segment.stream,
                pool: segment.pool,
                is_small: segment.is_small,
                is_expandable: segment.is_expandable,
            });
            for block in snapshot
                .blocks_of(segment)
                .iter()
                .filter(|block| block.usage != BlockUse::Inactive)
            {
                let live = LiveBlock {
                    address: block.address,
                    size: block.size,
                    requested: block.requested,
                    stream: segment.stream,
                    pool: segment.pool,
                    stack: block.stack,
                    pending: block.usage == BlockUse::Pending,
                    exact_size: true,
                };
                end.blocks.insert(block.address, live);
            }
        }
        end
    }

    /// Events tell what was asked for, not how large the block was. No free block of the large pool is as small as the rest that is
    /// left unsplit, so such a gap belongs to the block before it.
    fn find_sizes(&mut self, settings: &AllocatorSettings) {
        let mut next_start = u64::MAX;
        for block in self.blocks.values_mut().rev() {
            if !block.exact_size
                && let Some(range) = self.ranges.containing(block.address)
                && !range.is_expandable
            {
                let room = range.end().min(next_start) - block.address;
                if room >= block.size && !settings.splits(range.is_small, room, block.size) {
                    block.size = room;
                }
            }
            next_start = block.address;
        }
    }

    /// The blocks alive then, by address.
    pub fn blocks(&self) -> impl Iterator<Item = &LiveBlock> + '_ {
        self.blocks.values()
    }

    /// The bytes reserved then.
    pub fn reserved_bytes(&self) -> u64 {
        self.ranges.total_bytes()
    }

    /// Whether the trace begins with the first allocation of the process.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.reserved_bytes() == 0
    }
}
