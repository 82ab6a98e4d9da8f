//! A memory snapshot as `torch.cuda.memory._snapshot()` and the C++ writer store it: segments with their blocks, and one trace of events a device.
//!
//! Events go into columns as they are read; frames, stacks and texts are stored once.

mod builder;
mod events;
mod fields;
mod finish;
mod ids;
mod keys;
mod open;
mod segments;
mod settings;
mod stacks;
mod texts;

pub use events::{TraceAction, TraceColumns, TraceRow};
pub(crate) use fields::MOST_DEVICE_BYTES;
pub use ids::{PoolId, SmallIds};
pub use open::{ReadOptions, SnapshotError};
pub use segments::{BlockUse, GpuBlock, GpuSegment};
pub use settings::RecordedSettings;
pub use stacks::{CallStacks, CodeFrame, NO_STACK};
pub use texts::TextPool;

use std::ops::Range;

/// The events of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTrace {
    /// The device's ordinal.
    pub device: usize,
    /// Its events in [`GpuSnapshot::events`], oldest first.
    pub rows: Range<usize>,
}

/// The beginning or the end of something the program named, such as an optimizer's step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageMark {
    /// Whether it begins.
    pub starts: bool,
    /// Its name, a text of the snapshot.
    pub name: u32,
    /// The device's ordinal.
    pub device: u64,
    /// Microseconds since 1970.
    pub time_micros: u64,
}

/// A whole snapshot.
#[derive(Debug, Default)]
pub struct GpuSnapshot {
    /// The segments when the snapshot was taken, by address within a device.
    pub segments: Vec<GpuSegment>,
    /// The blocks of all segments.
    pub blocks: Vec<GpuBlock>,
    /// The events of all devices.
    pub events: TraceColumns,
    /// Which events belong to which device. Devices without events are left out.
    pub traces: Vec<DeviceTrace>,
    /// Named stages of the program.
    pub stages: Vec<StageMark>,
    /// The allocator's settings, as far as the file tells.
    pub settings: RecordedSettings,
    /// Frames and stacks.
    pub stacks: CallStacks,
    /// The texts that everything else names by number.
    pub texts: TextPool,
    /// The streams that events and segments name by number.
    pub streams: SmallIds<u64>,
    /// The memory pools that events and segments name by number; number 0 is the default pool.
    pub pools: SmallIds<PoolId>,
}

impl GpuSnapshot {
    /// Reads a snapshot file, plain, gzip or zstd.
    pub fn read(bytes: &[u8], options: &ReadOptions) -> Result<Self, SnapshotError> {
        open::read(bytes, options)
    }

    /// The blocks of a segment, by address.
    pub fn blocks_of(&self, segment: &GpuSegment) -> &[GpuBlock] {
        self.blocks.get(segment.blocks.clone()).unwrap_or_default()
    }

    /// The events of a device, oldest first.
    pub fn trace(&self, device: usize) -> Range<usize> {
        self.traces
            .iter()
            .find(|trace| trace.device == device)
            .map_or(0..0, |trace| trace.rows.clone())
    }

    /// The devices that have segments or events, in order.
    pub fn devices(&self) -> Vec<usize> {
        let mut devices: Vec<usize> = self.traces.iter().map(|trace| trace.device).collect();
        devices.extend(self.segments.iter().map(|segment| segment.device));
        devices.sort_unstable();
        devices.dedup();
        devices
    }
}
