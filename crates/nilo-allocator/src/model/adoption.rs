//! An allocator that begins in the middle: with segments and blocks that a record had before its first event.

use super::allocator::CachingAllocator;
use super::blocks::{BlockIndex, ModelBlock, ModelState};

/// A segment that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdoptedSegment {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// The stream.
    pub stream: u64,
    /// The memory pool, by number.
    pub pool: u16,
    /// Whether it serves requests of up to 1 MiB.
    pub is_small: bool,
}

/// A block in it that the program has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdoptedBlock {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// The bytes the program asked for.
    pub requested: u64,
}

impl CachingAllocator {
    /// Takes over a segment with its blocks, which are in order and do not overlap; what lies between them is free.
    pub fn adopt(&mut self, segment: AdoptedSegment, blocks: &[AdoptedBlock]) -> Vec<BlockIndex> {
        let list = self.list_of(segment.pool, segment.is_small);
        self.addresses.adopted(list, segment.address, segment.size);
        self.totals.reserve(segment.size);
        let mut last = None;
        let mut free_from = segment.address;
        let mut adopted = Vec::new();
        for block in blocks {
            last = self.adopt_free(segment, list, free_from, block.address - free_from, last);
            let index = self.adopt_piece(segment, list, block.address, block.size, last);
            let piece = self.blocks.get_mut(index);
            piece.state = ModelState::Allocated;
            piece.requested = block.requested;
            self.totals.allocate(block.size, block.requested);
            adopted.push(index);
            last = Some(index);
            free_from = block.address + block.size;
        }
        let rest = segment.size - (free_from - segment.address);
        self.adopt_free(segment, list, free_from, rest, last);
        adopted
    }

    fn adopt_free(
        &mut self,
        segment: AdoptedSegment,
        list: usize,
        address: u64,
        size: u64,
        last: Option<BlockIndex>,
    ) -> Option<BlockIndex> {
        if size == 0 {
            return last;
        }
        let index = self.adopt_piece(segment, list, address, size, last);
        self.put_free(index);
        Some(index)
    }

    fn adopt_piece(
        &mut self,
        segment: AdoptedSegment,
        list: usize,
        address: u64,
        size: u64,
        last: Option<BlockIndex>,
    ) -> BlockIndex {
        let index = self.blocks.insert(ModelBlock {
            address,
            size,
            requested: 0,
            stream: segment.stream,
            list,
            previous: None,
            next: None,
            state: ModelState::Free,
            expandable_base: None,
            freed_at: 0,
        });
        self.blocks.link(last, index, None);
        index
    }
}
