//! Making room in the pool and in the table, without going through the words.

use super::merger::Merger;
use super::order::{CandidatePair, Order, halves};
use super::slot::SymbolSlot;

impl<S: SymbolSlot> Merger<S> {
    /// Makes room for lists of this many places if that can be had by sliding lists together and by dropping the rarest pairs.
    pub(super) fn make_room(&mut self, places: usize) {
        // A merge rarely makes more pairs than this; those beyond raise the cutoff.
        let pairs = places.min(4096).min(self.table.most() / 8);
        if self.pool.free() >= places && self.table.len() + pairs <= self.table.most() {
            return;
        }
        self.slide();
        let most_places = self.pool.capacity() / 4 * 3;
        let most_pairs = self.table.most() / 4 * 3;
        if self.pool.used() > most_places || self.table.len() > most_pairs {
            self.drop_rarest(most_places, most_pairs);
            self.slide();
        }
        self.refill_heap();
    }

    /// Slides the lists together, leaving out places that are out of date.
    fn slide(&mut self) {
        let mut lists: Vec<(u32, u64)> = self
            .table
            .iter()
            .map(|entry| (entry.start, entry.pair))
            .collect();
        lists.sort_unstable();
        let slots = &*self.arena.slots;
        let mut used = 0;
        for (start, pair) in lists {
            let Some(entry) = self.table.get_mut(pair) else {
                continue;
            };
            let (left, right) = halves(pair);
            let length = self.tokens.lengths[left as usize];
            let new_start = used;
            for index in start..start + entry.places {
                let place = self.pool.get(index);
                if slots[place as usize].get() == left
                    && slots[(place + length) as usize].get() == right
                {
                    self.pool.set(used, place);
                    used += 1;
                }
            }
            entry.start = new_start;
            entry.places = used - new_start;
        }
        self.pool.truncate(used as usize);
        self.statistics.compactions += 1;
    }

    /// Drops the rarest pairs until the others take at most so much, and raises the cutoff above them.
    fn drop_rarest(&mut self, most_places: usize, most_pairs: usize) {
        let order = Order {
            tie_break: self.tie_break(),
            texts: &self.tokens.texts,
        };
        let mut kept: Vec<(CandidatePair, u32)> = self
            .table
            .iter()
            .map(|entry| {
                (
                    CandidatePair {
                        count: entry.count,
                        pair: entry.pair,
                    },
                    entry.places,
                )
            })
            .collect();
        kept.sort_unstable_by(|(first, _), (second, _)| order.compare(*first, *second));
        let mut places = 0;
        let fitting = kept.iter().take(most_pairs).take_while(|(_, more)| {
            places += *more as usize;
            places <= most_places
        });
        // The first pair is about to be merged and stays in any case.
        let last = fitting.count().max(1);
        if let Some((last, _)) = kept.get(last - 1) {
            self.cutoff.count = last.count;
            self.cutoff.last = Some(last.pair);
        }
        let cutoff = self.cutoff;
        self.table.retain(|entry| {
            cutoff.keeps(
                CandidatePair {
                    count: entry.count,
                    pair: entry.pair,
                },
                &order,
            )
        });
    }

    /// The heap holds each kept pair once, with its count.
    pub(super) fn refill_heap(&mut self) {
        let order = Order {
            tie_break: self.tie_break(),
            texts: &self.tokens.texts,
        };
        let pairs = self.table.iter().map(|entry| CandidatePair {
            count: entry.count,
            pair: entry.pair,
        });
        self.heap.refill(pairs, &order);
    }
}
