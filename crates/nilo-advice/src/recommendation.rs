//! What a rule recommends.

use schemars::JsonSchema;
use serde::Serialize;

/// What a recommendation is expected to save.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SavedResource {
    /// Memory of the GPU, or wherever the model lies.
    GpuMemory,
    /// Memory of the machine.
    HostMemory,
    /// Time of a training step.
    StepTime,
    /// The longest pause of the program.
    LongestPause,
}

/// How much is expected to be saved. It is a forecast; what was measured stands in the optimizations of a run.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct Saving {
    /// Of what.
    pub of: SavedResource,
    /// In bytes, where it is memory and can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// As a share of what is in use now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// How sure a rule is that its advice helps here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AdviceConfidence {
    /// It often helps in such a case.
    Low,
    /// What it rests on was measured, its effect here was not.
    Medium,
    /// Its effect follows from what was measured.
    High,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct Recommendation {
    /// The rule's name, such as `checkpoint-blocks`.
    pub rule: &'static str,
    /// What to do, in one sentence.
    pub text: String,
    /// The exact change: code, a setting or a command.
    pub change: String,
    /// The figures that it rests on.
    pub evidence: Vec<String>,
    /// What it is expected to save; absent where it prevents an error instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saving: Option<Saving>,
    /// How sure that is.
    pub confidence: AdviceConfidence,
    /// Where the rule comes from: a measurement of ours, a report, documentation.
    pub source: &'static str,
}
