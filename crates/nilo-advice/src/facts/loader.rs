//! The data loader.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A `torch.utils.data.DataLoader` and the memory of its workers.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct LoaderFacts {
    /// Worker processes.
    pub workers: Option<u64>,
    /// CPUs that the program may use.
    pub cpus: Option<u64>,
    /// Whether workers live on from epoch to epoch.
    pub persistent_workers: Option<bool>,
    /// Batches that each prepares in advance.
    pub prefetch_factor: Option<u64>,
    /// Bytes of one batch.
    pub batch_bytes: Option<f64>,
    /// How workers start: `fork`, `spawn`, `forkserver`.
    pub start_method: Option<String>,
    /// Python objects in the dataset's lists and dicts.
    pub dataset_objects: Option<u64>,
    /// Bytes that a `SharedList` of the dataset would take.
    pub serialized_bytes: Option<f64>,
    /// Private memory that all workers gained since the first batch.
    pub worker_private_growth_bytes: Option<f64>,
    /// The most that forked workers held at one time of copies of what they shared with their parent, as the recording shows it.
    pub copied_bytes: Option<f64>,
    /// Whether batches are pinned.
    pub pin_memory: Option<bool>,
    /// Pinned bytes asked for.
    pub pinned_requested_bytes: Option<f64>,
    /// Pinned bytes taken: PyTorch rounds up to a power of two.
    pub pinned_allocated_bytes: Option<f64>,
    /// Size of `/dev/shm`.
    pub shm_size_bytes: Option<f64>,
    /// Bytes in it at most.
    pub shm_peak_bytes: Option<f64>,
    /// Share of the step that waits for data; of several ranks, on the one that waits longest.
    pub wait_ratio: Option<f64>,
    /// Standard deviation of sample lengths, divided by their mean.
    pub length_variation: Option<f64>,
    /// Share of a batch's tokens that is padding.
    pub padding_ratio: Option<f64>,
}
