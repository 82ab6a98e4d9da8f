//! How a program ran out of memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of a program that ran out of memory; all of it is absent where it did not.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct OutOfMemoryFacts {
    /// What happened, as `nilo oom` says it: `it ran out of memory after 78 seconds: the kernel killed train.py (PID 4711); limit 900 MiB`.
    pub happened: Option<String>,
    /// Whether it was a GPU's memory.
    pub on_gpu: Option<bool>,
    /// The most that was held; of a cgroup's limit, what was charged to the cgroup.
    pub peak_bytes: Option<f64>,
    /// The limit that was reached, where the kernel names one.
    pub limit_bytes: Option<f64>,
    /// The limit of a process's own that refused memory: `RLIMIT_AS` or `RLIMIT_DATA`. It counts addresses, touched or not.
    pub refused_by: Option<String>,
    /// The growth that led there, in words: `job memory leaked 330 MiB/min, 380 MiB in 47 seconds, until memory ran out`.
    pub growth: Option<String>,
    /// What to do first about a GPU that ran out, where its cause is known and is not that the step is too large.
    pub gpu_advice: Option<String>,
    /// ... and what else.
    pub gpu_further_advice: Option<String>,
    /// What `nilo request` asks for after this run.
    pub request_bytes: Option<f64>,
}
