//! How much memory merging gets, and how long it will take: known before it begins.
//!
//! The words and the vocabulary take what they take. The index (lists of places, kept pairs) takes what it is given: with less, all pairs are counted anew more often.

use std::sync::atomic::{AtomicU16, AtomicU32};
use std::time::Instant;

use super::arena::{BLOCK_SLOTS, arena_bytes, slots_of};
use super::error::MergeError;
use super::options::MergeOptions;
use super::pair_table::ENTRY_BYTES;
use super::replace::NEIGHBOUR_BYTES;
use super::slot::SymbolSlot;
use super::words::{Unpack, Words};

/// What merging will take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MergePlan {
    /// The most bytes it will have allocated at one time, the packed words included.
    pub peak_bytes: u64,
    /// The smallest budget that works.
    pub least_bytes: u64,
    /// About how long it will take, on this machine as busy as it is.
    pub seconds: f64,
}

/// Room for the index: what can be chosen freely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexCapacity {
    /// Entries of the lists of places.
    pub(super) places: u64,
    /// Kept pairs.
    pub(super) pairs: u64,
}

/// What one kept pair takes: its entry and its candidate in the heap.
const PAIR_BYTES: u64 = ENTRY_BYTES + 16;
/// A pair's line in the list that is made to sort pairs, where room is scarce; three quarters of a table and another one may be in it.
const SORTED_PAIR_BYTES: u64 = 24 * 7 / 4;
/// What a token takes: two copies of its text with what the allocator adds, its place in the map, its merge.
const TOKEN_BYTES: u64 = 150;
/// Counts of pairs of bytes, while the first index is made.
const FIRST_INDEX_BYTES: u64 = (1 << 16) * 20;
/// Pairs that are kept at one time, with the cutoff that is foreseen: at most 80,000 were met in 200 MB of many languages and 32,000 merges.
const USUAL_PAIRS: u64 = 1 << 17;

/// Sizes of everything, for so many slots.
struct Sizes {
    /// Packed words.
    packed: u64,
    /// Words laid out.
    arena: u64,
    /// Vocabulary and merges, in the end.
    tokens: u64,
    /// What neighbours add up to.
    neighbours: u64,
    threads: u64,
    slots: u64,
}

impl Sizes {
    fn for_options(slots: u64, packed: u64, options: &MergeOptions) -> Self {
        Self::new(
            slots,
            packed,
            options,
            options.memory_budget_bytes.is_some(),
        )
    }

    /// The smallest budget that works.
    fn least_bytes(slots: u64, packed: u64, options: &MergeOptions) -> u64 {
        let sizes = Self::new(slots, packed, options, true);
        sizes.peak(sizes.least())
    }

    fn new(slots: u64, packed: u64, options: &MergeOptions, scarce: bool) -> Self {
        let narrow = options.vocabulary_size <= AtomicU16::MOST_IDS as usize;
        let threads = options.threads.max(1) as u64;
        let tokens = options.vocabulary_size as u64;
        Self {
            packed,
            arena: if narrow {
                arena_bytes::<AtomicU16>(slots)
            } else {
                arena_bytes::<AtomicU32>(slots)
            },
            // A small corpus ends before the vocabulary is full: after as many merges as there are pairs at worst, much earlier as a rule.
            tokens: tokens.min(512 + slots / if scarce { 1 } else { 4 }) * TOKEN_BYTES,
            neighbours: tokens * NEIGHBOUR_BYTES * threads,
            threads,
            slots,
        }
    }

    /// With ample room all pairs are counted once, before there are merges; with less, again and again, and the rarest are sorted out.
    fn peak(&self, room: IndexCapacity) -> u64 {
        let mut later = self.tokens;
        if room != self.ample() {
            later += buckets(room.pairs) * 8 * self.threads + room.pairs * SORTED_PAIR_BYTES;
        }
        let passing = later.max(FIRST_INDEX_BYTES * self.threads);
        let merging = self.neighbours + room.places * 4 + room.pairs * PAIR_BYTES + passing;
        self.arena + merging.max(self.packed)
    }

    /// With less room nearly every merge would go through all words.
    fn least(&self) -> IndexCapacity {
        IndexCapacity {
            places: (self.slots / 8).max(1 << 10),
            pairs: 1 << 9,
        }
    }

    /// All places of pairs fit, and those that the first merges make before lists are slid together.
    fn ample(&self) -> IndexCapacity {
        let places = (self.slots + self.slots / 4).max(self.least().places);
        let pairs = USUAL_PAIRS.max(self.slots / 256).min(self.slots);
        IndexCapacity {
            places: places.min(u64::from(u32::MAX) - 1),
            pairs: pairs.max(self.least().pairs),
        }
    }

