//! The memory of a model before it runs: which blocks to checkpoint so that training fits a budget at the least extra time.
//!
//! A model is a chain of blocks, each with measured or estimated sizes and times ([`BlockChain`]).
//! [`MemoryTimeCurve::solve`] finds the best checkpoint plan for every budget at once; [`replay`] runs a plan step by step and says what it really takes.

pub mod chain;
pub mod curve;
mod least_memory;
pub mod plan;
pub mod replay;
mod slots;
mod table;

#[cfg(test)]
mod brute_force;

pub use chain::{BlockChain, ChainBlock, ChainError};
pub use curve::{BudgetError, CurveSettings, MemoryTimeCurve};
pub use plan::{CheckpointPlan, Nesting, PlanShape, PlanUnit};
pub use replay::{PlanCost, replay};
