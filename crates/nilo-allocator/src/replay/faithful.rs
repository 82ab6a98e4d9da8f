//! Replays a trace under the settings it was recorded with, and compares the calls to the driver one by one.

use super::requests::RequestPlayer;
use crate::model::{
    AllocatorSettings, CachingAllocator, DriverAction, DriverCall, MemoryTotals, SegmentAddresses,
};
use crate::snapshot::{BlockUse, GpuSnapshot, TraceAction, TraceRow};
use crate::usage::TraceStart;

/// How far the model and the record agree.
#[derive(Debug, Clone, PartialEq)]
pub struct FaithfulReplay {
    /// The calls to the driver in the record.
    pub recorded_calls: Vec<DriverCall>,
    /// Those of the model.
    pub replayed_calls: Vec<DriverCall>,
    /// Allocations that the model put elsewhere than torch.
    pub misplaced_blocks: usize,
    /// Whether the model ends in exactly the recorded segments and blocks.
    pub same_segments: bool,
    /// The model's bytes and peaks, which are torch's own where the replay is exact.
    pub totals: MemoryTotals,
}

impl FaithfulReplay {
    /// Whether every call, every address and the last segments agree.
    pub fn is_exact(&self) -> bool {
        self.recorded_calls == self.replayed_calls
            && self.misplaced_blocks == 0
            && self.same_segments
    }
}

/// Replays the trace of a device. `settings` are those of the record; a limit in them is left to the record.
pub fn replay_faithfully(
    snapshot: &GpuSnapshot,
    device: usize,
    settings: &AllocatorSettings,
) -> FaithfulReplay {
    // The record says when cached segments were given back, so the limit that made torch do it need not be known.
    let settings = AllocatorSettings {
        allowed_bytes: None,
        device_bytes: None,
        ..settings.clone()
    };
    let releases_one_by_one =
        settings.max_split_bytes.is_some() || settings.garbage_collection_threshold > 0.0;
    let mut player = RequestPlayer::new(snapshot, device);
    let rows = player.rows();
    let recorded_calls = recorded_calls(snapshot, device);
    let addresses = SegmentAddresses::recorded(&recorded_calls);
    let mut allocator = CachingAllocator::new(settings, addresses);
    player.start(TraceStart::of(snapshot, device), &mut allocator);
    let mut calls_seen = 0;
    for index in rows {
        let row = player.row(index);
        match row.action {
            TraceAction::SegmentFree if releases_one_by_one => {
                allocator.release_at(row.address);
            }
            TraceAction::SegmentFree | TraceAction::SegmentUnmap
                if allocator.driver_calls().len() <= calls_seen =>
            {
                allocator.release_cached();
            }
            _ => player.play(index, &mut allocator),
        }
        calls_seen += usize::from(driver_call(snapshot, row).is_some());
    }
    FaithfulReplay {
        same_segments: same_segments(snapshot, device, &player, &allocator),
        misplaced_blocks: player.misplaced + player.failed_rows.len(),
        replayed_calls: allocator.driver_calls().to_vec(),
        recorded_calls,
        totals: allocator.totals(),
    }
}

/// The calls to the driver in the trace of a device.
pub(crate) fn recorded_calls(snapshot: &GpuSnapshot, device: usize) -> Vec<DriverCall> {
    snapshot
        .trace(device)
        .filter_map(|index| driver_call(snapshot, snapshot.events.row(index)))
        .collect()
}

fn driver_call(snapshot: &GpuSnapshot, row: TraceRow) -> Option<DriverCall> {
    let action = match row.action {
        TraceAction::SegmentAlloc => DriverAction::SegmentAlloc,
        TraceAction::SegmentFree => DriverAction::SegmentFree,
        TraceAction::SegmentMap => DriverAction::SegmentMap,
        TraceAction::SegmentUnmap => DriverAction::SegmentUnmap,
        _ => return None,
    };
    let stream = snapshot.streams.get(row.stream).unwrap_or(0);
    Some(DriverCall {
        action,
        address: row.address,
        size: row.size,
        stream,
    })
}

/// Compares the blocks at the end: address, size, use.
fn same_segments(
    snapshot: &GpuSnapshot,
    device: usize,
    player: &RequestPlayer<'_>,
    allocator: &CachingAllocator,
) -> bool {
    let mut recorded: Vec<(u64, u64, bool)> = Vec::new();
    for segment in snapshot
        .segments
        .iter()
        .filter(|segment| segment.device == device)
    {
        recorded.extend(
            snapshot
                .blocks_of(segment)
                .iter()
                .map(|block| (block.address, block.size, block.usage != BlockUse::Inactive)),
        );
    }
    let mut replayed: Vec<(u64, u64, bool)> = player
        .held()
        .chain(allocator.free_blocks())
        .map(|index| allocator.view(index))
        .map(|view| (view.address, view.size, view.active))
        .collect();
    recorded.sort_unstable();
    replayed.sort_unstable();
    recorded == replayed
}
