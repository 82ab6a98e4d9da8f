//! The index anew: all pairs are counted again, in bounded memory, and those that are merged next are kept.
//!
//! A first pass adds up the weights of pairs in buckets by hash. A pair cannot weigh more than its bucket, so the second pass, which counts pairs one by one in the table, leaves out most of the rare ones.
//! If the table is full nevertheless, a higher cutoff is tried; where too many pairs tie at the highest count, they are taken in the order of ties, a stretch at a time.

use super::merger::Merger;
use super::order::{Candidate, Cutoff, Order, Pair, pair_of};
use super::pair_table::{Entry, spread};
use super::slot::Slot;
use super::threads::in_parts;

/// What an index found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Indexed {
    /// No pair is frequent enough to be merged.
    Nothing,
    /// The pair to merge next is in the table.
    Ready,
    /// This pair is to be merged next, and its list has no room in the pool.
    TooLong(Candidate),
}

/// What counting with a cutoff came to.
enum Counted {
    /// More pairs than there is room for.
    TooMany,
    /// No pair is at or above the cutoff.
    None,
    /// These pairs are at or above it.
    Some(Vec<(Candidate, u32)>),
}

impl<S: Slot> Merger<S> {
    /// Counts all pairs again and keeps those that are merged next.
    pub(super) fn index(&mut self) -> Indexed {
        self.statistics.indexes += 1;
        let buckets = self.fill_buckets();
        // Pairs outside the old cutoff were at most as frequent as it; after forgetting, nothing is known.
        let mut highest = self.cutoff.count.min(u64::MAX - 1);
        let mut lowest = self.floor;
        let mut count = self.cutoff_for_index().clamp(lowest, highest.max(lowest));
        let mut too_many_at = None;
        loop {
            match self.count_pairs(&buckets, count, None) {
                Counted::Some(candidates) => return self.keep_most_frequent(candidates, Cutoff::at(count)),
                Counted::None if count == lowest => {
                    let Some(tied) = too_many_at else {
                        return Indexed::Nothing;
                    };
                    return self.index_ties(&buckets, tied);
                }
                Counted::None => {
                    highest = count - 1;
                    count = match too_many_at {
                        Some(_) => lowest + (highest - lowest) / 2,
                        None => (count / 64).max(lowest),
                    };
                }
                Counted::TooMany => {
                    too_many_at = Some(count);
                    if count >= highest {
                        return self.index_ties(&buckets, count);
                    }
                    lowest = count + 1;
                    count = lowest + (highest - lowest) / 2;
                    count = count.min(lowest.saturating_mul(4));
                }
            }
        }
    }

    /// Too many pairs have the highest count there is: keeps the first of them in the order of ties.
    fn index_ties(&mut self, buckets: &[u32], count: u64) -> Indexed {
        let mut after = None;
        loop {
            let mut stretch = TieStretch { after, last: None };
            match self.count_pairs(buckets, count, Some(&mut stretch)) {
                Counted::Some(candidates) => {
                    return self.keep_most_frequent(candidates, Cutoff { count, last: stretch.last });
                }
                // The pairs of this stretch had smaller counts and shared their buckets with others.
                _ if stretch.last.is_some() => after = stretch.last,
                _ => return Indexed::Nothing,
            }
        }
    }

    fn fill_buckets(&self) -> Box<[u32]> {
        let buckets = self.bucket_count();
        let (arena, lengths) = (&self.arena, &*self.tokens.lengths);
        let mut parts = in_parts(arena.stretches(self.threads), |stretch| {
            let mut weights = vec![0u32; buckets].into_boxed_slice();
            arena.for_each_pair(stretch, lengths, |place, left, right| {
                let bucket = &mut weights[bucket_of(pair_of(left, right), buckets)];
                *bucket = bucket.saturating_add(u32::try_from(arena.weight(place)).unwrap_or(u32::MAX));
            });
            weights
        });
        let mut sums = parts.pop().unwrap_or_default();
        for part in parts {
            for (sum, &weight) in sums.iter_mut().zip(&part) {
                *sum = sum.saturating_add(weight);
            }
        }
        sums
    }

    /// Buckets in the first pass: a quarter of what the table takes.
    fn bucket_count(&self) -> usize {
        (self.table.most() * 2).next_power_of_two().max(1024)
    }

