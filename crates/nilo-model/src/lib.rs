//! The memory of a model before it runs: how much it takes, and which blocks to checkpoint so that training fits a budget at the least extra time.
//!
//! `config` and [`catalogue`] say what a model is, [`family`] what its layers compute, [`dry_run`] what that allocates, [`mod@estimate`] what it comes to on one of the [`gpus`].
//!
//! For checkpoint plans a model is a chain of blocks, each with measured or estimated sizes and times ([`BlockChain`]).
//! [`MemoryTimeCurve::solve`] finds the best plan for every budget at once; [`fn@replay`] runs a plan step by step and says what it really takes.

pub mod catalogue;
pub mod chain;
pub mod config;
pub mod curve;
pub mod dry_run;
pub mod estimate;
pub mod family;
pub mod gpus;
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
