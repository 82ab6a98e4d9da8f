//! Alerts: when a verdict is worth interrupting somebody for, and when that is over.
//!
//! `rules.rs` has the thresholds, `latch.rs` keeps one alarm from flapping, `evaluator.rs` holds all alarms of a run
//! and turns verdicts of the [`crate::tracking`] into alerts, `wording.rs` says them.
//! Who is told, and how, is the recorder's business.

mod evaluator;
mod gpu_failure;
mod latch;
mod rules;
mod wording;

pub use evaluator::{AlertEvaluator, risk_of};
pub use gpu_failure::GpuFailureAlerts;
pub use rules::{AlertRules, RulesError};

#[cfg(test)]
mod evaluator_tests;
