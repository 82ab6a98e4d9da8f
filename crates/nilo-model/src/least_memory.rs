//! The plan of the least memory, exact in bytes: below it nothing can be planned.

use crate::chain::BlockChain;
use crate::plan::{Nesting, PlanShape, PlanUnit};

/// Memory of every stretch `first..=last` when all of its blocks are kept, its input left out.
pub(crate) fn kept_peaks(chain: &BlockChain) -> Triangle<u64> {
    let mut peaks = Triangle::new(chain.len(), 0);
    for last in 0..chain.len() {
        for first in (0..=last).rev() {
            let mut peak = chain
                .keep_forward_need(first, last)
                .max(chain.backward_need(first));
            if first < last {
                peak = peak.max(chain.kept_bytes(first) + *peaks.at(first + 1, last));
            }
            *peaks.at_mut(first, last) = peak;
        }
    }
    peaks
}

/// The units of the plan with the smallest peak; of two equal ones the one that takes less time.
pub(crate) fn least_memory(chain: &BlockChain, shape: PlanShape) -> Vec<PlanUnit> {
    let kept = kept_peaks(chain);
    let mut best = Triangle::new(chain.len(), Choice::NONE);
    for last in 0..chain.len() {
        for first in (0..=last).rev() {
            *best.at_mut(first, last) = choose(chain, shape, &kept, &best, first, last);
        }
    }
    units(shape, &best, 0, chain.len() - 1)
}

/// The best start of a stretch: keep its first block, or checkpoint up to a block.
#[derive(Clone, Copy)]
struct Choice {
    peak: u64,
    secs: f64,
    checkpoint_up_to: Option<usize>,
}

impl Choice {
    const NONE: Choice = Choice {
        peak: u64::MAX,
        secs: f64::INFINITY,
        checkpoint_up_to: None,
    };

    fn beats(&self, other: &Choice) -> bool {
        (self.peak, self.secs) < (other.peak, other.secs)
    }
}

fn choose(
    chain: &BlockChain,
    shape: PlanShape,
    kept: &Triangle<u64>,
    best: &Triangle<Choice>,
    first: usize,
    last: usize,
) -> Choice {
    let block = chain.block(first);
    let mut found = Choice {
        peak: chain
            .keep_forward_need(first, last)
            .max(chain.backward_need(first)),
        secs: block.forward_secs + block.backward_secs,
        checkpoint_up_to: None,
    };
    if first < last {
        let rest = best.at(first + 1, last);
        found.peak = found.peak.max(chain.kept_bytes(first) + rest.peak);
        found.secs += rest.secs;
    }
    let mut pass_need = 0;
    let mut pass_secs = 0.0;
    let mut backward_secs = 0.0;
    for end in shape.segment_ends(first, last) {
        pass_need = pass_need.max(chain.pass_need(end, first));
        pass_secs += chain.block(end).forward_secs;
        backward_secs += chain.block(end).backward_secs;
        let rest = best.at(end + 1, last);
        let (again_peak, again_secs) = match shape.nesting {
            Nesting::Allowed => (best.at(first, end).peak, best.at(first, end).secs),
            Nesting::Never => (*kept.at(first, end), pass_secs + backward_secs),
        };
        let option = Choice {
            peak: (chain.block(last).output_bytes + pass_need)
                .max(chain.block(end).output_bytes + rest.peak)
                .max(again_peak),
            secs: pass_secs + rest.secs + again_secs,
            checkpoint_up_to: Some(end),
        };
        if option.beats(&found) {
            found = option;
        }
    }
    found
}

fn units(shape: PlanShape, best: &Triangle<Choice>, first: usize, last: usize) -> Vec<PlanUnit> {
    let mut found = Vec::new();
    let mut start = first;
    while start <= last {
        match best.at(start, last).checkpoint_up_to {
            None => {
                found.push(PlanUnit::Keep { block: start });
                start += 1;
            }
            Some(end) => {
                let inside = match shape.nesting {
                    Nesting::Allowed => units(shape, best, start, end),
                    Nesting::Never => keep_all(start, end),
                };
                found.push(PlanUnit::Checkpoint {
                    first: start,
                    last: end,
                    inside,
                });
                start = end + 1;
            }
        }
    }
    found
}

/// Every block of a stretch kept.
pub(crate) fn keep_all(first: usize, last: usize) -> Vec<PlanUnit> {
    (first..=last)
        .map(|block| PlanUnit::Keep { block })
        .collect()
}

/// A value for every stretch `first..=last` of a chain.
pub(crate) struct Triangle<T> {
    side: usize,
    cells: Vec<T>,
}

impl<T: Clone> Triangle<T> {
    pub(crate) fn new(side: usize, value: T) -> Triangle<T> {
        Triangle {
            side,
            cells: vec![value; side * side],
        }
    }

    pub(crate) fn at(&self, first: usize, last: usize) -> &T {
        &self.cells[first * self.side + last]
    }

    pub(crate) fn at_mut(&mut self, first: usize, last: usize) -> &mut T {
        &mut self.cells[first * self.side + last]
    }
}
