//! The benchmark of verdicts: forecasts of running out of memory and findings of leaks, scored on traces whose outcome
//! is known.
//!
//! [`shapes`] draws traces from seeds and [`recorded`] reads those of real jobs; a [`predictor`] sees their points one by one; [`score`] compares what it said with
//! what happened; [`contest`] does so for all of [`ours`] and the [`baselines`], and [`tables`] shows it.

pub mod baselines;
pub mod contest;
pub mod deadlines;
pub mod dump;
pub mod goals;
pub mod leak_tables;
pub mod loads;
pub mod machine;
pub mod ours;
pub mod page;
pub mod predictor;
pub mod random;
pub mod recorded;
pub mod run;
pub mod sampling;
pub mod score;
pub mod seeds;
pub mod settings;
pub mod shapes;
mod sketch;
mod surroundings;
pub mod table;
pub mod tables;
pub mod trace;
pub mod workloads;
