//! Requests and frees.

use super::addresses::SegmentAddresses;
use super::blocks::{BlockArena, BlockIndex, BlockView, ModelBlock, ModelState};
use super::free_lists::{FreeList, key_of};
use super::settings::{AllocatorSettings, SMALL_BYTES};
use super::totals::{DriverAction, DriverCall, MemoryTotals};

/// A request that cannot be met, not even after releasing what is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "out of memory: {segment_bytes} bytes wanted from the driver, {reserved_bytes} already reserved"
)]
pub struct ModelOutOfMemory {
    /// What the driver was asked for.
    pub segment_bytes: u64,
    /// What was reserved at that time.
    pub reserved_bytes: u64,
}

/// Far beyond any device, so that addresses and sums of a damaged record stay in bounds.
const MOST_RESERVED_BYTES: u64 = 1 << 58;

/// The allocator of one device.
#[derive(Debug)]
pub struct CachingAllocator {
    pub(crate) settings: AllocatorSettings,
    pub(crate) addresses: SegmentAddresses,
    pub(crate) blocks: BlockArena,
    pub(crate) lists: Vec<FreeList>,
    /// Blocks another stream may still use, in the order in which they were given back.
    /// Some may have become free since.
    pub(crate) pending: Vec<BlockIndex>,
    /// How many of them have not.
    pub(crate) pending_count: usize,
    pub(crate) totals: MemoryTotals,
    pub(crate) calls: Vec<DriverCall>,
}

/// What a request needs to know on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) size: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) stream: u64,
    pub(crate) list: usize,
}

impl CachingAllocator {
    /// An allocator that has reserved nothing yet.
    pub fn new(settings: AllocatorSettings, addresses: SegmentAddresses) -> Self {
        Self {
            settings,
            addresses,
            blocks: BlockArena::default(),
            lists: Vec::new(),
            pending: Vec::new(),
            pending_count: 0,
            totals: MemoryTotals::default(),
            calls: Vec::new(),
        }
    }

    /// Allocates `requested` bytes on a stream, in a memory pool by number (0 is the default one).
    pub fn allocate(
        &mut self,
        requested: u64,
        stream: u64,
        pool: u16,
    ) -> Result<BlockIndex, ModelOutOfMemory> {
        let size = self.settings.rounded_bytes(requested);
        let list = self.list_of(pool, size <= SMALL_BYTES);
        let wanted = Wanted {
            size,
            segment_bytes: self.settings.segment_bytes(size),
            stream,
            list,
        };
        let found = match self.find_free(wanted) {
            Some(index) => Some(index),
            None => self.find_new(wanted),
        };
        let Some(index) = found else {
            self.totals.ooms += 1;
            let reserved_bytes = self.totals.reserved_bytes;
            return Err(ModelOutOfMemory {
                segment_bytes: wanted.segment_bytes,
                reserved_bytes,
            });
        };
        let index = self.split(index, size);
        let block = self.blocks.get_mut(index);
        block.state = ModelState::Allocated;
        block.requested = requested;
        let bytes = block.size;
        self.totals.allocate(bytes, requested);
        Ok(index)
    }

    /// The program gives a block back. It can be used again after [`CachingAllocator::complete_free`].
    pub fn request_free(&mut self, index: BlockIndex) {
        let block = self.blocks.get_mut(index);
        if block.state == ModelState::Allocated {
            block.state = ModelState::Pending;
            self.totals.allocated_bytes -= block.size;
            self.pending.push(index);
            self.pending_count += 1;
        }
    }

    /// No stream uses the block any more. Does nothing where the allocator had to wait for that already.
    pub fn complete_free(&mut self, index: BlockIndex) {
        if self.blocks.get(index).state != ModelState::Pending {
            return;
        }
        if self.pending.last() == Some(&index) {
            self.pending.pop();
        }
        self.make_free(index);
        if self.pending.len() > 2 * self.pending_count + 64 {
            let blocks = &self.blocks;
            self.pending
                .retain(|index| blocks.get(*index).state == ModelState::Pending);
        }
    }