    fn room(&self, options: &MergeOptions) -> Result<IndexCapacity, MergeError> {
        let mut room = self.ample();
        let Some(budget) = options.memory_budget_bytes else {
            return Ok(room);
        };
        while self.peak(room) > budget {
            let least_bytes = self.peak(self.least());
            if least_bytes > budget {
                return Err(MergeError::BudgetTooSmall {
                    budget_bytes: budget,
                    needed_bytes: least_bytes,
                });
            }
            // Pairs take much each and are needed most: places give way first, down to a quarter of the words.
            if room.places * 4 > self.slots || room.pairs == self.least().pairs {
                room.places = (room.places * 15 / 16).max(self.least().places);
            } else {
                room.places = (room.places * 15 / 16).max(self.least().places);
                room.pairs = (room.pairs * 15 / 16).max(self.least().pairs);
            }
        }
        Ok(room)
    }
}

/// Buckets in which an index adds up weights before it counts pairs.
pub(super) fn buckets(pairs: u64) -> u64 {
    (pairs * 2).next_power_of_two().max(1 << 16)
}

impl IndexCapacity {
    pub(super) fn choose(words: &Words, options: &MergeOptions) -> Result<Self, MergeError> {
        Sizes::for_options(slots_of(words), words.packed_bytes(), options).room(options)
    }
}

impl Words {
    /// What merging these words will take; an error if it cannot be done within the budget.
    pub fn plan(&self, options: &MergeOptions) -> Result<MergePlan, MergeError> {
        let sizes = Sizes::for_options(slots_of(self), self.packed_bytes(), options);
        let room = sizes.room(options)?;
        let seconds = seconds(&sizes, room, options, self.nanos_per_byte());
        Ok(MergePlan {
            peak_bytes: sizes.peak(room),
            least_bytes: Sizes::least_bytes(slots_of(self), self.packed_bytes(), options),
            seconds,
        })
    }

    /// How long it takes, here and at this moment, to add up pairs of bytes: a measure of the machine.
    fn nanos_per_byte(&self) -> f64 {
        let mut counts = vec![0u64; 1 << 16];
        let mut pairs = 0u64;
        let began = Instant::now();
        for (word, count) in self.chunks.iter().take(4).flat_map(|chunk| Unpack(chunk)) {
            for pair in word.windows(2) {
                counts[usize::from(pair[0]) << 8 | usize::from(pair[1])] += count;
            }
            pairs += word.len() as u64;
        }
        std::hint::black_box(&counts);
        if pairs < 10_000 {
            USUAL_NANOS
        } else {
            began.elapsed().as_secs_f64() * 1e9 / pairs as f64
        }
    }
}

/// What merging will take, from the sizes alone: distinct words and the bytes in them.
pub fn plan_for(
    distinct: u64,
    bytes: u64,
    options: &MergeOptions,
) -> Result<MergePlan, MergeError> {
    let slots = BLOCK_SLOTS + bytes + distinct + distinct / 8;
    let sizes = Sizes::for_options(slots, bytes + distinct * 3, options);
    let room = sizes.room(options)?;
    Ok(MergePlan {
        peak_bytes: sizes.peak(room),
        least_bytes: Sizes::least_bytes(slots, bytes + distinct * 3, options),
        seconds: seconds(&sizes, room, options, USUAL_NANOS),
    })
}

/// [`Words::nanos_per_byte`] on the machine that the other figures come from.
const USUAL_NANOS: f64 = 1.6;

/// Measured with `examples/merge.rs` on one thread, 32,000 tokens: 1.9 million slots in 0.22 s, 10.6 in 0.75 s, 40 in 4 s (larger ones miss the cache more often).
fn seconds(sizes: &Sizes, room: IndexCapacity, options: &MergeOptions, nanos_per_byte: f64) -> f64 {
    let millions = sizes.slots as f64 / 1e6;
    let replacing = millions * 0.055 * (1.0 + millions / 55.0).min(2.0);
    let bookkeeping = options.vocabulary_size as f64 * 4e-6;
    // With less room all pairs are counted anew more often: 10.7 million slots took 0.9 s with ample room, 1.5 s with a quarter and 3.5 s with a tenth of it.
    let short_of = sizes.ample().places as f64 / room.places as f64;
    let indexing = millions * 0.012 * (short_of - 1.0).max(0.0);
    (replacing + bookkeeping + indexing) * nanos_per_byte / USUAL_NANOS
}
