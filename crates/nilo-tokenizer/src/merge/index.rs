//! The index anew: all pairs are counted again, in bounded memory, and those that are merged next are kept.
//!
//! A first pass adds up the weights of pairs in buckets by hash. A pair cannot weigh more than its bucket, so the second pass, which counts pairs one by one in the table, leaves out most of the rare ones.
//! If the table is too small for the others, they are counted in several passes, a stretch of the order of ties at a time, and the first of all stretches are kept.

use super::merger::Merger;
use super::order::{CandidatePair, Cutoff, Order, SymbolPair, pair_of};
use super::pair_table::{PairEntry, spread};
use super::plan::buckets;
use super::slot::SymbolSlot;
use super::threads::in_parts;

/// What an index found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Indexed {
    /// No pair is frequent enough to be merged.
    Nothing,
    /// The pair to merge next is in the table.
    Ready,
    /// This pair is to be merged next, and its list has no room in the pool.
    TooLong(CandidatePair),
}

impl<S: SymbolSlot> Merger<S> {
    /// Counts all pairs again and keeps those that are merged next.
    pub(super) fn index(&mut self) -> Indexed {
        self.statistics.indexes += 1;
        let buckets = self.fill_buckets();
        let mut count = self.cutoff_for_index();
        loop {
            let mut cutoff = Cutoff::at(count);
            let candidates = self.count_pairs(&buckets, &mut cutoff);
            if !candidates.is_empty() {
                return self.keep_most_frequent(candidates, cutoff);
            }
            if count == self.floor {
                return Indexed::Nothing;
            }
            count = (count / 64).max(self.floor);
        }
    }

    /// All pairs within the cutoff, which is raised to what there is room for.
    fn count_pairs(&mut self, buckets: &[u64], cutoff: &mut Cutoff) -> Vec<(CandidatePair, u32)> {
        let most = (self.table.most() / 4 * 3).max(1);
        let mut candidates: Vec<(CandidatePair, u32)> = Vec::new();
        let mut after = None;
        loop {
            let mut stretch = TieStretch { after, last: None };
            self.count_stretch(buckets, cutoff.count, &mut stretch);
            let order = Order {
                tie_break: self.tie_break(),
                texts: &self.tokens.texts,
            };
            let candidate = |entry: &PairEntry| CandidatePair {
                count: entry.count,
                pair: entry.pair,
            };
            self.table
                .retain(|entry| cutoff.keeps(candidate(entry), &order));
            candidates.reserve_exact(self.table.len());
            candidates.extend(
                self.table
                    .iter()
                    .map(|entry| (candidate(entry), entry.places)),
            );
            if candidates.len() > most {
                candidates
                    .sort_unstable_by(|(first, _), (second, _)| order.compare(*first, *second));
                candidates.truncate(most);
                let CandidatePair { count, pair } = candidates[most - 1].0;
                *cutoff = Cutoff {
                    count,
                    last: Some(pair),
                };
            }
            match stretch.last {
                Some(last) => after = Some(last),
                None => return candidates,
            }
        }
    }

    fn fill_buckets(&self) -> Box<[u64]> {
        let buckets = buckets(self.table.most() as u64) as usize;
        let (arena, lengths) = (&self.arena, &*self.tokens.lengths);
        let mut parts = in_parts(arena.stretches(self.threads), |stretch| {
            let mut weights = vec![0u64; buckets].into_boxed_slice();
            arena.for_each_pair(stretch, lengths, |place, left, right| {
                weights[bucket_of(pair_of(left, right), buckets)] += arena.weight(place);
            });
            weights
        });
        let mut sums = parts.pop().unwrap_or_default();
        for part in parts {
            for (sum, &weight) in sums.iter_mut().zip(&part) {
                *sum += weight;
            }
        }
        sums
    }

    /// Counts the pairs of a stretch whose buckets weigh enough, and ends the stretch where the table is full.
    fn count_stretch(&mut self, buckets: &[u64], count: u64, stretch: &mut TieStretch) {
        self.table.clear();
        let most = self.most_length();
        let order = Order {
            tie_break: self.tie_break(),
            texts: &self.tokens.texts,
        };
        let (table, lengths) = (&mut self.table, &*self.tokens.lengths);
        self.arena.for_each_pair(
            BEGIN..self.arena.slots.len() as u32,
            lengths,
            |place, left, right| {
                let pair = pair_of(left, right);
                if buckets[bucket_of(pair, buckets.len())] < count
                    || !Self::may_merge(lengths, most, left, right)
                    || !stretch.holds(pair, &order)
                {
                    return;
                }
                let weight = self.arena.weight(place);
                if !table.count_place(pair, weight) {
                    stretch.halve(table, &order);
                    if stretch.holds(pair, &order) {
                        table.count_place(pair, weight);
                    }
                }
            },
        );
    }