    /// Its settings.
    pub fn settings(&self) -> &AllocatorSettings {
        &self.settings
    }

    /// Where a block lies.
    pub fn address(&self, index: BlockIndex) -> u64 {
        self.blocks.get(index).address
    }

    /// Bytes now and their peaks.
    pub fn totals(&self) -> MemoryTotals {
        self.totals
    }

    /// All calls to the driver so far.
    pub fn driver_calls(&self) -> &[DriverCall] {
        &self.calls
    }

    /// The mapped blocks of the segment that holds a block, by address.
    pub fn segment_of(&self, index: BlockIndex) -> Vec<BlockView> {
        let mut first = index;
        while let Some(previous) = self.blocks.get(first).previous {
            first = previous;
        }
        let mut views = Vec::new();
        let mut at = Some(first);
        while let Some(index) = at {
            if self.blocks.get(index).state != ModelState::Unmapped {
                views.push(self.view(index));
            }
            at = self.blocks.get(index).next;
        }
        views
    }

    /// A block as others see it.
    pub fn view(&self, index: BlockIndex) -> BlockView {
        let block = self.blocks.get(index);
        let allocated = block.state == ModelState::Allocated;
        let active = allocated || block.state == ModelState::Pending;
        BlockView {
            address: block.address,
            size: block.size,
            allocated,
            active,
        }
    }

