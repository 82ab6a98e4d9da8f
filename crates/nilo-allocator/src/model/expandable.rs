//! Expandable segments: a large range of virtual addresses for each stream and pool, into which pages are mapped as requests need them.

use super::allocator::{CachingAllocator, Wanted};
use super::blocks::{BlockIndex, ModelBlock, ModelState};
use super::totals::DriverAction;

/// Torch reserves 9/8 of the device; one range never fills up here either.
const VIRTUAL_BYTES: u64 = 20 << 36;

impl CachingAllocator {
    /// The size of a free block and of the unmapped addresses after it.
    pub(crate) fn growable(&self, index: BlockIndex) -> u64 {
        let block = self.blocks.get(index);
        let after = block.next.map(|next| self.blocks.get(next));
        block.size
            + after
                .filter(|next| next.state == ModelState::Unmapped)
                .map_or(0, |next| next.size)
    }

    /// Maps pages until there is a free block of the wanted size, taken out of its list.
    pub(crate) fn grow(&mut self, wanted: Wanted) -> Option<BlockIndex> {
        if wanted.size > VIRTUAL_BYTES {
            return None;
        }
        let mut candidate = self.find_growable(wanted);
        let block = self.blocks.get(candidate);
        if block.state == ModelState::Unmapped && !self.map(candidate, block.size.min(wanted.size))
        {
            return None;
        }
        while self.blocks.get(candidate).size < wanted.size {
            let block = self.blocks.get(candidate);
            let remaining = wanted.size - block.size;
            let next = block.next.expect("enough addresses follow");
            let size = remaining.min(self.blocks.get(next).size);
            if !self.map(next, size) {
                return None;
            }
            candidate = next;
        }
        self.take_free(candidate);
        Some(candidate)
    }

    /// The lowest place of a stream with enough free or unmapped addresses in a row, a new range if there is none.
    fn find_growable(&mut self, wanted: Wanted) -> BlockIndex {
        let list = &self.lists[wanted.list];
        let of_stream = (wanted.stream, 0)..=(wanted.stream, u64::MAX);
        for unmapped in list.unmapped.range(of_stream).map(|(_, index)| *index) {
            let before = self.blocks.get(unmapped).previous;
            let start = before
                .filter(|before| self.is_available(*before))
                .unwrap_or(unmapped);
            if self.has_room(start, wanted.size) {
                return start;
            }
        }
        let base = self.addresses.expandable(wanted.list, VIRTUAL_BYTES);
        let index = self.blocks.insert(ModelBlock {
            address: base,
            size: VIRTUAL_BYTES,
            requested: 0,
            stream: wanted.stream,
            list: wanted.list,
            previous: None,
            next: None,
            state: ModelState::Unmapped,
            expandable_base: Some(base),
            freed_at: 0,
        });
        self.lists[wanted.list]
            .unmapped
            .insert((wanted.stream, base), index);
        index
    }

    fn is_available(&self, index: BlockIndex) -> bool {
        matches!(
            self.blocks.get(index).state,
            ModelState::Free | ModelState::Unmapped
        )
    }

    fn has_room(&self, start: BlockIndex, wanted: u64) -> bool {
        let (mut at, mut bytes) = (Some(start), 0);
        while let Some(index) = at
            && bytes < wanted
            && self.is_available(index)
        {
            bytes += self.blocks.get(index).size;
            at = self.blocks.get(index).next;
        }
        bytes >= wanted
    }

    /// Maps whole pages for the first `size` bytes of an unmapped block, and merges it with its free neighbours.
    fn map(&mut self, index: BlockIndex, size: u64) -> bool {
        let block = self.blocks.get(index);
        let (stream, address, list) = (block.stream, block.address, block.list);
        let page = self.settings.page_bytes(self.lists[list].is_small);
        let bytes = size.next_multiple_of(page).min(block.size);
        let after = self.totals.reserved_bytes.saturating_add(bytes);
        if self
            .settings
            .device_bytes
            .is_some_and(|device| after > device)
        {
            return false;
        }
        self.lists[list].unmapped.remove(&(stream, address));
        if bytes < block.size {
            let mut rest = block.clone();
            rest.address += bytes;
            rest.size -= bytes;
            let (next, rest_address) = (rest.next, rest.address);
            let rest = self.blocks.insert(rest);
            self.blocks.link(Some(index), rest, next);
            self.lists[list]
                .unmapped
                .insert((stream, rest_address), rest);
        }
        let block = self.blocks.get_mut(index);
        block.size = bytes;
        block.state = ModelState::Free;
        self.merge_neighbours(index);
        self.put_free(index);
        self.totals.reserve(bytes);
        self.addresses.mapped();
        self.call(DriverAction::SegmentMap, address, bytes, stream);
        true
    }

    /// Unmaps the whole pages of a free block.
    pub(crate) fn unmap(&mut self, index: BlockIndex) {
        let block = self.blocks.get(index).clone();
        let Some(base) = block.expandable_base else {
            return;
        };
        let page = self.settings.page_bytes(self.lists[block.list].is_small);
        let first = (block.address - base).next_multiple_of(page);
        let last = (block.address + block.size - base) / page * page;
        if first >= last {
            return;
        }
        self.take_free(index);
        let (start, bytes) = (base + first, last - first);
        let (before, after) = (
            start - block.address,
            block.address + block.size - (base + last),
        );
        if before > 0 {
            let front = self.blocks.insert(ModelBlock {
                size: before,
                ..block.clone()
            });
            self.blocks.link(block.previous, front, Some(index));
            self.put_free(front);
        }
        if after > 0 {
            let back = ModelBlock {
                address: base + last,
                size: after,
                ..block.clone()
            };
            let back = self.blocks.insert(back);
            self.blocks.link(Some(index), back, block.next);
            self.put_free(back);
        }
        let unmapped = self.blocks.get_mut(index);
        unmapped.address = start;
        unmapped.size = bytes;
        unmapped.state = ModelState::Unmapped;
        self.merge_neighbours(index);
        let address = self.blocks.get(index).address;
        self.lists[block.list]
            .unmapped
            .insert((block.stream, address), index);
        self.totals.reserved_bytes -= bytes;
        self.call(DriverAction::SegmentUnmap, start, bytes, block.stream);
        if !self.blocks.is_split(index) {
            self.lists[block.list]
                .unmapped
                .remove(&(block.stream, address));
            self.blocks.remove(index);
            self.addresses.released(block.list, base);
        }
    }
}
