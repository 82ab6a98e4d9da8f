//! The state of merging, and the step that is taken for each merge.
//!
//! Counts of the kept pairs are exact at any time: a fresh token's pairs get their counts and places when it is made, and from then on only lose.
//! A pair for which there is no room is left out and the cutoff raised above it, so that it comes back with the next index; the result is the same with any amount of memory.

use super::arena::Arena;
use super::heap::Heap;
use super::options::{MergeOptions, TieBreak};
use super::order::{CandidatePair, Cutoff, Order, SymbolPair, halves};
use super::pair_table::PairTable;
use super::plan::IndexCapacity;
use super::pool::OccurrencePool;
use super::replace::{Merging, Neighbours};
use super::slot::SymbolSlot;
use super::tokens::{MergedToken, Tokens};
use super::{Merge, MergeStatistics};

/// Counts of merges fall with a power of their number: 1.3 to 1.6 was measured on text, code and many languages, over the last five doublings of 32,000 merges.
/// Where they fall more steeply, pairs are missed and all pairs are counted once more.
const STEEPEST_DECLINE: f64 = 2.0;

/// The state of merging.
pub(super) struct Merger<S> {
    pub(super) arena: Arena<S>,
    pub(super) tokens: Tokens,
    pub(super) table: PairTable,
    pub(super) pool: OccurrencePool,
    pub(super) heap: Heap,
    pub(super) cutoff: Cutoff,
    pub(super) statistics: MergeStatistics,
    pub(super) threads: usize,
    /// Pairs that occur less often are never merged.
    pub(super) floor: u64,
    pub(super) options: MergeOptions,
    pub(super) neighbours: Vec<Neighbours>,
}

impl<S: SymbolSlot> Merger<S> {
    pub(super) fn new(
        arena: Arena<S>,
        tokens: Tokens,
        room: IndexCapacity,
        options: &MergeOptions,
    ) -> Self {
        let threads = options.threads.max(1);
        Self {
            arena,
            tokens,
            table: PairTable::new(room.pairs as usize),
            pool: OccurrencePool::new(room.places as usize),
            heap: Heap::with_capacity(room.pairs as usize),
            cutoff: Cutoff::at(options.min_frequency.max(1)),
            statistics: MergeStatistics::default(),
            threads,
            floor: options.min_frequency.max(1),
            options: options.clone(),
            neighbours: (0..threads)
                .map(|_| Neighbours::new(options.vocabulary_size))
                .collect(),
        }
    }

    pub(super) fn tie_break(&self) -> TieBreak {
        self.options.tie_break
    }

    /// Whether a pair may ever be merged. Pairs of single bytes always may, as in Hugging Face.
    #[inline]
    pub(super) fn may_merge(lengths: &[u32], most: Option<usize>, left: u32, right: u32) -> bool {
        let Some(most) = most else {
            return true;
        };
        let length = lengths[left as usize] as usize + lengths[right as usize] as usize;
        length < most || length == 2
    }

    pub(super) fn most_length(&self) -> Option<usize> {
        self.options.max_token_length
    }

    /// Whether every pair that may ever be merged is kept.
    pub(super) fn knows_all(&self) -> bool {
        self.cutoff == Cutoff::at(self.floor)
    }

    /// The cutoff that an index aims at: low enough to last for long, high enough to leave out what is never merged.
    pub(super) fn cutoff_for_index(&self) -> u64 {
        (self.cutoff.count / 64).max(self.floor)
    }

    /// The pair to merge next, out of those that are kept; `None` if none of them is surely the next.
    pub(super) fn next(&mut self) -> Option<CandidatePair> {
        let order = Order {
            tie_break: self.options.tie_break,
            texts: &self.tokens.texts,
        };
        loop {
            let top = self.heap.peek()?;
            if !self.cutoff.keeps(top, &order) {
                return None;
            }
            match self.table.get(top.pair) {
                Some(entry) if entry.count == top.count => return Some(top),
                Some(entry) => self.heap.replace_top(
                    CandidatePair {
                        count: entry.count,
                        pair: top.pair,
                    },
                    &order,
                ),
                None => self.heap.pop(&order),
            }
        }
    }

    /// Merges the pair that [`Self::next`] returned.
    pub(super) fn merge(&mut self, next: CandidatePair) -> Merge {
        let order = Order {
            tie_break: self.options.tie_break,
            texts: &self.tokens.texts,
        };
        self.heap.pop(&order);
        let places = self.table.get(next.pair).map_or(0, |entry| entry.places);
        self.make_room(2 * places as usize);
        let entry = self
            .table
            .remove(next.pair)
            .expect("the next pair is in the table");
        self.pool.garbage += entry.places as usize;
        let (merging, fresh) = self.join(next.pair);
        let lists = self.cut(entry, merging);
        let kept = self.replace(&lists, merging);
        if fresh {
            self.update_pairs(merging, lists.len());
            self.note_places(kept, merging);
        } else {
            // Pairs with this token may be known, or may have been too rare to be kept: count everything again.
            self.forget();
        }
        self.clear_neighbours();
        Merge {
            left: merging.left,
            right: merging.right,
            joined: merging.joined,
            count: next.count,
        }
    }

    /// Raises the cutoff to what surely is never merged, as far as the counts so far tell.
    pub(super) fn foresee(&mut self, merges: usize, count: u64) {
        let wanted = self.options.vocabulary_size - self.tokens.len() + merges;
        let last = count as f64 * (merges as f64 / wanted as f64).powf(STEEPEST_DECLINE);
        if last as u64 > self.cutoff.count {
            self.cutoff = Cutoff::at(last as u64);
            let mut garbage = 0;
            self.table.retain(|entry| {
                let keep = entry.count >= last as u64;
                garbage += if keep { 0 } else { entry.places as usize };
                keep
            });
            self.pool.garbage += garbage;
        }
    }

    /// Merges a pair whose list has no room in the pool: finds its places by going through all words, and forgets all pairs.
    pub(super) fn merge_by_scan(&mut self, next: CandidatePair) -> Merge {
        let (merging, _) = self.join(next.pair);
        let neighbours = &mut self.neighbours[0];
        let end = self.arena.slots.len() as u32;
        let mut place = 0;
        while place < end {
            neighbours.replace_at(&self.arena, place, merging);
            let symbol = self.arena.slots[place as usize].get();
            place += if symbol == S::SEPARATOR {
                1
            } else {
                self.tokens.lengths[symbol as usize]
            };
        }
        self.statistics.scans += 1;
        self.clear_neighbours();
        self.forget();
        Merge {
            left: merging.left,
            right: merging.right,
            joined: merging.joined,
            count: next.count,
        }
    }

    fn join(&mut self, pair: SymbolPair) -> (Merging, bool) {
        let (left, right) = halves(pair);
        let (joined, fresh) = match self.tokens.join(left, right) {
            MergedToken::Fresh(id) => (id, true),
            MergedToken::InUse(id) => (id, false),
        };
        let lengths = &self.tokens.lengths;
        let left_length = lengths[left as usize];
        (
            Merging {
                left,
                right,
                joined,
                left_length,
                length: left_length + lengths[right as usize],
            },
            fresh,
        )
    }

    /// No pair is known any more; the next index counts all.
    fn forget(&mut self) {
        self.table.clear();
        self.pool.truncate(0);
        self.heap.refill(
            std::iter::empty(),
            &Order {
                tie_break: self.options.tie_break,
                texts: &[],
            },
        );
        self.cutoff = Cutoff::at(u64::MAX);
    }
}
