//! Memory of the process tree.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Memory of the process tree, and of the C heap of the program.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// The most that the tree held.
    pub peak_bytes: Option<f64>,
    /// The limit that it runs under.
    pub limit_bytes: Option<f64>,
    /// Growth that does not end, in bytes a second; absent where none was established.
    pub leak_bytes_per_second: Option<f64>,
    /// Whether that growth came so early that it may be loading.
    pub leak_may_be_loading: Option<bool>,
    /// Seconds from the end of the recording until that growth reaches the limit, as it is forecast.
    pub leak_limit_seconds: Option<f64>,
    /// The share of forecasts like this that come true, 0 to 1.
    pub leak_limit_confidence: Option<f64>,
    /// Resident memory of the program when its heap was looked at.
    pub rss_bytes: Option<f64>,
    /// Bytes of the C heap that are in use (`mallinfo2`).
    pub heap_live_bytes: Option<f64>,
    /// Bytes that the C heap holds without using them.
    pub heap_free_bytes: Option<f64>,
    /// What `malloc_trim` gave back when it was called.
    pub trimmed_bytes: Option<f64>,
    /// Share of the trimmed memory that was taken again since.
    pub regrown_ratio: Option<f64>,
}
