//! The planner against all plans there are, on chains small enough to try them all.

use proptest::prelude::*;

use crate::chain::{BlockChain, ChainBlock, ChainError};
use crate::curve::{BudgetError, CurveSettings, MemoryTimeCurve};
use crate::plan::{Nesting, PlanShape, PlanUnit};
use crate::replay::replay;

/// Every plan of a stretch, useless ones included: a checkpoint up to the end, a checkpoint of one block inside another.
/// Only a checkpoint of exactly the same blocks as the one around it is left out, as there would be no end of it.
fn every_plan(first: usize, last: usize, nesting: Nesting, is_inside: bool) -> Vec<Vec<PlanUnit>> {
    let mut found = Vec::new();
    for end in first..=last {
        let rests = match end == last {
            true => vec![Vec::new()],
            false => every_plan(end + 1, last, nesting, false),
        };
        for start in every_start(first, end, nesting, is_inside && end == last) {
            for rest in &rests {
                let mut plan = vec![start.clone()];
                plan.extend(rest.iter().cloned());
                found.push(plan);
            }
        }
    }
    found
}

fn every_start(first: usize, end: usize, nesting: Nesting, is_same: bool) -> Vec<PlanUnit> {
    let mut found = Vec::new();
    if first == end {
        found.push(PlanUnit::Keep { block: first });
    }
    if is_same {
        return found;
    }
    let insides = match nesting {
        Nesting::Allowed => every_plan(first, end, nesting, true),
        Nesting::Never => vec![
            (first..=end)
                .map(|block| PlanUnit::Keep { block })
                .collect(),
        ],
    };
    found.extend(insides.into_iter().map(|inside| PlanUnit::Checkpoint {
        first,
        last: end,
        inside,
    }));
    found
}

fn longest(units: &[PlanUnit]) -> usize {
    let length = |unit: &PlanUnit| match unit {
        PlanUnit::Keep { .. } => 0,
        PlanUnit::Checkpoint {
            first,
            last,
            inside,
        } => (last - first + 1).max(longest(inside)),
    };
    units.iter().map(length).max().unwrap_or(0)
}

/// For every budget that makes a difference, the curve has the quickest of all plans; sizes are small, so nothing is rounded.
fn check_against_all(chain: &BlockChain, nesting: Nesting) {
    check_segments_up_to(chain, nesting, usize::MAX);
}

fn check_segments_up_to(chain: &BlockChain, nesting: Nesting, longest_segment: usize) {
    let shape = PlanShape {
        nesting,
        longest_segment,
    };
    let curve = MemoryTimeCurve::solve(chain, CurveSettings { slots: 4000, shape });
    let mut costs: Vec<_> = every_plan(0, chain.len() - 1, nesting, false)
        .iter()
        .filter(|plan| longest(plan) <= longest_segment)
        .map(|plan| replay(chain, plan))
        .collect();
    costs.sort_by_key(|cost| cost.peak_bytes);
    let minimum = costs[0].peak_bytes;
    assert_eq!(curve.minimum_bytes(), minimum);
    let refused = BudgetError {
        budget_bytes: minimum.saturating_sub(1),
        minimum_bytes: minimum,
    };
    if minimum > 0 {
        assert_eq!(curve.plan_for(minimum - 1), Err(refused));
    }
    let mut quickest = f64::INFINITY;
    for (number, cost) in costs.iter().enumerate() {
        quickest = quickest.min(cost.step_secs);
        if costs.get(number + 1).map(|next| next.peak_bytes) == Some(cost.peak_bytes) {
            continue;
        }
        let plan = curve.plan_for(cost.peak_bytes).expect("above the minimum");
        assert!(plan.peak_bytes <= cost.peak_bytes);
        assert_eq!(plan.step_secs, quickest, "budget {}", cost.peak_bytes);
    }
}

fn some_block() -> impl Strategy<Value = ChainBlock> {
    (
        0u64..9,
        0u64..40,
        0u64..20,
        0u64..6,
        0u64..30,
        0u32..9,
        0u32..20,
    )
        .prop_map(
            |(output, saved, pass, keep, backward, forward_secs, backward_secs)| ChainBlock {
                forward_secs: forward_secs.into(),
                backward_secs: backward_secs.into(),
                output_bytes: output,
                saved_bytes: saved,
                forward_temp_bytes: pass,
                keep_temp_bytes: keep,
                backward_temp_bytes: backward,
            },
        )
}

