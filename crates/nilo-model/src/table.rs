//! The dynamic programme: the least time of every stretch of the chain in every number of slots.
//!
//! `least(first, last, slots)` is the time of forward and backward pass of the stretch while its input is held outside of the slots and the gradient of its last output inside.
//! Its first block is kept, and the rest has fewer slots; or it is checkpointed together with its followers up to some block: they run once without keeping anything, the rest has all slots but their output's, and then they are a stretch of their own with all slots.
//! After Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova: "Optimal checkpointing for heterogeneous chains" (2019); best among plans that hold a checkpoint until it is used, which are those that nested calls of `torch.utils.checkpoint` can express.

use crate::chain::BlockChain;
use crate::least_memory::{Triangle, keep_all, kept_peaks};
use crate::plan::{Nesting, PlanShape, PlanUnit};
use crate::slots::Slots;

/// Times of all stretches; infinite where the slots are too few.
pub(crate) struct TimeTable<'chain> {
    chain: &'chain BlockChain,
    shape: PlanShape,
    slots: Slots,
    secs: Triangle<Vec<f64>>,
    kept_slots: Triangle<usize>,
}

/// A start of a stretch, with what decides its time for all numbers of slots.
struct Start {
    /// Fewest slots for this start itself.
    least_slots: usize,
    /// Slots that are taken from the rest.
    taken_slots: usize,
    /// Time of this start itself.
    own_secs: f64,
}