    /// The free blocks, in no particular order.
    pub fn free_blocks(&self) -> impl Iterator<Item = BlockIndex> + '_ {
        self.lists
            .iter()
            .flat_map(|list| list.free.values().copied())
    }

    pub(crate) fn list_of(&mut self, pool: u16, is_small: bool) -> usize {
        let list = usize::from(pool) * 2 + usize::from(is_small);
        while self.lists.len() <= list {
            let next = self.lists.len();
            self.lists.push(FreeList::new(next % 2 == 1, next < 2));
        }
        list
    }

    /// The best fit among free blocks, taken out of its list.
    fn find_free(&mut self, wanted: Wanted) -> Option<BlockIndex> {
        self.lists[wanted.list].searches += 1;
        let index = self.best_fit(wanted)?;
        self.take_free(index);
        Some(index)
    }

    fn best_fit(&self, wanted: Wanted) -> Option<BlockIndex> {
        let settings = &self.settings;
        let mut candidates = self.lists[wanted.list].at_least(wanted.stream, wanted.size);
        let mut index = candidates.next()?;
        if settings.expandable_segments {
            // A block at the end of the mapped part counts as large as it can grow.
            for next in candidates {
                if self.blocks.get(index).expandable_base.is_none()
                    || self.growable(next) >= self.growable(index)
                {
                    break;
                }
                index = next;
            }
        }
        let size = self.blocks.get(index).size;
        let max_split = settings.max_split();
        if wanted.size < max_split && size >= max_split {
            return None;
        }
        if wanted.size >= max_split
            && size
                >= wanted
                    .size
                    .saturating_add(settings.max_non_split_rounding_bytes)
        {
            return None;
        }
        Some(index)
    }

    /// A block from the driver, releasing cached segments if need be.
    fn find_new(&mut self, wanted: Wanted) -> Option<BlockIndex> {
        if self.settings.collects_garbage() {
            self.collect_garbage();
        }
        if let Some(index) = self.reserve(wanted) {
            return Some(index);
        }
        if self.release_oversized(wanted)
            && let Some(index) = self.reserve(wanted)
        {
            return Some(index);
        }
        self.release_cached();
        self.totals.retries += 1;
        self.reserve(wanted)
    }

    fn reserve(&mut self, wanted: Wanted) -> Option<BlockIndex> {
        let after = self
            .totals
            .reserved_bytes
            .saturating_add(wanted.segment_bytes);
        if after > MOST_RESERVED_BYTES {
            return None;
        }
        if self
            .settings
            .allowed_bytes
            .is_some_and(|allowed| after > allowed)
        {
            return None;
        }
        if self.settings.expandable_segments {
            return self.grow(wanted);
        }
        if self
            .settings
            .device_bytes
            .is_some_and(|device| after > device)
        {
            return None;
        }
        let address = self.addresses.segment(wanted.list, wanted.segment_bytes);
        self.totals.reserve(wanted.segment_bytes);
        self.call(
            DriverAction::SegmentAlloc,
            address,
            wanted.segment_bytes,
            wanted.stream,
        );
        Some(self.blocks.insert(ModelBlock {
            address,
            size: wanted.segment_bytes,
            requested: 0,
            stream: wanted.stream,
            list: wanted.list,
            previous: None,
            next: None,
            state: ModelState::Free,
            expandable_base: None,
            freed_at: 0,
        }))
    }

    /// Cuts the front of a block off if the rest is worth keeping; the rest goes back to the free list.
    fn split(&mut self, index: BlockIndex, size: u64) -> BlockIndex {
        let block = self.blocks.get(index);
        if !self
            .settings
            .splits(self.lists[block.list].is_small, block.size, size)
        {
            return index;
        }
        let front = ModelBlock {
            size,
            ..block.clone()
        };
        let previous = block.previous;
        let front = self.blocks.insert(front);
        let rest = self.blocks.get_mut(index);
        rest.address += size;
        rest.size -= size;
        self.blocks.link(previous, front, Some(index));
        self.put_free(index);
        front
    }

    pub(crate) fn call(&mut self, action: DriverAction, address: u64, size: u64, stream: u64) {
        self.calls.push(DriverCall {
            action,
            address,
            size,
            stream,
        });
    }

    /// Merges a block that became free with its free neighbours.
    pub(crate) fn make_free(&mut self, index: BlockIndex) {
        let block = self.blocks.get_mut(index);
        block.state = ModelState::Free;
        self.pending_count -= 1;
        let (size, requested) = (block.size, block.requested);
        self.totals.active_bytes -= size;
        self.totals.requested_bytes -= requested;
        self.merge_neighbours(index);
        self.put_free(index);
    }

    /// Merges the blocks beside one that are in the same state, free or unmapped, into it. It is in no list itself.
    pub(crate) fn merge_neighbours(&mut self, index: BlockIndex) {
        let state = self.blocks.get(index).state;
        if let Some(previous) = self.blocks.get(index).previous
            && self.blocks.get(previous).state == state
        {
            self.unlist(previous);
            let before = self.blocks.get(previous).clone();
            let block = self.blocks.get_mut(index);
            block.address = before.address;
            block.size += before.size;
            let next = block.next;
            self.blocks.link(before.previous, index, next);
            self.blocks.remove(previous);
        }
        if let Some(next) = self.blocks.get(index).next
            && self.blocks.get(next).state == state
        {
            self.unlist(next);
            let after = self.blocks.get(next).clone();
            let block = self.blocks.get_mut(index);
            block.size += after.size;
            let previous = block.previous;
            self.blocks.link(previous, index, after.next);
            self.blocks.remove(next);
        }
    }

    fn unlist(&mut self, index: BlockIndex) {
        let block = self.blocks.get(index);
        let list = &mut self.lists[block.list];
        match block.state {
            ModelState::Unmapped => drop(list.unmapped.remove(&(block.stream, block.address))),
            _ => drop(list.free.remove(&key_of(block))),
        }
    }

    pub(crate) fn take_free(&mut self, index: BlockIndex) {
        let block = self.blocks.get(index);
        self.lists[block.list].free.remove(&key_of(block));
    }

    pub(crate) fn put_free(&mut self, index: BlockIndex) {
        let block = self.blocks.get_mut(index);
        let list = &mut self.lists[block.list];
        block.freed_at = list.searches;
        list.free.insert(key_of(block), index);
    }
}
