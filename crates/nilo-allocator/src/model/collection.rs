//! Garbage collection: above a threshold, large segments that have not been used for longest are given back before new ones are taken.

use super::allocator::CachingAllocator;
use super::blocks::BlockIndex;

/// The large pool of the default memory pool.
const LARGE_LIST: usize = 0;

impl CachingAllocator {
    pub(crate) fn collect_garbage(&mut self) {
        let allowed = self.settings.allowed_bytes.unwrap_or(u64::MAX);
        let threshold = (self.settings.garbage_collection_threshold * allowed as f64) as u64;
        let Some(target) = self
            .totals
            .reserved_bytes
            .checked_sub(threshold)
            .filter(|target| *target > 0)
        else {
            return;
        };
        let Some(list) = self.lists.get(LARGE_LIST) else {
            return;
        };
        let searches = list.searches;
        let age =
            |allocator: &Self, index: BlockIndex| searches - allocator.blocks.get(index).freed_at;
        let mut whole: Vec<BlockIndex> = list
            .free
            .values()
            .copied()
            .filter(|index| !self.blocks.is_split(*index))
            .collect();
        let mut total_age: u64 = whole.iter().map(|index| age(self, *index)).sum();
        let mut reclaimed = 0;
        while reclaimed < target && !whole.is_empty() {
            let mean_age = total_age as f64 / whole.len() as f64;
            let old = |index: &BlockIndex| {
                self.blocks.get(*index).expandable_base.is_none()
                    && age(self, *index) as f64 >= mean_age
            };
            let (collected, kept): (Vec<_>, Vec<_>) = whole.into_iter().partition(old);
            if collected.is_empty() {
                break;
            }
            for index in collected {
                total_age -= age(self, index);
                reclaimed += self.blocks.get(index).size;
                self.release(index);
            }
            whole = kept;
        }
    }
}
