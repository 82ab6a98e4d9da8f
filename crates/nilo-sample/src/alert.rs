//! An alert: a threshold was passed, a leak was found, memory is about to run out; or that is over.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is being warned of.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum AlertKind {
    /// The job's or the machine's memory passed the first threshold.
    MemoryWarning,
    /// The job's or the machine's memory passed the second threshold.
    MemoryCritical,
    /// A GPU's memory passed the first threshold.
    GpuMemoryWarning,
    /// A GPU's memory passed the second threshold.
    GpuMemoryCritical,
    /// What is held grows and does not stop.
    MemoryLeak,
    /// Memory is likely to run out soon.
    OomRisk,
    /// An allocation on a GPU failed, and nobody caught the exception.
    GpuOutOfMemory,
    /// Something that a later version knows.
    #[serde(other)]
    Unknown,
}

impl AlertKind {
    /// As it is written in JSON and in warnings.
    pub fn as_str(self) -> &'static str {
        match self {
            AlertKind::MemoryWarning => "memory-warning",
            AlertKind::MemoryCritical => "memory-critical",
            AlertKind::GpuMemoryWarning => "gpu-memory-warning",
            AlertKind::GpuMemoryCritical => "gpu-memory-critical",
            AlertKind::MemoryLeak => "memory-leak",
            AlertKind::OomRisk => "oom-risk",
            AlertKind::GpuOutOfMemory => "gpu-out-of-memory",
            AlertKind::Unknown => "unknown",
        }
    }
}

/// How serious it is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// It is over.
    Info,
    /// Worth a look.
    Warning,
    /// The job is in danger.
    Critical,
}

impl Severity {
    /// As it is written in JSON and in warnings.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// An alert, raised or cleared. Figures that are not known are absent.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Alert {
    /// What is being warned of.
    pub kind: AlertKind,
    /// How serious it is; `info` when it is cleared.
    pub severity: Severity,
    /// What it is about: `job memory`, `host memory`, `/dev/shm`, `GPU 0`, `PyTorch on GPU 0 (python-4711)`.
    pub resource: String,
    /// False: what was raised before is over.
    pub raised: bool,
    /// Nanoseconds since the run began.
    pub time_nanos: u64,
    /// One sentence.
    pub text: String,
    /// What counts against the limit and cannot be given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// The limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// The first in percent of the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<f64>,
    /// Growth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_sec: Option<f64>,
    /// Seconds until it runs out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<f64>,
    /// The true time lies above this ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left_low: Option<f64>,
    /// ... and below this in four of five cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left_high: Option<f64>,
    /// How often a forecast like this comes true, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// What can be done about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recommendations: Vec<String>,
}
