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
    /// The most of that limit that was used: by the tree, or where a cgroup sets it by all that is charged to that.
    pub limit_used_bytes: Option<f64>,
    /// Growth that does not end or that ended in running out of memory, in bytes a second; 0 where it was looked for and there was none, absent where nobody could tell.
    pub leak_bytes_per_second: Option<f64>,
    /// What grows, as `nilo leak` names it: `job memory`, `/dev/shm`, `GPU 0`.
    pub leak_resource: Option<String>,
    /// Whether it is called a leak; what ended too soon for that is growth that led there.
    pub leak_established: Option<bool>,
    /// Whether most of that growth is shared memory: shared mappings, or files in `/dev/shm` or another tmpfs.
    pub leak_in_shared_memory: Option<bool>,
    /// Whether that growth came so early that it may be loading.
    pub leak_may_be_loading: Option<bool>,
    /// The limit of what grows, where its forecast is about one.
    pub leak_limit_bytes: Option<f64>,
    /// Seconds from the end of the recording until that growth reaches the limit, as it is forecast; absent where there is no confidence in it.
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
