//! What a merge does to the counts of other pairs.

use super::merger::Merger;
use super::order::{CandidatePair, Order, SymbolPair, halves, pair_of};
use super::pair_table::PairEntry;
use super::replace::{Merging, NOT_KEPT, Neighbour, Neighbours};
use super::slot::SymbolSlot;

impl<S: SymbolSlot> Merger<S> {
    /// Takes from the pairs that were torn apart, and puts in the pairs that were made.
    pub(super) fn update_pairs(&mut self, merging: Merging, used: usize) {
        let Merging {
            left,
            right,
            joined,
            ..
        } = merging;
        let mut neighbours = std::mem::take(&mut self.neighbours);
        let parts = &mut neighbours[..used];
        for part in 0..parts.len() {
            for index in 0..parts[part].left.touched.len() {
                let id = parts[part].left.touched[index];
                let total = sum(parts, |part| &mut part.left.by_id[id as usize]);
                if total.weight > 0 {
                    self.lose(pair_of(id, left), total.weight);
                    let start = self.keep(pair_of(id, joined), total);
                    hand_out(parts, start, |part| &mut part.left.by_id[id as usize]);
                }
            }
            for index in 0..parts[part].right.touched.len() {
                let id = parts[part].right.touched[index];
                let lost = parts
                    .iter()
                    .map(|part| part.right.by_id[id as usize].weight)
                    .sum();
                if lost == 0 {
                    continue;
                }
                if (right, id) != (left, right) {
                    self.lose(pair_of(right, id), lost);
                }
                if id == left {
                    // Where the left half of another place followed, that place has been merged as well.
                    for part in parts.iter_mut() {
                        part.right.by_id[id as usize].weight -= part.adjacent.weight;
                        part.right.by_id[id as usize].places -= part.adjacent.places;
                    }
                }
                let total = sum(parts, |part| &mut part.right.by_id[id as usize]);
                let start = self.keep(pair_of(joined, id), total);
                hand_out(parts, start, |part| &mut part.right.by_id[id as usize]);
            }
        }
        let total = sum(parts, |part| &mut part.adjacent);
        let start = self.keep(pair_of(joined, joined), total);
        hand_out(parts, start, |part| &mut part.adjacent);
        self.neighbours = neighbours;
    }

    fn lose(&mut self, pair: SymbolPair, weight: u64) {
        if let Some(places) = self.table.lose(pair, weight, self.cutoff.count) {
            self.pool.garbage += places as usize;
        }
    }

    /// Keeps a fresh pair if it is worth it and there is room. Returns where its list begins.
    fn keep(&mut self, pair: SymbolPair, total: Neighbour) -> u32 {
        let candidate = CandidatePair {
            count: total.weight,
            pair,
        };
        let order = Order {
            tie_break: self.options.tie_break,
            texts: &self.tokens.texts,
        };
        let (left, right) = halves(pair);
        if total.weight == 0
            || !self.cutoff.keeps(candidate, &order)
            || !Self::may_merge(
                &self.tokens.lengths,
                self.options.max_token_length,
                left,
                right,
            )
        {
            return NOT_KEPT;
        }
        let start = if self.table.is_full() {
            None
        } else {
            self.pool.take(total.places)
        };
        let Some(start) = start else {
            self.cutoff.raise_above(total.weight);
            return NOT_KEPT;
        };
        self.table.insert(PairEntry {
            pair,
            count: total.weight,
            start,
            places: total.places,
        });
        if self.heap.len() < self.table.most() {
            self.heap.push(candidate, &order);
        } else {
            // Candidates that were torn apart since fill the heap.
            self.refill_heap();
        }
        start
    }
}

/// What one neighbour adds up to over all parts.
fn sum(parts: &mut [Neighbours], of: impl Fn(&mut Neighbours) -> &mut Neighbour) -> Neighbour {
    let mut total = Neighbour::default();
    for part in parts {
        let neighbour = of(part);
        total.weight += neighbour.weight;
        total.places += neighbour.places;
    }
    total
}

/// Says to each part where its places go, and takes its weight so that no other part counts it again.
fn hand_out(
    parts: &mut [Neighbours],
    mut start: u32,
    of: impl Fn(&mut Neighbours) -> &mut Neighbour,
) {
    for part in parts {
        let neighbour = of(part);
        neighbour.weight = 0;
        neighbour.cursor = start;
        if start != NOT_KEPT {
            start += neighbour.places;
        }
    }
}