    fn count_pairs(&mut self, buckets: &[u32], count: u64, mut stretch: Option<&mut TieStretch>) -> Counted {
        self.table.clear();
        let lowest_bucket = u32::try_from(count).unwrap_or(u32::MAX);
        let most = self.most_length();
        let order = Order { tie_break: self.tie_break(), texts: &self.tokens.texts };
        let (table, lengths) = (&mut self.table, &*self.tokens.lengths);
        let mut too_many = false;
        self.arena.for_each_pair(BEGIN..self.arena.slots.len() as u32, lengths, |place, left, right| {
            let pair = pair_of(left, right);
            if too_many || buckets[bucket_of(pair, buckets.len())] < lowest_bucket {
                return;
            }
            if !Self::may_merge(lengths, most, left, right) {
                return;
            }
            let weight = self.arena.weight(place);
            match &mut stretch {
                None => too_many = !table.count_place(pair, weight),
                Some(stretch) => {
                    if stretch.holds(pair, &order) && !table.count_place(pair, weight) {
                        stretch.halve(table, &order);
                        if stretch.holds(pair, &order) {
                            table.count_place(pair, weight);
                        }
                    }
                }
            }
        });
        if too_many {
            return Counted::TooMany;
        }
        let frequent = table.iter().filter(|entry| entry.count >= count);
        let candidates: Vec<_> =
            frequent.map(|entry| (Candidate { count: entry.count, pair: entry.pair }, entry.places)).collect();
        if candidates.is_empty() { Counted::None } else { Counted::Some(candidates) }
    }

    /// Puts into the empty table the pairs that are merged first, as many as there is room for, notes their places, and sets the cutoff: the given one, or higher.
    fn keep_most_frequent(&mut self, candidates: Vec<(Candidate, u32)>, cutoff: Cutoff) -> Indexed {
        let indexed = self.keep_first(candidates, cutoff);
        let (table, pool) = (&mut self.table, &self.pool);
        for entry in table.iter_mut() {
            entry.places = 0;
        }
        let lengths = &*self.tokens.lengths;
        self.arena.for_each_pair(BEGIN..self.arena.slots.len() as u32, lengths, |place, left, right| {
            if let Some(entry) = table.get_mut(pair_of(left, right)) {
                pool.set(entry.start + entry.places, place);
                entry.places += 1;
            }
        });
        self.refill_heap();
        indexed
    }

    /// Puts into the empty table the pairs that are merged first, as many as there is room for, and sets the cutoff: the given one, or higher.
    pub(super) fn keep_first(&mut self, mut candidates: Vec<(Candidate, u32)>, cutoff: Cutoff) -> Indexed {
        self.table.clear();
        self.pool.truncate(0);
        self.cutoff = cutoff;
        let order = Order { tie_break: self.tie_break(), texts: &self.tokens.texts };
        candidates.sort_unstable_by(|(first, _), (second, _)| order.compare(*first, *second));
        let most_places = self.pool.capacity() / 4 * 3;
        let most_pairs = (self.table.most() / 4 * 3).max(1);
        let mut last = None;
        for (candidate, places) in candidates {
            let fits = self.table.len() < most_pairs && self.pool.used() + places as usize <= most_places;
            let Some(start) = fits.then(|| self.pool.take(places)).flatten() else {
                let Some(last) = last else {
                    return Indexed::TooLong(candidate);
                };
                let Candidate { count, pair } = last;
                self.cutoff = Cutoff { count, last: Some(pair) };
                break;
            };
            self.table.insert(Entry { pair: candidate.pair, count: candidate.count, start, places });
            last = Some(candidate);
        }
        if last.is_some() { Indexed::Ready } else { Indexed::Nothing }
    }
}

/// Before the first word.
const BEGIN: u32 = 0;

#[inline(always)]
fn bucket_of(pair: Pair, buckets: usize) -> usize {
    (spread(pair) >> 32) as usize & (buckets - 1)
}

/// A stretch of pairs in the order of ties.
struct TieStretch {
    /// Pairs up to and with this one are not in it.
    after: Option<Pair>,
    /// The last pair that is in it; `None`: no end.
    last: Option<Pair>,
}

impl TieStretch {
    fn holds(&self, pair: Pair, order: &Order<'_>) -> bool {
        self.after.is_none_or(|after| order.wins_tie(after, pair))
            && self.last.is_none_or(|last| !order.wins_tie(last, pair))
    }

    /// Ends the stretch in the middle of what the table holds, and takes the later half out.
    fn halve(&mut self, table: &mut super::pair_table::PairTable, order: &Order<'_>) {
        let mut pairs: Vec<Pair> = table.iter().map(|entry| entry.pair).collect();
        let middle = pairs.len() / 2;
        let by_tie = |first: &Pair, second: &Pair| {
            order.compare(Candidate { count: 0, pair: *first }, Candidate { count: 0, pair: *second })
        };
        let (_, &mut last, _) = pairs.select_nth_unstable_by(middle.saturating_sub(1), by_tie);
        self.last = Some(last);
        table.retain(|entry| !order.wins_tie(last, entry.pair));
    }
}