impl<'chain> TimeTable<'chain> {
    pub(crate) fn fill(
        chain: &'chain BlockChain,
        shape: PlanShape,
        slots: Slots,
    ) -> TimeTable<'chain> {
        let peaks = kept_peaks(chain);
        let mut kept_slots = Triangle::new(chain.len(), 0);
        for last in 0..chain.len() {
            for first in 0..=last {
                *kept_slots.at_mut(first, last) = slots.of(*peaks.at(first, last));
            }
        }
        let mut table = TimeTable {
            chain,
            shape,
            slots,
            secs: Triangle::new(chain.len(), Vec::new()),
            kept_slots,
        };
        let whole = chain.len() - 1;
        for last in 0..chain.len() {
            // Without nesting only stretches up to the end of the chain are asked for.
            if shape.nesting == Nesting::Never && last < whole {
                continue;
            }
            for first in (0..=last).rev() {
                *table.secs.at_mut(first, last) = table.row(first, last);
            }
        }
        table
    }

    /// Time of the whole chain in so many slots.
    pub(crate) fn whole_secs(&self, slots: usize) -> f64 {
        self.secs.at(0, self.chain.len() - 1)[slots]
    }

    /// The plan of the whole chain that takes [`Self::whole_secs`].
    pub(crate) fn whole_plan(&self, slots: usize) -> Vec<PlanUnit> {
        self.plan(0, self.chain.len() - 1, slots)
    }

    fn row(&self, first: usize, last: usize) -> Vec<f64> {
        let mut row = vec![f64::INFINITY; self.slots.count + 1];
        let kept_slots = self.slots_to_keep(first, last).min(row.len());
        row[kept_slots..].fill(self.once_secs(first, last));
        if first == last {
            return row;
        }
        let keep = self.keep(first, last);
        let rest = self.secs.at(first + 1, last);
        if let Some(cells) = row.get_mut(keep.least_slots..kept_slots) {
            for (cell, rest) in cells
                .iter_mut()
                .zip(&rest[keep.least_slots - keep.taken_slots..])
            {
                *cell = keep.own_secs + rest;
            }
        }
        for (end, start) in self.checkpoints(first, last) {
            let rest = self.secs.at(end + 1, last);
            let Some(cells) = row.get_mut(start.least_slots..kept_slots) else {
                continue;
            };
            let rest = &rest[start.least_slots - start.taken_slots..];
            match self.shape.nesting {
                Nesting::Allowed => {
                    let again = &self.secs.at(first, end)[start.least_slots..];
                    lower(cells, start.own_secs, rest, again);
                }
                Nesting::Never => {
                    let own_secs = start.own_secs + self.once_secs(first, end);
                    for (cell, rest) in cells.iter_mut().zip(rest) {
                        *cell = cell.min(own_secs + rest);
                    }
                }
            }
        }
        row
    }

    /// With so many slots everything is kept: nothing is quicker, and one rounding is better than one a block.
    /// Not at the end of the chain, where plans would come to keep the last blocks instead of the best ones, as those alone are rounded once.
    fn slots_to_keep(&self, first: usize, last: usize) -> usize {
        match first < last && last + 1 == self.chain.len() {
            true => usize::MAX,
            false => *self.kept_slots.at(first, last),
        }
    }

    fn keep(&self, first: usize, last: usize) -> Start {
        let chain = self.chain;
        let need = chain
            .keep_forward_need(first, last)
            .max(chain.backward_need(first));
        let taken_slots = self.slots.of(chain.kept_bytes(first));
        Start {
            least_slots: self.slots.of(need).max(taken_slots),
            taken_slots,
            own_secs: chain.block(first).forward_secs + chain.block(first).backward_secs,
        }
    }

    /// Every checkpoint that can start the stretch, by its last block.
    fn checkpoints(&self, first: usize, last: usize) -> impl Iterator<Item = (usize, Start)> {
        let chain = self.chain;
        let gradient = chain.block(last).output_bytes;
        let ends = self.shape.segment_ends(first, last);
        ends.scan((0, 0.0), move |(pass_need, own_secs), end| {
            *pass_need = chain.pass_need(end, first).max(*pass_need);
            *own_secs += chain.block(end).forward_secs;
            let taken_slots = self.slots.of(chain.block(end).output_bytes);
            let again = match self.shape.nesting {
                Nesting::Allowed => 0,
                Nesting::Never => *self.kept_slots.at(first, end),
            };
            let start = Start {
                least_slots: self
                    .slots
                    .of(gradient + *pass_need)
                    .max(taken_slots)
                    .max(again),
                taken_slots,
                own_secs: *own_secs,
            };
            Some((end, start))
        })
    }

    /// Forward and backward of a stretch whose blocks are all kept.
    fn once_secs(&self, first: usize, last: usize) -> f64 {
        self.chain.blocks()[first..=last]
            .iter()
            .map(|block| block.forward_secs + block.backward_secs)
            .sum()
    }

    fn plan(&self, first: usize, last: usize, slots: usize) -> Vec<PlanUnit> {
        let mut units = Vec::new();
        let (mut start, mut slots) = (first, slots);
        while start <= last {
            if slots >= self.slots_to_keep(start, last) {
                units.extend(keep_all(start, last));
                break;
            }
            match self.best_checkpoint(start, last, slots) {
                None => {
                    units.push(PlanUnit::Keep { block: start });
                    slots -= self.keep(start, last).taken_slots;
                    start += 1;
                }
                Some((end, taken_slots)) => {
                    let inside = match self.shape.nesting {
                        Nesting::Allowed => self.plan(start, end, slots),
                        Nesting::Never => keep_all(start, end),
                    };
                    units.push(PlanUnit::Checkpoint {
                        first: start,
                        last: end,
                        inside,
                    });
                    slots -= taken_slots;
                    start = end + 1;
                }
            }
        }
        units
    }

    /// The checkpoint that starts the best plan of a stretch: its last block and the slots of its output.
    fn best_checkpoint(&self, first: usize, last: usize, slots: usize) -> Option<(usize, usize)> {
        let keep = self.keep(first, last);
        let mut least = f64::INFINITY;
        if slots >= keep.least_slots {
            least = keep.own_secs + self.secs.at(first + 1, last)[slots - keep.taken_slots];
        }
        let mut found = None;
        for (end, start) in self.checkpoints(first, last) {
            if slots < start.least_slots {
                continue;
            }
            let again = match self.shape.nesting {
                Nesting::Allowed => self.secs.at(first, end)[slots],
                Nesting::Never => self.once_secs(first, end),
            };
            let rest = self.secs.at(end + 1, last)[slots - start.taken_slots];
            let secs = start.own_secs + rest + again;
            if secs < least {
                least = secs;
                found = Some((end, start.taken_slots));
            }
        }
        found
    }
}

/// The innermost loop, over slots: plain slices, so that it becomes vector instructions.
fn lower(cells: &mut [f64], own_secs: f64, rest: &[f64], again: &[f64]) {
    for ((cell, rest), again) in cells.iter_mut().zip(rest).zip(again) {
        let secs = own_secs + rest + again;
        *cell = if secs < *cell { secs } else { *cell };
    }
}