    /// Puts into the empty table the pairs that are merged first, as many as there is room for, notes their places, and sets the cutoff: the given one, or higher.
    fn keep_most_frequent(
        &mut self,
        candidates: Vec<(CandidatePair, u32)>,
        cutoff: Cutoff,
    ) -> Indexed {
        let indexed = self.keep_first(candidates, cutoff);
        let (table, pool) = (&mut self.table, &self.pool);
        for entry in table.iter_mut() {
            entry.places = 0;
        }
        let lengths = &*self.tokens.lengths;
        self.arena.for_each_pair(
            BEGIN..self.arena.slots.len() as u32,
            lengths,
            |place, left, right| {
                if let Some(entry) = table.get_mut(pair_of(left, right)) {
                    pool.set(entry.start + entry.places, place);
                    entry.places += 1;
                }
            },
        );
        self.refill_heap();
        indexed
    }

    /// Puts into the empty table the pairs that are merged first, as many as there is room for, and sets the cutoff: the given one, or higher.
    pub(super) fn keep_first(
        &mut self,
        mut candidates: Vec<(CandidatePair, u32)>,
        cutoff: Cutoff,
    ) -> Indexed {
        self.table.clear();
        self.pool.truncate(0);
        self.cutoff = cutoff;
        let order = Order {
            tie_break: self.tie_break(),
            texts: &self.tokens.texts,
        };
        candidates.sort_unstable_by(|(first, _), (second, _)| order.compare(*first, *second));
        let most_places = self.pool.capacity() / 8 * 7;
        let most_pairs = (self.table.most() / 4 * 3).max(1);
        let mut last = None;
        for (candidate, places) in candidates {
            let fits =
                self.table.len() < most_pairs && self.pool.used() + places as usize <= most_places;
            let Some(start) = fits.then(|| self.pool.take(places)).flatten() else {
                let Some(last) = last else {
                    return Indexed::TooLong(candidate);
                };
                let CandidatePair { count, pair } = last;
                self.cutoff = Cutoff {
                    count,
                    last: Some(pair),
                };
                break;
            };
            self.table.insert(PairEntry {
                pair: candidate.pair,
                count: candidate.count,
                start,
                places,
            });
            last = Some(candidate);
        }
        if last.is_some() {
            Indexed::Ready
        } else {
            Indexed::Nothing
        }
    }
}

/// Before the first word.
const BEGIN: u32 = 0;

#[inline(always)]
fn bucket_of(pair: SymbolPair, buckets: usize) -> usize {
    (spread(pair) >> 32) as usize & (buckets - 1)
}

/// A stretch of pairs in the order of ties.
struct TieStretch {
    /// Pairs up to and with this one are not in it.
    after: Option<SymbolPair>,
    /// The last pair that is in it; `None`: no end.
    last: Option<SymbolPair>,
}

impl TieStretch {
    fn holds(&self, pair: SymbolPair, order: &Order<'_>) -> bool {
        self.after.is_none_or(|after| order.wins_tie(after, pair))
            && self.last.is_none_or(|last| !order.wins_tie(last, pair))
    }

    /// Ends the stretch in the middle of what the table holds, and takes the later half out.
    fn halve(&mut self, table: &mut super::pair_table::PairTable, order: &Order<'_>) {
        let mut pairs: Vec<SymbolPair> = table.iter().map(|entry| entry.pair).collect();
        let middle = pairs.len() / 2;
        let by_tie = |first: &SymbolPair, second: &SymbolPair| {
            order.compare(
                CandidatePair {
                    count: 0,
                    pair: *first,
                },
                CandidatePair {
                    count: 0,
                    pair: *second,
                },
            )
        };
        let (_, &mut last, _) = pairs.select_nth_unstable_by(middle.saturating_sub(1), by_tie);
        self.last = Some(last);
        table.retain(|entry| !order.wins_tie(last, entry.pair));
    }
}
