//! The same requests under other settings: how much would have been reserved, and would it have run out of memory.

use super::faithful::recorded_calls;
use super::requests::RequestPlayer;
use crate::model::{AllocatorSettings, CachingAllocator, SegmentAddresses};
use crate::snapshot::{GpuSnapshot, MOST_DEVICE_BYTES, TraceAction};
use crate::usage::TraceStart;

/// What a replay came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhatIfOutcome {
    /// The most bytes reserved.
    pub peak_reserved_bytes: u64,
    /// The most bytes in allocated blocks.
    pub peak_allocated_bytes: u64,
    /// The bytes reserved at the end.
    pub final_reserved_bytes: u64,
    /// Allocations that needed all cached segments released first.
    pub retries: u64,
    /// Recorded OOM events whose request the replay could serve.
    pub avoided_ooms: Vec<usize>,
    /// Recorded OOM events that happen in the replay too.
    pub remaining_ooms: Vec<usize>,
    /// Recorded allocations that the replay could not serve.
    pub new_ooms: Vec<usize>,
    /// Whether the trace begins late. What was alive then is where it was, but laid out anew for expandable segments.
    pub starts_late: bool,
}

/// Replays the requests of a device under these settings, which hold the limits too.
pub fn replay_under(
    snapshot: &GpuSnapshot,
    device: usize,
    settings: &AllocatorSettings,
) -> WhatIfOutcome {
    let start = TraceStart::of(snapshot, device);
    let mut player = RequestPlayer::new(snapshot, device);
    // Ties are broken by address: the same segments lie where they lay.
    let addresses = SegmentAddresses::recorded(&recorded_calls(snapshot, device));
    let mut allocator = CachingAllocator::new(settings.clone(), addresses);
    let starts_late = !start.is_empty();
    player.start(start, &mut allocator);
    let (mut avoided_ooms, mut remaining_ooms) = (Vec::new(), Vec::new());
    for index in player.rows() {
        let row = player.row(index);
        if row.action != TraceAction::Oom {
            player.play(index, &mut allocator);
            continue;
        }
        // What no device has no setting serves.
        if row.size >= MOST_DEVICE_BYTES {
            remaining_ooms.push(index);
            continue;
        }
        match player.allocate(row, &mut allocator) {
            Ok(block) => {
                avoided_ooms.push(index);
                // Nobody knows how long the program would have kept it.
                allocator.request_free(block);
                allocator.complete_free(block);
            }
            Err(_) => remaining_ooms.push(index),
        }
    }
    let totals = allocator.totals();
    WhatIfOutcome {
        peak_reserved_bytes: totals.peak_reserved_bytes,
        peak_allocated_bytes: totals.peak_allocated_bytes,
        final_reserved_bytes: totals.reserved_bytes,
        retries: totals.retries,
        avoided_ooms,
        remaining_ooms,
        new_ooms: player.failed_rows,
        starts_late,
    }
}
