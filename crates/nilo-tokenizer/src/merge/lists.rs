//! The places of one pair, gone through by several threads at once.

use std::ops::Range;

use super::merger::Merger;
use super::pair_table::PairEntry;
use super::replace::{Merging, Neighbours};
use super::slot::SymbolSlot;
use super::threads::in_parts;

/// Lists shorter than this are not worth a second thread.
const LONG_LIST: u32 = 16_384;

impl<S: SymbolSlot> Merger<S> {
    /// Cuts a long list for the threads, where two places are so far apart that no thread sees what another one changes.
    pub(super) fn cut(&self, entry: PairEntry, merging: Merging) -> Vec<Range<u32>> {
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

    pub(super) fn replace(&mut self, lists: &[Range<u32>], merging: Merging) -> Vec<Range<u32>> {
        let (arena, pool) = (&self.arena, &self.pool);
        let parts = self
            .neighbours
            .iter_mut()
            .zip(lists.iter().cloned())
            .collect();
        in_parts(
            parts,
            |(neighbours, list): (&mut Neighbours, Range<u32>)| {
                list.start..list.start + neighbours.replace(arena, pool, list.clone(), merging)
            },
        )
    }

    pub(super) fn note_places(&mut self, lists: Vec<Range<u32>>, merging: Merging) {
        let (arena, pool, lengths) = (&self.arena, &self.pool, &*self.tokens.lengths);
        let parts = self.neighbours.iter_mut().zip(lists).collect();
        in_parts(parts, |(neighbours, list): (&mut Neighbours, _)| {
            neighbours.note_places(arena, pool, list, merging, lengths);
        });
    }

    pub(super) fn clear_neighbours(&mut self) {
        for neighbours in &mut self.neighbours {
            neighbours.clear();
        }
    }
}
