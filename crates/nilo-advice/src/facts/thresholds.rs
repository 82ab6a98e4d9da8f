//! What the user allows the program.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Budgets of a configuration; nothing of it is measured.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct ThresholdFacts {
    /// The most memory that the process tree may hold.
    pub host_budget_bytes: Option<f64>,
    /// Share of it from which on it is a warning.
    pub warning_ratio: Option<f64>,
    /// Share of it from which on it is critical.
    pub critical_ratio: Option<f64>,
    /// Share of a GPU's memory from which on it is a warning.
    pub gpu_warning_ratio: Option<f64>,
    /// Share of a GPU's memory from which on it is critical.
    pub gpu_critical_ratio: Option<f64>,
    /// The most memory of one buffer.
    pub buffer_limit_bytes: Option<f64>,
}
