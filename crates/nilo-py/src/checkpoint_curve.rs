//! Checkpoint plans: the native half of `nilometer.optimize.checkpoints`.
//!
//! A plan is a list of units: the number of a kept block, or `(first, last, units inside)` of a checkpointed segment.

use nilo_model::{
    BlockChain, ChainBlock, CurveSettings, MemoryTimeCurve, Nesting, PlanShape, PlanUnit, replay,
};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::errors::value_error;

/// Forward and backward seconds; bytes of the output, of what is kept, of the passes' temporaries (forward, keeping forward, backward).
type BlockFigures = (f64, f64, u64, u64, u64, u64, u64);

/// The best plans of a chain of blocks, from the least memory to the least time.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct CheckpointCurve {
    chain: BlockChain,
    curve: MemoryTimeCurve,
}

#[pymethods]
impl CheckpointCurve {
    #[new]
    #[pyo3(signature = (input_bytes, blocks, *, slots=500, nested=true, longest_segment=None))]
    fn new(
        py: Python<'_>,
        input_bytes: u64,
        blocks: Vec<BlockFigures>,
        slots: usize,
        nested: bool,
        longest_segment: Option<usize>,
    ) -> PyResult<CheckpointCurve> {
        let blocks = blocks.into_iter().map(chain_block).collect();
        let chain =
            BlockChain::new(input_bytes, blocks).map_err(|error| value_error(error.to_string()))?;
        if slots == 0 {
            return Err(value_error("slots is 0; it must be positive"));
        }
        if longest_segment == Some(0) {
            return Err(value_error("longest_segment is 0; it must be positive"));
        }
        let shape = PlanShape {
            nesting: match nested {
                true => Nesting::Allowed,
                false => Nesting::Never,
            },
            longest_segment: longest_segment.unwrap_or(usize::MAX),
        };
        let curve = py.detach(|| MemoryTimeCurve::solve(&chain, CurveSettings { slots, shape }));
        Ok(CheckpointCurve { chain, curve })
    }

    /// The least memory that any plan needs.
    #[getter]
    fn minimum_bytes(&self) -> u64 {
        self.curve.minimum_bytes()
    }

    /// Peak bytes, seconds of a step and of recomputation, for each plan of the curve.
    #[getter]
    fn points(&self) -> Vec<(u64, f64, f64)> {
        let point = |plan: &nilo_model::CheckpointPlan| {
            (plan.peak_bytes, plan.step_secs, plan.recompute_secs)
        };
        self.curve.plans().iter().map(point).collect()
    }

    /// The quickest plan within a budget, with its peak, its seconds and those of recomputation.
    fn plan<'py>(
        &self,
        py: Python<'py>,
        budget_bytes: u64,
    ) -> PyResult<(Bound<'py, PyList>, u64, f64, f64)> {
        let plan = self
            .curve
            .plan_for(budget_bytes)
            .map_err(|error| value_error(error.to_string()))?;
        let units = as_python(py, &plan.units)?;
        Ok((units, plan.peak_bytes, plan.step_secs, plan.recompute_secs))
    }

    /// Peak, seconds and seconds of recomputation of any plan for this chain.
    fn replay(&self, units: &Bound<'_, PyAny>) -> PyResult<(u64, f64, f64)> {
        let units = from_python(units, 0, self.chain.len() - 1)?;
        let cost = replay(&self.chain, &units);
        Ok((cost.peak_bytes, cost.step_secs, cost.recompute_secs))
    }
}

fn chain_block(figures: BlockFigures) -> ChainBlock {
    let (forward_secs, backward_secs, output, saved, pass, keep, backward) = figures;
    ChainBlock {
        forward_secs,
        backward_secs,
        output_bytes: output,
        saved_bytes: saved,
        forward_temp_bytes: pass,
        keep_temp_bytes: keep,
        backward_temp_bytes: backward,
    }
}

fn as_python<'py>(py: Python<'py>, units: &[PlanUnit]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for unit in units {
        match unit {
            PlanUnit::Keep { block } => list.append(*block)?,
            PlanUnit::Checkpoint {
                first,
                last,
                inside,
            } => list.append((*first, *last, as_python(py, inside)?))?,
        }
    }
    Ok(list)
}

/// Units that cover the blocks `first..=last` in order, or an error that says where they do not.
fn from_python(units: &Bound<'_, PyAny>, first: usize, last: usize) -> PyResult<Vec<PlanUnit>> {
    let mut found = Vec::new();
    let mut next = first;
    for unit in units.try_iter()? {
        let unit = unit?;
        let unit = match unit.cast::<PyTuple>() {
            Err(_) => PlanUnit::Keep {
                block: unit.extract()?,
            },
            Ok(segment) => {
                let (start, end, inside): (usize, usize, Bound<'_, PyAny>) = segment.extract()?;
                if start != next || end < start || end > last {
                    return Err(value_error(format!(
                        "the segment from block {start} to block {end} does not follow block {next} of {first} to {last}"
                    )));
                }
                PlanUnit::Checkpoint {
                    first: start,
                    last: end,
                    inside: from_python(&inside, start, end)?,
                }
            }
        };
        let (start, end) = unit.range();
        if start != next || end > last {
            return Err(value_error(format!(
                "block {start} of the plan stands where block {next} of {first} to {last} is due"
            )));
        }
        next = end + 1;
        found.push(unit);
    }
    match next > last {
        true => Ok(found),
        false => Err(value_error(format!("the plan lacks block {next}"))),
    }
}
