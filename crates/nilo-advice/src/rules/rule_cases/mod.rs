//! For every rule, facts on which it speaks, and facts near them on which it is silent.

mod batch;
mod buffers;
mod collector;
mod host;
mod loader;
mod model;
mod torch;

use serde_json::Value;

/// One rule.
pub(in crate::rules) struct RuleCase {
    pub(in crate::rules) rule: &'static str,
    /// It speaks on these.
    pub(in crate::rules) facts: Value,
    /// What its evidence and its change say.
    pub(in crate::rules) says: &'static [&'static str],
    /// What it is expected to save: bytes and share. Nothing where it prevents an error.
    pub(in crate::rules) saves: Option<(Option<f64>, Option<f64>)>,
    /// With each of these changes it is silent.
    pub(in crate::rules) silent: Vec<Value>,
}

const MIB: f64 = (1u64 << 20) as f64;
const GIB: f64 = (1u64 << 30) as f64;

pub(in crate::rules) fn rule_cases() -> Vec<RuleCase> {
    [
        collector::cases(),
        buffers::cases(),
        loader::cases(),
        host::cases(),
        torch::cases(),
        model::cases(),
        batch::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
