//! All words as one row of symbols, in which a merge is three stores and no neighbour has to be searched.
//!
//! A token's id stands in the first and in the last of the slots that its bytes took, so the token after a place is one addition away and the token before it one subtraction.
//! Words of one count lie together, and a block of slots never mixes two counts: a place's weight is one load.

use super::slot::{SymbolSlot, ask_for_large_pages};
use super::tokens::Tokens;
use super::words::{Unpack, Words};

/// Slots with one weight.
pub(super) const BLOCK_SLOTS: u64 = 16;
const BLOCK_SHIFT: u32 = BLOCK_SLOTS.trailing_zeros();
/// The weight is too large for 32 bits and stands in `heavy`.
const HEAVY: u32 = u32::MAX;

/// The words, laid out for merging.
pub(super) struct Arena<S> {
    pub(super) slots: Box<[S]>,
    weights: Box<[u32]>,
    /// Weights beyond 32 bits, by the first block of their group.
    heavy: Vec<(u32, u64)>,
}

/// Slots that the words will take.
pub(super) fn slots_of(words: &Words) -> u64 {
    // A separator must stand before the first word: its left neighbour is looked at too.
    BLOCK_SLOTS + words.groups().map(|(_, slots)| slots).sum::<u64>()
}

/// Bytes that an arena of so many slots takes.
pub(super) fn arena_bytes<S: SymbolSlot>(slots: u64) -> u64 {
    slots * S::BYTES + slots / BLOCK_SLOTS * 4
}

impl<S: SymbolSlot> Arena<S> {
    /// Lays out the words, each byte as its token, and gives back the packed words as it goes.
    pub(super) fn new(words: Words, tokens: &Tokens) -> Self {
        let length = slots_of(&words) as usize;
        let slots = S::zeroed(length);
        ask_for_large_pages(&slots);
        let mut weights = vec![0u32; length / BLOCK_SLOTS as usize].into_boxed_slice();
        let mut heavy = Vec::new();
        let mut cursors = Cursors::default();
        let mut start = BLOCK_SLOTS as usize;
        for slot in &slots[..start] {
            slot.set(S::SEPARATOR);
        }
        for (count, group_slots) in words.groups() {
            let end = start + group_slots as usize;
            let blocks = start >> BLOCK_SHIFT..end >> BLOCK_SHIFT;
            if count >= u64::from(HEAVY) {
                heavy.push((blocks.start as u32, count));
            }
            weights[blocks].fill(count.min(u64::from(HEAVY)) as u32);
            // The last block may not be filled by words.
            for slot in &slots[end - BLOCK_SLOTS as usize..end] {
                slot.set(S::SEPARATOR);
            }
            cursors.0.push((count, start));
            start = end;
        }
        for chunk in words.chunks {
            for (word, count) in Unpack(&chunk) {
                let cursor = cursors.of(count);
                for &byte in word {
                    slots[*cursor].set(tokens.byte_ids[usize::from(byte)]);
                    *cursor += 1;
                }
                slots[*cursor].set(S::SEPARATOR);
                *cursor += 1;
            }
        }
        Self {
            slots,
            weights,
            heavy,
        }
    }

    /// How often the word at a place occurred.
    #[inline(always)]
    pub(super) fn weight(&self, place: u32) -> u64 {
        let weight = self.weights[(place >> BLOCK_SHIFT) as usize];
        if weight == HEAVY {
            self.heavy_weight(place >> BLOCK_SHIFT)
        } else {
            u64::from(weight)
        }
    }

    #[cold]
    fn heavy_weight(&self, block: u32) -> u64 {
        let after = self.heavy.partition_point(|&(first, _)| first <= block);
        self.heavy[after - 1].1
    }

    /// Cuts the row into about equal stretches that begin and end at separators.
    pub(super) fn stretches(&self, parts: usize) -> Vec<std::ops::Range<u32>> {
        let length = self.slots.len();
        let mut bounds = vec![BLOCK_SLOTS as usize];
        for part in 1..parts {
            let from = (length * part / parts).max(bounds[part - 1]);
            let words = self.slots[from..]
                .iter()
                .position(|slot| slot.get() == S::SEPARATOR);
            bounds.push(words.map_or(length, |offset| from + offset));
        }
        bounds.push(length);
        bounds
            .windows(2)
            .map(|bound| bound[0] as u32..bound[1] as u32)
            .collect()
    }

    /// Hands over every pair of neighbours in a stretch: the place of the left one, both ids.
    #[inline(always)]
    pub(super) fn for_each_pair(
        &self,
        stretch: std::ops::Range<u32>,
        lengths: &[u32],
        mut visit: impl FnMut(u32, u32, u32),
    ) {
        let mut place = stretch.start;
        while place < stretch.end {
            let mut left = self.slots[place as usize].get();
            if left == S::SEPARATOR {
                place += 1;
                continue;
            }
            loop {
                let next = place + lengths[left as usize];
                let right = self.slots[next as usize].get();
                if right == S::SEPARATOR {
                    place = next + 1;
                    break;
                }
                visit(place, left, right);
                place = next;
                left = right;
            }
        }
    }
}

/// Where the next word of each count goes, the highest count first.
#[derive(Default)]
struct Cursors(Vec<(u64, usize)>);

impl Cursors {
    fn of(&mut self, count: u64) -> &mut usize {
        // Half of all words have one of the smallest counts, which stand last.
        let tail = self.0.len().saturating_sub(8);
        let index = match self.0[tail..]
            .iter()
            .rposition(|&(group, _)| group == count)
        {
            Some(offset) => tail + offset,
            None => self.0.partition_point(|&(group, _)| group > count),
        };
        &mut self.0[index].1
    }
}
