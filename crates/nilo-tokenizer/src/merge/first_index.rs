//! The first index: pairs of bytes, counted in an array and not in a table.

use super::index::Indexed;
use super::merger::Merger;
use super::order::{CandidatePair, Cutoff, pair_of};
use super::replace::NOT_KEPT;
use super::slot::SymbolSlot;
use super::threads::in_parts;

/// A pair of bytes in one part of the words.
#[derive(Clone, Copy, Default)]
struct BytePair {
    weight: u64,
    places: u32,
}

impl<S: SymbolSlot> Merger<S> {
    /// Counts all pairs of bytes and keeps the most frequent ones, as many as there is room for.
    pub(super) fn index_bytes(&mut self) -> Indexed {
        // Ids of bytes in the order of the alphabet, and the other way round.
        let mut ids: Vec<u32> = self
            .tokens
            .byte_ids
            .iter()
            .copied()
            .filter(|&id| id != u32::MAX)
            .collect();
        ids.sort_unstable();
        let mut rank_of_id = vec![0u16; ids.last().map_or(0, |&id| id as usize + 1)];
        for (rank, &id) in ids.iter().enumerate() {
            rank_of_id[id as usize] = rank as u16;
        }
        let index = |left: u32, right: u32| {
            usize::from(rank_of_id[left as usize]) << 8 | usize::from(rank_of_id[right as usize])
        };

        let stretches = self.arena.stretches(self.threads);
        let (arena, lengths) = (&self.arena, &*self.tokens.lengths);
        let parts = in_parts(stretches.clone(), |stretch| {
            let mut counts = vec![BytePair::default(); 1 << 16];
            arena.for_each_pair(stretch, lengths, |place, left, right| {
                let pair = &mut counts[index(left, right)];
                pair.weight += arena.weight(place);
                pair.places += 1;
            });
            counts
        });

        let mut candidates = Vec::new();
        for (rank, &left) in ids.iter().enumerate() {
            for (other, &right) in ids.iter().enumerate() {
                let at = rank << 8 | other;
                let count: u64 = parts.iter().map(|part| part[at].weight).sum();
                if count >= self.floor {
                    let places: u32 = parts.iter().map(|part| part[at].places).sum();
                    candidates.push((
                        CandidatePair {
                            count,
                            pair: pair_of(left, right),
                        },
                        places,
                    ));
                }
            }
        }
        let indexed = self.keep_first(candidates, Cutoff::at(self.floor));

        let mut cursors: Vec<Vec<u32>> = vec![vec![NOT_KEPT; 1 << 16]; parts.len()];
        for entry in self.table.iter() {
            let at = index((entry.pair >> 32) as u32, entry.pair as u32);
            let mut start = entry.start;
            for (part, cursors) in parts.iter().zip(&mut cursors) {
                cursors[at] = start;
                start += part[at].places;
            }
        }
        let (arena, lengths, pool) = (&self.arena, &*self.tokens.lengths, &self.pool);
        in_parts(
            stretches.into_iter().zip(cursors).collect(),
            |(stretch, mut cursors)| {
                arena.for_each_pair(stretch, lengths, |place, left, right| {
                    let cursor = &mut cursors[index(left, right)];
                    if *cursor != NOT_KEPT {
                        pool.set(*cursor, place);
                        *cursor += 1;
                    }
                });
            },
        );
        self.refill_heap();
        indexed
    }
}
