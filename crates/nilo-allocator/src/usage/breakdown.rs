//! The reserved bytes by what they are for. The parts add up to the whole, to the byte.

use super::layout::MemoryLayout;
use super::ranges::ReservedRange;

/// Reserved bytes, each counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReservedBreakdown {
    /// What the program asked for, in blocks it has.
    pub requested_bytes: u64,
    /// What its blocks have beyond that.
    pub rounding_bytes: u64,
    /// In blocks given back that another stream may still use.
    pub pending_bytes: u64,
    /// In segments that are wholly free, or free pages of expandable ones: `empty_cache` would give them back.
    pub releasable_bytes: u64,
    /// Free, but in segments that something else keeps: fragmentation.
    pub stranded_bytes: u64,
}

impl ReservedBreakdown {
    /// Adds up the memory at a moment.
    pub fn of(layout: &MemoryLayout) -> Self {
        layout.ranges().fold(Self::default(), |sum, range| {
            sum.plus(Self::of_range(layout, range))
        })
    }

    /// Adds up one range.
    pub fn of_range(layout: &MemoryLayout, range: &ReservedRange) -> Self {
        let mut parts = Self::default();
        let mut free_from = range.address;
        let mut is_used = false;
        for block in layout.blocks_in(range) {
            parts.add_free(range, free_from, block.address);
            free_from = block.address + block.size;
            is_used |= block.size > 0;
            if block.pending {
                parts.pending_bytes += block.size;
            } else {
                parts.requested_bytes += block.requested;
                parts.rounding_bytes += block.size - block.requested;
            }
        }
        parts.add_free(range, free_from, range.end());
        if !is_used {
            parts.releasable_bytes += std::mem::take(&mut parts.stranded_bytes);
        }
        parts
    }

    /// Whole pages of an expandable segment can be unmapped; anything else is stranded while something lives in the segment.
    fn add_free(&mut self, range: &ReservedRange, start: u64, end: u64) {
        let bytes = end.saturating_sub(start);
        let pages = range.whole_pages(start, end);
        let releasable = pages.end - pages.start;
        self.releasable_bytes += releasable;
        self.stranded_bytes += bytes - releasable;
    }

    fn plus(self, other: Self) -> Self {
        Self {
            requested_bytes: self.requested_bytes + other.requested_bytes,
            rounding_bytes: self.rounding_bytes + other.rounding_bytes,
            pending_bytes: self.pending_bytes + other.pending_bytes,
            releasable_bytes: self.releasable_bytes + other.releasable_bytes,
            stranded_bytes: self.stranded_bytes + other.stranded_bytes,
        }
    }

    /// Free bytes, of whatever use.
    pub fn free_bytes(&self) -> u64 {
        self.releasable_bytes + self.stranded_bytes
    }

    /// All of them.
    pub fn reserved_bytes(&self) -> u64 {
        self.requested_bytes + self.rounding_bytes + self.pending_bytes + self.free_bytes()
    }
}
