//! Who a process is: identity that survives PID reuse, and the name that people recognise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process, told apart from later ones with the same PID by its start time.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
pub struct ProcessId {
    /// The PID as seen by the recorder.
    pub pid: u32,
    /// Start time in the kernel's own unit (clock ticks since boot on Linux, seconds since 1970 elsewhere).
    pub start_ticks: u64,
}

/// What is known of a process besides numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Parent PID when first seen.
    pub parent: u32,
    /// Short name that people recognise, such as `python train.py`.
    pub name: String,
    /// The command line, arguments separated by spaces, possibly shortened.
    pub command: String,
    /// The arguments one by one, as secrets are told from what follows them; never stored.
    #[serde(skip)]
    pub arguments: Vec<String>,
    /// Working directory, where it may be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Owner's numeric user id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Its rank in a distributed job, where its environment says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}
