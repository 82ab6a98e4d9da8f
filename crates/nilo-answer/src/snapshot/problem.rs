//! Questions that a snapshot cannot answer, although it can be read.

/// Why a snapshot has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SnapshotProblem {
    /// The history was never recorded.
    #[error("the snapshot has no events: the memory history was not recorded")]
    NoEvents,
    /// The events have no call stacks.
    #[error("the snapshot has no call stacks")]
    NoStacks,
    /// Nothing happened between the two ends that were asked for.
    #[error("no events in this range: the trace of GPU {device} has {events} events{duration}")]
    EmptyRange {
        /// The device's ordinal.
        device: usize,
        /// Its events.
        events: usize,
        /// How long they took, in words.
        duration: String,
    },
    /// The snapshot has no events of this device.
    #[error("the snapshot has no events of GPU {device}, only of {present}")]
    NoSuchDevice {
        /// The device that was asked for.
        device: usize,
        /// Those that are there.
        present: String,
    },
}

impl SnapshotProblem {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoEvents => {
                "call torch.cuda.memory._record_memory_history() before the allocations, and _dump_snapshot() after them"
            }
            Self::NoStacks => {
                "record them with torch.cuda.memory._record_memory_history(context=\"all\"); `nilo snapshot summary` and `whatif` do without"
            }
            Self::EmptyRange { .. } => {
                "--from and --to are seconds since the first event (1.5, 200ms), or numbers of events (1200ev)"
            }
            Self::NoSuchDevice { .. } => "name one that it has, or leave --device out",
        }
    }
}
