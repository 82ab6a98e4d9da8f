//! The whole curve of memory against time: for every budget the plan that takes least time.

use thiserror::Error;

use crate::chain::BlockChain;
use crate::least_memory::{keep_all, least_memory};
use crate::plan::{CheckpointPlan, Nesting, PlanShape, PlanUnit};
use crate::replay::replay;
use crate::slots::Slots;
use crate::table::TimeTable;

/// How a curve is solved.
#[derive(Debug, Clone, Copy)]
pub struct CurveSettings {
    /// Most slots that memory is divided into: more are more exact and take more time.
    pub slots: usize,
    /// Which plans there may be.
    pub shape: PlanShape,
}

impl Default for CurveSettings {
    fn default() -> CurveSettings {
        CurveSettings {
            slots: 500,
            shape: PlanShape::default(),
        }
    }
}

/// Of the table, in numbers of 8 bytes, half of which are used: long chains have fewer slots.
const MOST_CELLS: usize = 1 << 26;

/// The best plans of a chain, from the least memory to the least time.
#[derive(Debug, Clone)]
pub struct MemoryTimeCurve {
    plans: Vec<CheckpointPlan>,
}

/// No plan fits into a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the budget of {budget_bytes} bytes is below the least that any checkpoint plan needs, {minimum_bytes} bytes"
)]
pub struct BudgetError {
    /// The budget.
    pub budget_bytes: u64,
    /// The least budget that can be met.
    pub minimum_bytes: u64,
}

impl MemoryTimeCurve {
    /// Finds the best plan of every budget in one go.
    ///
    /// Sizes are rounded up to slots, so a plan never takes more than its budget and may be a little slower than the best.
    /// The plan of the least memory is exact.
    pub fn solve(chain: &BlockChain, settings: CurveSettings) -> MemoryTimeCurve {
        let everything_kept = judged(chain, keep_all(0, chain.len() - 1));
        let kept_peak = everything_kept.peak_bytes - chain.input_bytes();
        let most = settings.slots.min(MOST_CELLS / (chain.len() * chain.len()));
        let slots = Slots::choose(chain, most, kept_peak);
        let mut plans = vec![everything_kept];
        // Rounding is another for nested and flat plans, and the flat ones cost little to find.
        for nesting in [Nesting::Never, settings.shape.nesting] {
            let shape = PlanShape {
                nesting,
                ..settings.shape
            };
            plans.push(judged(chain, least_memory(chain, shape)));
            for slots in [Some(slots), slots.finer()].into_iter().flatten() {
                plans.extend(
                    best_plans(&TimeTable::fill(chain, shape, slots), slots)
                        .map(|units| judged(chain, units)),
                );
            }
        }
        MemoryTimeCurve {
            plans: without_beaten(plans),
        }
    }

    /// All plans: each takes more memory and less time than the one before.
    pub fn plans(&self) -> &[CheckpointPlan] {
        &self.plans
    }

    /// The least memory that any plan needs.
    pub fn minimum_bytes(&self) -> u64 {
        self.plans[0].peak_bytes
    }

    /// The quickest plan whose peak is at most `budget_bytes`, the input of the chain included.
    pub fn plan_for(&self, budget_bytes: u64) -> Result<&CheckpointPlan, BudgetError> {
        let fitting = self
            .plans
            .partition_point(|plan| plan.peak_bytes <= budget_bytes);
        match fitting {
            0 => Err(BudgetError {
                budget_bytes,
                minimum_bytes: self.minimum_bytes(),
            }),
            _ => Ok(&self.plans[fitting - 1]),
        }
    }
}

/// The plan of each number of slots at which it becomes quicker.
fn best_plans(table: &TimeTable<'_>, slots: Slots) -> impl Iterator<Item = Vec<PlanUnit>> {
    let mut latest_secs = f64::INFINITY;
    (0..=slots.count).filter_map(move |count| {
        let secs = table.whole_secs(count);
        let better = secs < latest_secs;
        latest_secs = latest_secs.min(secs);
        better.then(|| table.whole_plan(count))
    })
}

fn judged(chain: &BlockChain, units: Vec<PlanUnit>) -> CheckpointPlan {
    let cost = replay(chain, &units);
    CheckpointPlan {
        units,
        peak_bytes: cost.peak_bytes,
        step_secs: cost.step_secs,
        recompute_secs: cost.recompute_secs,
    }
}

/// Sorted by memory, without plans that another beats in both.
fn without_beaten(mut plans: Vec<CheckpointPlan>) -> Vec<CheckpointPlan> {
    plans.sort_by(|a, b| {
        a.peak_bytes
            .cmp(&b.peak_bytes)
            .then(a.step_secs.total_cmp(&b.step_secs))
    });
    let mut least_secs = f64::INFINITY;
    plans.retain(|plan| {
        let better = plan.step_secs < least_secs;
        if better {
            least_secs = plan.step_secs;
        }
        better
    });
    plans
}
