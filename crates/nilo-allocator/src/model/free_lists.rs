//! The free blocks of one pool: by stream, size and address, which is the order of best fit.

use std::collections::BTreeMap;

use super::blocks::{BlockIndex, ModelBlock};

/// Stream, size, address.
pub(crate) type FreeKey = (u64, u64, u64);

#[derive(Debug)]
pub(crate) struct FreeList {
    pub(crate) is_small: bool,
    /// Whether it belongs to the default memory pool, whose cached segments are released when memory runs out.
    pub(crate) is_default: bool,
    pub(crate) free: BTreeMap<FreeKey, BlockIndex>,
    /// Unmapped parts of expandable segments, by stream and address.
    pub(crate) unmapped: BTreeMap<(u64, u64), BlockIndex>,
    /// How often a block was searched for, the clock of garbage collection.
    pub(crate) searches: u64,
}

pub(crate) fn key_of(block: &ModelBlock) -> FreeKey {
    (block.stream, block.size, block.address)
}

impl FreeList {
    pub(crate) fn new(is_small: bool, is_default: bool) -> Self {
        Self {
            is_small,
            is_default,
            free: BTreeMap::new(),
            unmapped: BTreeMap::new(),
            searches: 0,
        }
    }

    /// The free blocks of a stream from a size on, smallest first.
    pub(crate) fn at_least(&self, stream: u64, size: u64) -> impl Iterator<Item = BlockIndex> + '_ {
        self.free
            .range((stream, size, 0)..=(stream, u64::MAX, u64::MAX))
            .map(|(_, index)| *index)
    }
}