fn some_chain(most: usize) -> impl Strategy<Value = BlockChain> {
    let blocks = proptest::collection::vec(some_block(), 1..=most);
    (0u64..9, blocks).prop_map(|(input, blocks)| BlockChain::new(input, blocks).expect("valid"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_plan_of_a_short_chain_beats_the_curve(chain in some_chain(5)) {
        check_against_all(&chain, Nesting::Allowed);
    }

    #[test]
    fn no_flat_plan_beats_the_curve_without_nesting(chain in some_chain(7)) {
        check_against_all(&chain, Nesting::Never);
    }

    #[test]
    fn no_plan_of_short_segments_beats_the_curve(chain in some_chain(5), longest in 1usize..4) {
        check_segments_up_to(&chain, Nesting::Allowed, longest);
        check_segments_up_to(&chain, Nesting::Never, longest);
    }

    #[test]
    fn a_plan_never_takes_more_than_its_budget(chain in some_chain(12), slots in 1usize..40, budget in 0u64..400) {
        let curve = MemoryTimeCurve::solve(&chain, CurveSettings { slots, ..CurveSettings::default() });
        match curve.plan_for(budget) {
            Ok(plan) => prop_assert!(replay(&chain, &plan.units).peak_bytes <= budget),
            Err(refused) => prop_assert!(budget < refused.minimum_bytes),
        }
    }

    #[test]
    fn a_plan_covers_every_block_once(chain in some_chain(12), slots in 1usize..40) {
        let curve = MemoryTimeCurve::solve(&chain, CurveSettings { slots, ..CurveSettings::default() });
        for plan in curve.plans() {
            prop_assert_eq!(kept_blocks(&plan.units), (0..chain.len()).collect::<Vec<_>>());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn no_plan_of_seven_blocks_beats_the_curve(blocks in proptest::collection::vec(some_block(), 7)) {
        check_against_all(&BlockChain::new(3, blocks).expect("valid"), Nesting::Allowed);
    }
}

fn kept_blocks(units: &[PlanUnit]) -> Vec<usize> {
    let inside = |unit: &PlanUnit| match unit {
        PlanUnit::Keep { block } => vec![*block],
        PlanUnit::Checkpoint { inside, .. } => kept_blocks(inside),
    };
    units.iter().flat_map(inside).collect()
}

fn with_nesting(slots: usize, nesting: Nesting) -> CurveSettings {
    let shape = PlanShape {
        nesting,
        ..PlanShape::default()
    };
    CurveSettings { slots, shape }
}

fn equal_blocks(count: usize) -> BlockChain {
    let block = ChainBlock {
        forward_secs: 1.0,
        backward_secs: 2.0,
        output_bytes: 10,
        saved_bytes: 150,
        ..ChainBlock::default()
    };
    BlockChain::new(10, vec![block; count]).expect("valid")
}

#[test]
fn all_plans_are_tried() {
    let count = |blocks: usize, nesting| every_plan(0, blocks - 1, nesting, false).len();
    assert_eq!(count(1, Nesting::Allowed), 2);
    assert_eq!(count(2, Nesting::Allowed), 8);
    assert_eq!(count(3, Nesting::Allowed), 48);
    assert_eq!(count(7, Nesting::Allowed), 231_168);
    assert_eq!(count(3, Nesting::Never), 13);
}

#[test]
fn enough_memory_keeps_everything() {
    let curve = MemoryTimeCurve::solve(&equal_blocks(12), CurveSettings::default());
    let plan = curve.plan_for(u64::MAX).expect("everything fits");
    assert!(plan.units.iter().all(|unit| unit.depth() == 0));
    assert_eq!(plan.step_secs, 36.0);
    assert_eq!(plan.recompute_secs, 0.0);
    // Twelve blocks of 160, their input, and a gradient at the first backward pass.
    assert_eq!(plan.peak_bytes, 12 * 160 + 10 + 10);
}

#[test]
fn half_of_the_memory_costs_less_than_computing_everything_twice() {
    let chain = equal_blocks(24);
    let curve = MemoryTimeCurve::solve(&chain, CurveSettings::default());
    let all = curve.plan_for(u64::MAX).expect("everything fits");
    let half = curve.plan_for(all.peak_bytes / 2).expect("half fits");
    // Each of about half of the blocks runs forward once more.
    assert!(half.recompute_secs > 0.0 && half.recompute_secs <= 13.0);
    assert_eq!(half.step_secs, all.step_secs + half.recompute_secs);
}

#[test]
fn below_the_flat_minimum_checkpoints_are_nested() {
    let chain = equal_blocks(24);
    let flat = MemoryTimeCurve::solve(&chain, with_nesting(500, Nesting::Never));
    let nested = MemoryTimeCurve::solve(&chain, CurveSettings::default());
    assert!(nested.minimum_bytes() < flat.minimum_bytes());
    let plan = nested
        .plan_for(flat.minimum_bytes() - 1)
        .expect("nested plans fit");
    assert!(plan.units.iter().any(|unit| unit.depth() > 1));
    assert!(
        flat.plans()
            .iter()
            .flat_map(|plan| &plan.units)
            .all(|unit| unit.depth() <= 1)
    );
}

#[test]
fn rounding_never_makes_nested_plans_slower_than_flat_ones() {
    // Coarse slots beside blocks of few slots: rounding up block by block would cost more than nesting saves.
    let blocks = (0..24u32).map(|number| ChainBlock {
        forward_secs: 50.0 + f64::from(number * 37 % 100),
        backward_secs: 2.0 * (50.0 + f64::from(number * 37 % 100)),
        output_bytes: 1 << 20,
        saved_bytes: u64::from(8 + number * 29 % 17) << 20,
        ..ChainBlock::default()
    });
    let chain = BlockChain::new(1 << 20, blocks.collect()).expect("valid");
    for slots in [100, 250, 500] {
        let solve = |nesting| MemoryTimeCurve::solve(&chain, with_nesting(slots, nesting));
        let (flat, nested) = (solve(Nesting::Never), solve(Nesting::Allowed));
        for plan in flat.plans() {
            let rival = nested.plan_for(plan.peak_bytes).expect("fits");
            assert!(
                rival.step_secs <= 1.001 * plan.step_secs,
                "{slots} slots, {} bytes: {} and {}",
                plan.peak_bytes,
                rival.step_secs,
                plan.step_secs
            );
        }
    }
}

#[test]
fn each_point_of_the_curve_is_quicker_than_the_one_below() {
    let curve = MemoryTimeCurve::solve(&equal_blocks(48), CurveSettings::default());
    assert!(curve.plans().len() > 20);
    for pair in curve.plans().windows(2) {
        assert!(pair[0].peak_bytes < pair[1].peak_bytes);
        assert!(pair[0].step_secs > pair[1].step_secs);
    }
}

#[test]
fn slots_that_divide_equal_blocks_lose_nothing() {
    // A five-hundredth of the peak is a slot that 96 blocks of 5.2 slots would round up by 15 %.
    let coarse = MemoryTimeCurve::solve(&scaled_blocks(96, 1_000_003), CurveSettings::default());
    let exact = CurveSettings {
        slots: 4000,
        ..CurveSettings::default()
    };
    let exact = MemoryTimeCurve::solve(&scaled_blocks(96, 1), exact);
    for share in [0.3, 0.5, 0.7] {
        let extra = |curve: &MemoryTimeCurve| {
            let whole = curve.plans().last().map_or(0, |plan| plan.peak_bytes);
            let budget = (whole as f64 * share) as u64;
            curve.plan_for(budget).expect("fits").recompute_secs
        };
        assert!(
            extra(&coarse) <= 1.05 * extra(&exact),
            "{share}: {} and {}",
            extra(&coarse),
            extra(&exact)
        );
    }
}

/// Equal blocks whose sizes are multiples of `unit`.
fn scaled_blocks(count: usize, unit: u64) -> BlockChain {
    let block = ChainBlock {
        forward_secs: 1.0,
        backward_secs: 2.0,
        output_bytes: unit,
        saved_bytes: 16 * unit,
        ..ChainBlock::default()
    };
    BlockChain::new(unit, vec![block; count]).expect("valid")
}

#[test]
fn chains_that_make_no_sense_are_refused() {
    assert_eq!(
        BlockChain::new(0, Vec::new()).err(),
        Some(ChainError::Empty)
    );
    let endless = ChainBlock {
        forward_secs: f64::NAN,
        ..ChainBlock::default()
    };
    let error = BlockChain::new(0, vec![ChainBlock::default(), endless]).expect_err("no time");
    assert_eq!(
        error.to_string(),
        "block 1: forward_secs is NaN; it must be a finite number and not negative"
    );
    let huge = ChainBlock {
        saved_bytes: u64::MAX,
        ..ChainBlock::default()
    };
    assert_eq!(
        BlockChain::new(0, vec![huge]).err(),
        Some(ChainError::TooLarge)
    );
    let many = vec![ChainBlock::default(); 513];
    assert!(matches!(
        BlockChain::new(0, many),
        Err(ChainError::TooLong { .. })
    ));
}

#[test]
fn a_refusal_names_the_least_budget() {
    let curve = MemoryTimeCurve::solve(&equal_blocks(4), CurveSettings::default());
    let error = curve.plan_for(7).expect_err("far too little");
    assert_eq!(
        error.to_string(),
        format!(
            "the budget of 7 bytes is below the least that any checkpoint plan needs, {} bytes",
            curve.minimum_bytes()
        )
    );
    assert!(curve.plan_for(curve.minimum_bytes()).is_ok());
}
