//! GPU memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// PyTorch's allocator on the fullest device.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct TorchFacts {
    /// The device's memory, or the part that the process may use.
    pub device_bytes: Option<f64>,
    /// Whether it computes in bfloat16.
    pub has_bfloat16: Option<bool>,
    /// The most memory in tensors.
    pub peak_allocated_bytes: Option<f64>,
    /// The most memory taken from the device.
    pub peak_reserved_bytes: Option<f64>,
    /// Whether `expandable_segments` is set.
    pub expandable_segments: Option<bool>,
    /// How often the allocator ran out, freed its cache and tried again.
    pub allocation_retries: Option<u64>,
    /// Steps over which these were counted.
    pub steps: Option<u64>,
    /// The peak of training steps.
    pub train_peak_bytes: Option<f64>,
    /// The peak of evaluation or generation.
    pub evaluation_peak_bytes: Option<f64>,
    /// Peaks of the ranks, where there are several.
    pub rank_peak_bytes: Vec<f64>,
    /// Bytes of tensors that are still alive one step later than the step before, step after step.
    pub retained_bytes_per_step: Option<f64>,
    /// Tensors with a graph (`grad_fn`) that accumulate in each step.
    pub graph_tensors_per_step: Option<f64>,
    /// Bytes that the graphs of these keep for a backward pass; retained tensors may be among them.
    pub graph_bytes_per_step: Option<f64>,
}
