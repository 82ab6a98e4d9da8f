//! Allocations that were never recorded on a GPU, such as those of an estimate, through the allocator model.

use std::collections::HashMap;

use crate::model::{AllocatorSettings, CachingAllocator, ModelOutOfMemory, SegmentAddresses};

/// One event of a tape, by the number that its writer gave the allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapeEvent {
    /// So many bytes are asked for.
    Allocate {
        /// The allocation.
        id: u64,
        /// What the program asks for, before rounding.
        bytes: u64,
    },
    /// The program gives an allocation back.
    Free {
        /// The allocation.
        id: u64,
    },
}

/// A tape that no program could have made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TapeError {
    /// A number was used while its allocation stood.
    #[error("event {event} allocates {id}, which was not freed yet")]
    AllocatedTwice {
        /// Where in the tape.
        event: usize,
        /// Which allocation.
        id: u64,
    },
    /// Something was freed that was not there.
    #[error("event {event} frees {id}, which is not allocated")]
    NotAllocated {
        /// Where in the tape.
        event: usize,
        /// Which allocation.
        id: u64,
    },
    /// Sizes of which one is beyond any GPU; no tape was made.
    #[error("a tensor would have {bytes} bytes, which is more than any GPU has")]
    TooLarge {
        /// What it would have.
        bytes: u128,
    },
    /// The limit of the settings was reached.
    #[error("event {event}: {reason}")]
    OutOfMemory {
        /// Where in the tape.
        event: usize,
        /// What was asked and what was there.
        reason: ModelOutOfMemory,
    },
}

/// What the allocator held at most, and when it first did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TapePeaks {
    /// In blocks that the program had.
    pub allocated_bytes: u64,
    /// The event that led there.
    pub allocated_at: usize,
    /// In segments.
    pub reserved_bytes: u64,
    /// The event that led there.
    pub reserved_at: usize,
}

/// Sends a tape through an allocator that has reserved nothing yet.
pub fn replay_tape(
    events: impl IntoIterator<Item = TapeEvent>,
    settings: AllocatorSettings,
) -> Result<TapePeaks, TapeError> {
    let mut allocator = CachingAllocator::new(settings, SegmentAddresses::default());
    let mut standing = HashMap::new();
    let mut peaks = TapePeaks::default();
    for (event, what) in events.into_iter().enumerate() {
        match what {
            TapeEvent::Allocate { id, bytes } => {
                let block = allocator
                    .allocate(bytes, 0, 0)
                    .map_err(|reason| TapeError::OutOfMemory { event, reason })?;
                if standing.insert(id, block).is_some() {
                    return Err(TapeError::AllocatedTwice { event, id });
                }
                let totals = allocator.totals();
                if totals.allocated_bytes > peaks.allocated_bytes {
                    (peaks.allocated_bytes, peaks.allocated_at) = (totals.allocated_bytes, event);
                }
                if totals.reserved_bytes > peaks.reserved_bytes {
                    (peaks.reserved_bytes, peaks.reserved_at) = (totals.reserved_bytes, event);
                }
            }
            TapeEvent::Free { id } => {
                let Some(block) = standing.remove(&id) else {
                    return Err(TapeError::NotAllocated { event, id });
                };
                allocator.request_free(block);
                allocator.complete_free(block);
            }
        }
    }
    Ok(peaks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn allocate(id: u64, bytes: u64) -> TapeEvent {
        TapeEvent::Allocate { id, bytes }
    }

    fn free(id: u64) -> TapeEvent {
        TapeEvent::Free { id }
    }

    #[test]
    fn peaks_are_those_of_blocks_and_segments() {
        let tape = [
            allocate(1, 100),
            allocate(2, 12 * MIB),
            free(2),
            allocate(3, 11 * MIB + MIB / 2),
            free(1),
            allocate(2, 20 * MIB),
        ];
        let peaks = replay_tape(tape, AllocatorSettings::default()).unwrap();
        // The block of 12 MiB is not split for half a MiB less, so the third allocation has all of it.
        assert_eq!(peaks.allocated_bytes, 32 * MIB);
        assert_eq!(peaks.allocated_at, 5);
        assert_eq!(peaks.reserved_bytes, 34 * MIB);
        assert_eq!(peaks.reserved_at, 5);
    }

    #[test]
    fn an_impossible_tape_is_refused() {
        let replay = |tape: &[TapeEvent]| {
            replay_tape(tape.iter().copied(), AllocatorSettings::default()).unwrap_err()
        };
        let twice = [allocate(1, 1), allocate(1, 1)];
        assert_eq!(
            replay(&twice),
            TapeError::AllocatedTwice { event: 1, id: 1 }
        );
        let unknown = [allocate(1, 1), free(2)];
        assert_eq!(
            replay(&unknown),
            TapeError::NotAllocated { event: 1, id: 2 }
        );
        let limited = AllocatorSettings {
            allowed_bytes: Some(10 * MIB),
            ..AllocatorSettings::default()
        };
        let error = replay_tape([allocate(1, MIB), allocate(2, 40 * MIB)], limited).unwrap_err();
        assert!(
            matches!(error, TapeError::OutOfMemory { event, .. } if event <= 1),
            "{error}"
        );
    }
}
