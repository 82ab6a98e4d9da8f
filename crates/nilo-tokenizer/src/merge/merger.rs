//! The state of merging, and the step that is taken for each merge.
//!
//! Counts of the kept pairs are exact at any time: a fresh token's pairs get their counts and places when it is made, and from then on only lose.
//! A pair for which there is no room is left out and the cutoff raised above it, so that it comes back with the next index; the result is the same with any amount of memory.

use super::arena::Arena;
use super::heap::Heap;
use super::options::{MergeOptions, TieBreak};
use super::order::{Candidate, Cutoff, Order, Pair, halves, pair_of};
use super::pair_table::{Entry, PairTable};
use super::plan::Room;
use super::pool::Pool;
use super::replace::{Merging, NOT_KEPT, Neighbour, Neighbours};
use super::slot::Slot;
use super::threads::in_parts;
use super::tokens::{Target, Tokens};
use super::{Merge, Statistics};

/// Lists shorter than this are not worth a second thread.
const LONG_LIST: u32 = 16_384;

/// Counts of merges fall with a power of their number: 1.3 to 1.6 was measured on text, code and many languages, over the last five doublings of 32,000 merges.
/// Where they fall more steeply, pairs are missed and all pairs are counted once more.
const STEEPEST_DECLINE: f64 = 2.0;

/// The state of merging.
pub(super) struct Merger<S> {
    pub(super) arena: Arena<S>,
    pub(super) tokens: Tokens,
    pub(super) table: PairTable,
    pub(super) pool: Pool,
    pub(super) heap: Heap,
    pub(super) cutoff: Cutoff,
    pub(super) statistics: Statistics,
    pub(super) threads: usize,
    /// Pairs that occur less often are never merged.
    pub(super) floor: u64,
    options: MergeOptions,
    neighbours: Vec<Neighbours>,
}

impl<S: Slot> Merger<S> {
    pub(super) fn new(arena: Arena<S>, tokens: Tokens, room: Room, options: &MergeOptions) -> Self {
        let threads = options.threads.max(1);
        Self {
            arena,
            tokens,
            table: PairTable::new(room.pairs as usize),
            pool: Pool::new(room.places as usize),
            heap: Heap::with_capacity(room.pairs as usize),
            cutoff: Cutoff::at(options.min_frequency.max(1)),
            statistics: Statistics::default(),
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
    pub(super) fn next(&mut self) -> Option<Candidate> {
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
                    Candidate {
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
    pub(super) fn merge(&mut self, next: Candidate) -> Merge {
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
    pub(super) fn merge_by_scan(&mut self, next: Candidate) -> Merge {
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

    fn join(&mut self, pair: Pair) -> (Merging, bool) {
        let (left, right) = halves(pair);
        let (joined, fresh) = match self.tokens.join(left, right) {
            Target::Fresh(id) => (id, true),
            Target::InUse(id) => (id, false),
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

    /// Cuts a long list for the threads, where two places are so far apart that no thread sees what another one changes.
    fn cut(&self, entry: Entry, merging: Merging) -> Vec<std::ops::Range<u32>> {
        let end = entry.start + entry.places;
        let mut bounds = vec![entry.start];
        if self.threads > 1 && entry.places >= LONG_LIST {
            for part in 1..self.threads as u64 {
                let wanted =
                    entry.start + (u64::from(entry.places) * part / self.threads as u64) as u32;
                let from = wanted.max(bounds[bounds.len() - 1] + 1);
                let apart =
                    |&index: &u32| self.pool.get(index) - self.pool.get(index - 1) > merging.length;
                if let Some(bound) = (from..end.min(from.saturating_add(1024))).find(apart) {
                    bounds.push(bound);
                }
            }
        }
        bounds.push(end);
        bounds.windows(2).map(|bound| bound[0]..bound[1]).collect()
    }

    fn replace(
        &mut self,
        lists: &[std::ops::Range<u32>],
        merging: Merging,
    ) -> Vec<std::ops::Range<u32>> {
        let (arena, pool) = (&self.arena, &self.pool);
        let parts = self
            .neighbours
            .iter_mut()
            .zip(lists.iter().cloned())
            .collect();
        in_parts(
            parts,
            |(neighbours, list): (&mut Neighbours, std::ops::Range<u32>)| {
                list.start..list.start + neighbours.replace(arena, pool, list.clone(), merging)
            },
        )
    }

    fn note_places(&mut self, lists: Vec<std::ops::Range<u32>>, merging: Merging) {
        let (arena, pool, lengths) = (&self.arena, &self.pool, &*self.tokens.lengths);
        let parts = self.neighbours.iter_mut().zip(lists).collect();
        in_parts(parts, |(neighbours, list): (&mut Neighbours, _)| {
            neighbours.note_places(arena, pool, list, merging, lengths);
        });
    }

    fn clear_neighbours(&mut self) {
        for neighbours in &mut self.neighbours {
            neighbours.clear();
        }
    }

    /// Takes from the pairs that were torn apart, and puts in the pairs that were made.
    fn update_pairs(&mut self, merging: Merging, used: usize) {
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

    fn lose(&mut self, pair: Pair, weight: u64) {
        if let Some(places) = self.table.lose(pair, weight, self.cutoff.count) {
            self.pool.garbage += places as usize;
        }
    }

    /// Keeps a fresh pair if it is worth it and there is room. Returns where its list begins.
    fn keep(&mut self, pair: Pair, total: Neighbour) -> u32 {
        let candidate = Candidate {
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
        self.table.insert(Entry {
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
