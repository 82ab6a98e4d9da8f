//! Giving cached segments back to the driver when it has no more memory.

use super::allocator::{CachingAllocator, Wanted};
use super::blocks::{BlockIndex, ModelState};
use super::totals::DriverAction;

impl CachingAllocator {
    /// Waits for pending frees and gives back every segment that is wholly free, as `torch.cuda.empty_cache` does. Private pools keep theirs.
    pub fn release_cached(&mut self) {
        for index in std::mem::take(&mut self.pending) {
            if self.blocks.get(index).state == ModelState::Pending {
                self.make_free(index);
            }
        }
        for list in 0..self.lists.len() {
            if self.lists[list].is_default {
                self.release_list(list);
            }
        }
    }

    fn release_list(&mut self, list: usize) {
        let free: Vec<BlockIndex> = self.lists[list].free.values().copied().collect();
        let (expandable, whole): (Vec<_>, Vec<_>) = free
            .into_iter()
            .partition(|index| self.blocks.get(*index).expandable_base.is_some());
        for index in whole {
            if !self.blocks.is_split(index) {
                self.release(index);
            }
        }
        for index in expandable {
            self.unmap(index);
        }
    }

    /// Gives back the wholly free segment at an address, if there is one.
    pub fn release_at(&mut self, address: u64) -> bool {
        let whole = |index: &BlockIndex| {
            let block = self.blocks.get(*index);
            block.address == address
                && block.expandable_base.is_none()
                && !self.blocks.is_split(*index)
        };
        let found = self.free_blocks().find(whole);
        if let Some(index) = found {
            self.release(index);
        }
        found.is_some()
    }

    /// With `max_split_size`: gives back blocks that are too large to be split, only as many as the request needs. True if that was enough.
    pub(crate) fn release_oversized(&mut self, wanted: Wanted) -> bool {
        let Some(max_split) = self.settings.max_split_bytes else {
            return false;
        };
        let target = wanted.size.max(max_split);
        let list = &self.lists[wanted.list];
        // Torch never splits such blocks; a trace that begins late may have been recorded without this setting.
        let is_whole = |index: &BlockIndex| {
            self.blocks.get(*index).expandable_base.is_none() && !self.blocks.is_split(*index)
        };
        let large_enough = list.at_least(wanted.stream, target).find(is_whole);
        let below = (wanted.stream, max_split, 0)..(wanted.stream, target, 0);
        let largest_first = list.free.range(below).rev().map(|(_, index)| *index);
        let whole: Vec<BlockIndex> = largest_first.filter(is_whole).collect();
        if let Some(index) = large_enough {
            self.release(index);
            return true;
        }
        let mut released = 0;
        for index in whole {
            if released >= target {
                break;
            }
            released += self.blocks.get(index).size;
            self.release(index);
        }
        released >= target
    }

    pub(crate) fn release(&mut self, index: BlockIndex) {
        self.take_free(index);
        let block = self.blocks.get(index);
        let (address, size, stream) = (block.address, block.size, block.stream);
        self.addresses.released(block.list, address);
        self.totals.reserved_bytes -= size;
        self.blocks.remove(index);
        self.call(DriverAction::SegmentFree, address, size, stream);
    }
}
