//! The pairs that are kept: exact counts, and where each pair's list of places lies.
//!
//! Open addressing with the entries inside, so that a lookup is one miss of the cache; removal shifts back, so that no tombstones pile up.

use super::order::SymbolPair;

/// A kept pair. A count of zero marks an empty slot.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PairEntry {
    pub(super) pair: SymbolPair,
    pub(super) count: u64,
    /// Where its list begins in the pool.
    pub(super) start: u32,
    /// Entries of its list; some may be out of date.
    pub(super) places: u32,
}

/// Bytes an entry takes when the table is full.
pub(super) const ENTRY_BYTES: u64 = 24 * 3 / 2;

/// Kept pairs by their ids.
pub(super) struct PairTable {
    entries: Box<[PairEntry]>,
    len: usize,
    most: usize,
}

impl PairTable {
    /// A table that takes `most` pairs.
    pub(super) fn new(most: usize) -> Self {
        Self {
            entries: vec![PairEntry::default(); most * 3 / 2 + 1].into_boxed_slice(),
            len: 0,
            most,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == self.most
    }

    #[inline(always)]
    fn home(&self, pair: SymbolPair) -> usize {
        ((u128::from(spread(pair)) * self.entries.len() as u128) >> 64) as usize
    }

    #[inline(always)]
    fn after(&self, index: usize) -> usize {
        if index + 1 == self.entries.len() {
            0
        } else {
            index + 1
        }
    }

    /// The index of a pair, or of the empty slot where it would go.
    #[inline]
    fn find(&self, pair: SymbolPair) -> (usize, bool) {
        let mut index = self.home(pair);
        loop {
            let entry = &self.entries[index];
            if entry.count == 0 {
                return (index, false);
            }
            if entry.pair == pair {
                return (index, true);
            }
            index = self.after(index);
        }
    }

    pub(super) fn get(&self, pair: SymbolPair) -> Option<&PairEntry> {
        let (index, found) = self.find(pair);
        found.then(|| &self.entries[index])
    }

    pub(super) fn get_mut(&mut self, pair: SymbolPair) -> Option<&mut PairEntry> {
        let (index, found) = self.find(pair);
        found.then(|| &mut self.entries[index])
    }

    /// Puts an entry whose pair is not in the table. The table must not be full.
    pub(super) fn insert(&mut self, entry: PairEntry) {
        debug_assert!(!self.is_full() && entry.count > 0);
        let (index, found) = self.find(entry.pair);
        self.entries[index] = entry;
        self.len += usize::from(!found);
    }

    /// Counts one more place of a pair; says no if there is no room for another pair.
    #[inline]
    pub(super) fn count_place(&mut self, pair: SymbolPair, weight: u64) -> bool {
        let (index, found) = self.find(pair);
        if found {
            self.entries[index].count += weight;
            self.entries[index].places += 1;
            return true;
        }
        if self.is_full() {
            return false;
        }
        self.entries[index] = PairEntry {
            pair,
            count: weight,
            start: 0,
            places: 1,
        };
        self.len += 1;
        true
    }

    /// Takes weight from a pair, and the pair out of the table if it falls below the lowest count kept. Returns the places of its list in that case.
    #[inline]
    pub(super) fn lose(&mut self, pair: SymbolPair, weight: u64, lowest: u64) -> Option<u32> {
        let (index, found) = self.find(pair);
        if !found {
            return None;
        }
        let entry = &mut self.entries[index];
        entry.count -= weight;
        if entry.count >= lowest {
            return None;
        }
        let places = entry.places;
        self.remove_at(index);
        Some(places)
    }

    pub(super) fn remove(&mut self, pair: SymbolPair) -> Option<PairEntry> {
        let (index, found) = self.find(pair);
        if !found {
            return None;
        }
        let entry = self.entries[index];
        self.remove_at(index);
        Some(entry)
    }

    /// Moves later entries of the same run back into the gap, unless they stand before their home then.
    fn remove_at(&mut self, mut gap: usize) {
        let capacity = self.entries.len();
        let distance = |from: usize, to: usize| {
            if to >= from {
                to - from
            } else {
                to + capacity - from
            }
        };
        let mut index = gap;
        loop {
            index = self.after(index);
            let entry = self.entries[index];
            if entry.count == 0 {
                break;
            }
            if distance(self.home(entry.pair), index) >= distance(gap, index) {
                self.entries[gap] = entry;
                gap = index;
            }
        }
        self.entries[gap].count = 0;
        self.len -= 1;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PairEntry> {
        self.entries.iter().filter(|entry| entry.count > 0)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PairEntry> {
        self.entries.iter_mut().filter(|entry| entry.count > 0)
    }

    pub(super) fn clear(&mut self) {
        self.entries.fill(PairEntry::default());
        self.len = 0;
    }

    /// Removes what is not wanted.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&PairEntry) -> bool) {
        // An entry that shifts back into the gap is looked at next; one that wraps around the end was looked at before or is looked at again, which does no harm.
        let mut index = 0;
        while index < self.entries.len() {
            if self.entries[index].count > 0 && !keep(&self.entries[index]) {
                self.remove_at(index);
            } else {
                index += 1;
            }
        }
    }
}

/// Spreads a pair over 64 bits, the upper ones best.
#[inline(always)]
pub(super) fn spread(pair: SymbolPair) -> u64 {
    let mixed = (pair ^ pair >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_after_any_removals() {
        let mut table = PairTable::new(500);
        let entry = |pair| PairEntry {
            pair,
            count: pair + 1,
            start: 0,
            places: 1,
        };
        for round in 0..5u64 {
            for pair in 0..500 {
                if table.get(pair).is_none() {
                    table.insert(entry(pair));
                }
            }
            assert!(table.is_full());
            for pair in (0..500).filter(|pair| (pair * 7 + round) % 3 == 0) {
                assert!(table.remove(pair).is_some());
            }
            table.retain(|entry| entry.pair % 5 != 2);
            for pair in 0..500 {
                let gone = (pair * 7 + round) % 3 == 0 || pair % 5 == 2;
                assert_eq!(table.get(pair).is_none(), gone);
            }
            assert_eq!(table.len(), table.iter().count());
        }
    }
}
