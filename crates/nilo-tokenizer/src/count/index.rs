//! Open addressing over entries that lie elsewhere: a slot has 24 bits of an entry's number and 8 bits of its hash.
//!
//! Four bytes a slot instead of the entry itself: half-empty tables waste little, and entries lie in the order in which
//! words were first seen, so that the frequent ones, which come early, share cache lines.

use crate::prefetch::prefetch;

/// Numbers of entries fit into 24 bits, zero being an empty slot; and no more than fit into 2^24 slots, since long words
/// keep 24 bits of their hash for that.
pub(crate) const MOST_ENTRIES: usize = 13_000_000;

const EMPTY: u32 = 0;

#[derive(Debug)]
pub(crate) struct Index {
    slots: Vec<u32>,
    entries: usize,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![EMPTY; 64],
            entries: 0,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    #[inline(always)]
    fn tag(hash: u64) -> u32 {
        (hash >> 56) as u32
    }

    /// Asks for the slot's cache line, so that [`Self::find`] need not wait for it.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(&self.slots[self.home(hash)]);
    }

    /// The number of the entry whose tag comes first on the word's way; very likely the word's.
    #[inline(always)]
    pub(crate) fn likely(&self, hash: u64) -> Option<usize> {
        let slot = self.slots[self.home(hash)];
        (slot != EMPTY).then(|| (slot & 0xFF_FFFF) as usize - 1)
    }

    /// The number of the entry that `is_it`, or the slot where it belongs.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Result<usize, usize> {
        let mut place = self.home(hash);
        loop {
            let slot = self.slots[place];
            if slot == EMPTY {
                return Err(place);
            }
            let entry = (slot & 0xFF_FFFF) as usize - 1;
            if slot >> 24 == Self::tag(hash) && is_it(entry) {
                return Ok(entry);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    /// Whether the next entry needs a larger table: more than four slots of five would be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.entries * 5 >= self.slots.len() * 4
    }

    /// Puts the next entry into a slot that [`Self::find`] returned.
    pub(crate) fn put(&mut self, place: usize, hash: u64) {
        self.entries += 1;
        self.slots[place] = Self::tag(hash) << 24 | self.entries as u32;
    }

    /// Twice the slots. Entries go in by number, so early words keep their home slots.
    pub(crate) fn grow(&mut self, hash_of: impl Fn(usize) -> u64) {
        let entries = self.entries;
        self.slots = vec![EMPTY; self.slots.len() * 2];
        self.entries = 0;
        for entry in 0..entries {
            let hash = hash_of(entry);
            if let Err(place) = self.find(hash, |_| false) {
                self.put(place, hash);
            }
        }
    }
}
