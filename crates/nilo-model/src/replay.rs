//! Runs a plan step by step with a ledger of what is held, without knowing how the plan was found.
//!
//! This is what a plan means: the tables of the planner are judged by it.

use crate::chain::BlockChain;
use crate::plan::PlanUnit;

/// What a plan takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanCost {
    /// Most memory held at a time, the input of the chain included.
    pub peak_bytes: u64,
    /// Time of forward and backward pass, recomputation included.
    pub step_secs: f64,
    /// Time of all forward passes beyond the first of each block.
    pub recompute_secs: f64,
}

/// Runs `units`, which cover the chain in order.
///
/// The gradient of the chain's last output is counted from the beginning: right for a segment that is computed again, cautious for the whole chain.
pub fn replay(chain: &BlockChain, units: &[PlanUnit]) -> PlanCost {
    let mut ledger = Ledger {
        chain,
        held: 0,
        peak: 0,
        step_secs: 0.0,
        forward_secs: 0.0,
    };
    ledger.hold(chain.input_bytes());
    ledger.hold(chain.block(chain.len() - 1).output_bytes);
    ledger.run(units);
    let once: f64 = chain.blocks().iter().map(|block| block.forward_secs).sum();
    PlanCost {
        peak_bytes: ledger.peak,
        step_secs: ledger.step_secs,
        recompute_secs: (ledger.forward_secs - once).max(0.0),
    }
}

struct Ledger<'chain> {
    chain: &'chain BlockChain,
    held: u64,
    peak: u64,
    step_secs: f64,
    forward_secs: f64,
}

impl Ledger<'_> {
    /// Forward and backward through the units.
    /// Their input and the gradient of their last output are held by the caller; the gradient of the input is held afterwards instead.
    fn run(&mut self, units: &[PlanUnit]) {
        for unit in units {
            self.forward(unit);
        }
        let Some(last) = units.last() else { return };
        self.release(self.chain.block(last.range().1).output_bytes);
        for (number, unit) in units.iter().enumerate().rev() {
            self.backward(unit);
            if number > 0 {
                self.release(self.chain.input_of(unit.range().0));
            }
        }
    }

    /// The input of the unit stays held, its output is held afterwards.
    fn forward(&mut self, unit: &PlanUnit) {
        match unit {
            PlanUnit::Keep { block } => {
                let costs = *self.chain.block(*block);
                self.hold(costs.saved_bytes + costs.output_bytes);
                self.touch(costs.keep_temp_bytes);
                self.spend_forward(*block);
            }
            PlanUnit::Checkpoint { first, last, .. } => {
                for block in *first..=*last {
                    let costs = *self.chain.block(block);
                    self.hold(costs.output_bytes);
                    self.touch(costs.forward_temp_bytes);
                    if block > *first {
                        self.release(self.chain.input_of(block));
                    }
                    self.spend_forward(block);
                }
            }
        }
    }

    /// The gradient of the unit's output becomes that of its input.
    fn backward(&mut self, unit: &PlanUnit) {
        match unit {
            PlanUnit::Keep { block } => {
                let costs = *self.chain.block(*block);
                self.touch(self.chain.backward_temp(*block));
                self.step_secs += costs.backward_secs;
                self.release(costs.saved_bytes + costs.output_bytes);
                self.hold(self.chain.input_of(*block));
            }
            PlanUnit::Checkpoint { inside, .. } => self.run(inside),
        }
    }

    fn spend_forward(&mut self, block: usize) {
        let secs = self.chain.block(block).forward_secs;
        self.step_secs += secs;
        self.forward_secs += secs;
    }

    fn hold(&mut self, bytes: u64) {
        self.held += bytes;
        self.peak = self.peak.max(self.held);
    }

    fn touch(&mut self, bytes: u64) {
        self.peak = self.peak.max(self.held + bytes);
    }

    fn release(&mut self, bytes: u64) {
        self.held -= bytes;
    }
}
