//! How much of the step waits for data: on the rank that waits longest, since all others wait for that one.

use std::collections::BTreeSet;

use crate::bottleneck::{Bottleneck, StepPart, TimedPhase, find_bottleneck};
use crate::phases::PhaseSummary;

/// Share of the step, where it is worth a word; `first` is the bottleneck of the rank that speaks for all.
pub(super) fn share_that_waits(phases: &[PhaseSummary], first: Option<&Bottleneck>) -> Option<f64> {
    let ranks: BTreeSet<u32> = phases
        .iter()
        .flat_map(|phase| phase.ranks.iter().map(|own| own.rank))
        .collect();
    let share = |slow: &Bottleneck| (slow.part == StepPart::Data).then_some(slow.share_ratio);
    let of_ranks = ranks
        .into_iter()
        .filter_map(|rank| share(&bottleneck_of(phases, rank)?));
    of_ranks.chain(first.and_then(share)).reduce(f64::max)
}

fn bottleneck_of(phases: &[PhaseSummary], rank: u32) -> Option<Bottleneck> {
    find_bottleneck(phases.iter().filter_map(|phase| {
        let own = phase.ranks.iter().find(|own| own.rank == rank)?;
        Some(TimedPhase {
            name: &phase.name,
            total_secs: own.total_secs,
            count: own.represented_count,
        })
    }))
}
