//! Alerts: when a verdict is worth interrupting somebody for, and when that is over.
//!
//! `rules.rs` has the thresholds, `latch.rs` keeps one alarm from flapping, `watchman.rs` holds all alarms of a run
//! and turns verdicts of the [`crate::lookout`] into alerts, `wording.rs` says them.
//! Who is told, and how, is the recorder's business.

mod latch;
mod rules;
mod watchman;
mod wording;

pub use rules::{AlertRules, RulesError};
pub use watchman::Watchman;

#[cfg(test)]
mod watchman_tests;
