//! The benchmark of verdicts: forecasts of running out of memory and findings of leaks, scored on traces whose outcome
//! is known.
//!
//! [`shapes`] draws traces from seeds; a [`predictor`] sees their points one by one.

pub mod baselines;
pub mod ours;
pub mod predictor;
pub mod random;
pub mod sampling;
pub mod score;
pub mod shapes;
mod sketch;
mod surroundings;
pub mod trace;
