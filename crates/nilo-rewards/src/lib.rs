//! Rewards of group-based reinforcement learning (GRPO and its relatives) and scores of verifiers, from raw values.
//!
//! Trainers log means over a batch; what decides whether a step teaches anything happens inside a group of answers to one prompt.
//! Everything here is exact over the values kept: no bootstrap, no sampling.
//! Standard deviations are sample deviations (divisor n − 1) unless a name says otherwise.
//! A missing value (NaN) is counted and left out, never taken for zero; so is an infinite one.

pub mod advantages;
pub mod batch;
pub mod components;
pub mod correlation;
pub mod distribution;
pub mod drift;
pub mod history;
pub mod latency;
pub mod lengths;
pub mod levels;
pub mod moments;
pub mod named;
pub mod prompts;
pub mod ranking;
pub mod scores;
pub mod settings;
pub mod sheet;
pub mod signal;
pub mod solving;
pub mod spread;

#[cfg(test)]
mod laws;

pub use batch::{GroupBatch, ShapeError};
pub use distribution::RewardDistribution;
pub use history::RewardHistory;
pub use named::named_metrics;
pub use scores::{ScoreDistribution, ScoreHistory, ScoreSettings};
pub use settings::{AdvantageScale, RewardSettings};
