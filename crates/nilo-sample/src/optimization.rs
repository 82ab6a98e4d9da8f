//! An optimization that was tried on a program, with what was measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One change, measured before and after in the same program.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Optimization {
    /// What was changed, such as `checkpoint plan`.
    pub name: String,
    /// Whether it stayed.
    pub applied: bool,
    /// The memory that it is about, before; of what, `measured` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_bytes: Option<f64>,
    /// The same after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_bytes: Option<f64>,
    /// Time of a step before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_seconds: Option<f64>,
    /// Time of a step after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seconds: Option<f64>,
    /// What was measured, such as `peak of a step, CUDA allocator`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub measured: String,
    /// Why it was taken back or not tried, or what else is to be said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Optimization {
    /// Memory that it saved by measurement; negative where it cost some.
    pub fn saved_bytes(&self) -> Option<f64> {
        Some(self.before_bytes? - self.after_bytes?)
    }
}
