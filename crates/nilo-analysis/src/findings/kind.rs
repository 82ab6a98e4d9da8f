//! What a finding is about.

use schemars::JsonSchema;
use serde::Serialize;

/// The kind of a finding. New ones may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// Forked workers made copies of what they shared with their parent.
    CopyOnWrite,
    /// A GPU allocator's reserve grows and what is allocated in it does not.
    Fragmentation,
    /// Allocations on a GPU failed, and the program went on.
    GpuAllocationFailed,
    /// An allocation on a GPU failed and ended the program.
    GpuOutOfMemory,
    /// Memory grew, and it is too early to call it a leak.
    Growth,
    /// Memory grew and was never given back.
    Leak,
    /// What programs logged could not be stored.
    LostMetrics,
    /// Samples of memory could not be stored.
    LostSamples,
    /// Memory was not recorded to the end of the run.
    MemoryEndsEarly,
    /// Programs on the machine waited for memory.
    MemoryPressure,
    /// The peak came near the limit.
    NearMiss,
    /// Somebody else on the machine took its memory.
    Neighbour,
    /// The kernel killed a process for lack of memory.
    OomKill,
    /// Memory was about to run out.
    OomRisk,
    /// An allocation of host memory failed and ended the program.
    OutOfMemory,
    /// The recorder died before the run was over.
    RecorderDied,
    /// `/dev/shm` filled.
    SharedMemory,
    /// The machine's swap filled while the job ran.
    Swap,
}

impl FindingKind {
    /// As it is written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            FindingKind::CopyOnWrite => "copy-on-write",
            FindingKind::Fragmentation => "fragmentation",
            FindingKind::GpuAllocationFailed => "gpu-allocation-failed",
            FindingKind::GpuOutOfMemory => "gpu-out-of-memory",
            FindingKind::Growth => "growth",
            FindingKind::Leak => "leak",
            FindingKind::LostMetrics => "lost-metrics",
            FindingKind::LostSamples => "lost-samples",
            FindingKind::MemoryEndsEarly => "memory-ends-early",
            FindingKind::MemoryPressure => "memory-pressure",
            FindingKind::NearMiss => "near-miss",
            FindingKind::Neighbour => "neighbour",
            FindingKind::OomKill => "oom-kill",
            FindingKind::OomRisk => "oom-risk",
            FindingKind::OutOfMemory => "out-of-memory",
            FindingKind::RecorderDied => "recorder-died",
            FindingKind::SharedMemory => "shared-memory",
            FindingKind::Swap => "swap",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FindingKind::*;

    #[test]
    fn its_name_is_that_in_json() {
        let all = [
            CopyOnWrite,
            Fragmentation,
            GpuAllocationFailed,
            GpuOutOfMemory,
            Growth,
            Leak,
            LostMetrics,
            LostSamples,
            MemoryEndsEarly,
            MemoryPressure,
            NearMiss,
            Neighbour,
            OomKill,
            OomRisk,
            OutOfMemory,
            RecorderDied,
            SharedMemory,
            Swap,
        ];
        for kind in all {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
