//! Batches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The batch in use and what is known of others.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchFacts {
    /// Samples that go through the model at once.
    pub micro_batch: Option<u64>,
    /// Micro-batches of one optimizer step.
    pub accumulation: Option<u64>,
    /// The largest micro-batch that fits, predicted and verified.
    pub largest_micro_batch: Option<u64>,
    /// The largest micro-batch that a step was measured with; where it is not told, the one in use.
    pub measured_micro_batch: Option<u64>,
    /// The largest micro-batch that the settings allow (`max_batch_size`).
    pub max_micro_batch: Option<u64>,
    /// The smallest micro-batch that ran out of memory where none below it was allowed.
    pub failed_micro_batch: Option<u64>,
    /// Samples of the dataset.
    pub dataset_samples: Option<u64>,
    /// What a step may hold.
    pub budget_bytes: Option<f64>,
    /// Bytes of one more sample.
    pub bytes_per_sample: Option<f64>,
    /// Out-of-memory errors that were recovered from.
    pub recovered_ooms: Option<u64>,
}
