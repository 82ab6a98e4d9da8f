//! What the program asked for, without what the allocator made of it.

use std::ops::Range;

use hashbrown::HashMap;

use crate::model::{AdoptedBlock, AdoptedSegment, BlockIndex, CachingAllocator, ModelOutOfMemory};
use crate::snapshot::{GpuSnapshot, TraceAction, TraceRow};
use crate::usage::{MemoryLayout, TraceStart};

/// Sends the requests of a trace to an allocator.
pub(crate) struct RequestPlayer<'a> {
    snapshot: &'a GpuSnapshot,
    rows: Range<usize>,
    /// The block of each recorded address; an address is used again after its free completed.
    held: HashMap<u64, BlockIndex>,
    /// Allocations whose block the allocator put elsewhere than recorded.
    pub(crate) misplaced: usize,
    /// Recorded allocations the allocator could not serve.
    pub(crate) failed_rows: Vec<usize>,
}

impl<'a> RequestPlayer<'a> {
    pub(crate) fn new(snapshot: &'a GpuSnapshot, device: usize) -> Self {
        Self {
            snapshot,
            rows: snapshot.trace(device),
            held: HashMap::new(),
            misplaced: 0,
            failed_rows: Vec::new(),
        }
    }

    pub(crate) fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    pub(crate) fn row(&self, index: usize) -> TraceRow {
        self.snapshot.events.row(index)
    }

    /// Puts what was alive before the trace begins into the allocator: where it was, or by address into segments that work differently.
    pub(crate) fn start(&mut self, start: TraceStart, allocator: &mut CachingAllocator) {
        let layout = MemoryLayout::new(self.snapshot, start);
        let stream_of = |stream: u16| self.snapshot.streams.get(stream).unwrap_or(0);
        if allocator.settings().expandable_segments
            || layout.ranges().any(|range| range.is_expandable)
        {
            for block in layout.blocks() {
                if let Ok(index) =
                    allocator.allocate(block.requested, stream_of(block.stream), block.pool)
                {
                    self.held.insert(block.address, index);
                }
            }
            return;
        }
        for range in layout.ranges() {
            let segment = AdoptedSegment {
                address: range.address,
                size: range.size,
                stream: stream_of(range.stream),
                pool: range.pool,
                is_small: range.is_small,
            };
            let live = layout.blocks_in(range).filter(|block| block.size > 0);
            let blocks: Vec<AdoptedBlock> = live
                .map(|block| AdoptedBlock {
                    address: block.address,
                    size: block.size,
                    requested: block.requested,
                })
                .collect();
            for (index, block) in allocator.adopt(segment, &blocks).into_iter().zip(&blocks) {
                self.held.insert(block.address, index);
            }
        }
    }

    /// Plays one event; events that are the allocator's own doing are left out.
    pub(crate) fn play(&mut self, index: usize, allocator: &mut CachingAllocator) {
        let row = self.row(index);
        match row.action {
            TraceAction::Alloc => match self.allocate(row, allocator) {
                Ok(block) => {
                    self.misplaced += usize::from(allocator.address(block) != row.address);
                    self.held.insert(row.address, block);
                }
                Err(_) => self.failed_rows.push(index),
            },
            TraceAction::FreeRequested => {
                if let Some(block) = self.held.get(&row.address) {
                    allocator.request_free(*block);
                }
            }
            TraceAction::FreeCompleted => {
                if let Some(block) = self.held.remove(&row.address) {
                    // A window may begin between the two.
                    allocator.request_free(block);
                    allocator.complete_free(block);
                }
            }
            _ => {}
        }
    }

    /// Tries the request of an event.
    pub(crate) fn allocate(
        &self,
        row: TraceRow,
        allocator: &mut CachingAllocator,
    ) -> Result<BlockIndex, ModelOutOfMemory> {
        let stream = self.snapshot.streams.get(row.stream).unwrap_or(0);
        allocator.allocate(row.size, stream, row.pool)
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = BlockIndex> + '_ {
        self.held.values().copied()
    }
}
