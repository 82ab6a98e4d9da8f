//! What the kernel counts for a process and its children: `getrusage`, `wait4`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Resources that were used up to an end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// CPU time in user mode.
    pub user_nanos: u64,
    /// CPU time in the kernel.
    pub system_nanos: u64,
    /// Page faults served without reading from storage.
    pub minor_faults: u64,
    /// Page faults that had to read from storage.
    pub major_faults: u64,
    /// Times that it waited for something.
    pub voluntary_switches: u64,
    /// Times that its processor was taken away.
    pub involuntary_switches: u64,
    /// Bytes read from storage; the kernel counts blocks of 512.
    pub read_bytes: u64,
    /// Bytes written to storage, likewise.
    pub written_bytes: u64,
}

impl ResourceUsage {
    /// CPU time in all.
    pub fn cpu_nanos(&self) -> u64 {
        self.user_nanos + self.system_nanos
    }
}
