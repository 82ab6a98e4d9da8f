//! The trace of the allocator, in columns: 37 bytes an event.

use super::keys;

/// What the allocator did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TraceAction {
    /// A block was handed to the program. The size is the one asked for.
    Alloc,
    /// The program gave a block back; another stream may still use it.
    FreeRequested,
    /// The block can be handed out again.
    FreeCompleted,
    /// A segment was taken from the driver.
    SegmentAlloc,
    /// A segment was given back to the driver.
    SegmentFree,
    /// Pages were mapped into an expandable segment.
    SegmentMap,
    /// Pages of an expandable segment were unmapped.
    SegmentUnmap,
    /// A snapshot was taken.
    Snapshot,
    /// An allocation failed. The address is the device's free memory in bytes, the size the rounded one.
    Oom,
    /// Anything else, such as annotations.
    Other,
}

impl TraceAction {
    pub(crate) fn from_text(text: u32) -> Self {
        match text {
            keys::ACTION_ALLOC => Self::Alloc,
            keys::ACTION_FREE_REQUESTED => Self::FreeRequested,
            keys::ACTION_FREE_COMPLETED => Self::FreeCompleted,
            keys::ACTION_SEGMENT_ALLOC => Self::SegmentAlloc,
            keys::ACTION_SEGMENT_FREE => Self::SegmentFree,
            keys::ACTION_SEGMENT_MAP => Self::SegmentMap,
            keys::ACTION_SEGMENT_UNMAP => Self::SegmentUnmap,
            keys::ACTION_SNAPSHOT => Self::Snapshot,
            keys::ACTION_OOM => Self::Oom,
            _ => Self::Other,
        }
    }
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRow {
    /// What happened.
    pub action: TraceAction,
    /// Where, or the device's free bytes of [`TraceAction::Oom`].
    pub address: u64,
    /// How many bytes.
    pub size: u64,
    /// The stream, by number.
    pub stream: u16,
    /// The memory pool, by number.
    pub pool: u16,
    /// Microseconds since 1970; 0 where the file does not say.
    pub time_micros: u64,
    /// The call stack, by number.
    pub stack: u32,
    /// What the program attached to it, a text of the snapshot.
    pub metadata: u32,
}

/// Events, column by column.
#[derive(Debug, Default)]
pub struct TraceColumns {
    actions: Vec<TraceAction>,
    addresses: Vec<u64>,
    sizes: Vec<u64>,
    streams: Vec<u16>,
    pools: Vec<u16>,
    times: Vec<u64>,
    stacks: Vec<u32>,
    metadata: Vec<u32>,
}

impl TraceColumns {
    pub(crate) fn push(&mut self, row: TraceRow) {
        self.actions.push(row.action);
        self.addresses.push(row.address);
        self.sizes.push(row.size);
        self.streams.push(row.stream);
        self.pools.push(row.pool);
        self.times.push(row.time_micros);
        self.stacks.push(row.stack);
        self.metadata.push(row.metadata);
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// One event; `index` must be below [`TraceColumns::len`].
    pub fn row(&self, index: usize) -> TraceRow {
        TraceRow {
            action: self.actions[index],
            address: self.addresses[index],
            size: self.sizes[index],
            stream: self.streams[index],
            pool: self.pools[index],
            time_micros: self.times[index],
            stack: self.stacks[index],
            metadata: self.metadata[index],
        }
    }

    /// When an event happened, in microseconds since 1970; 0 where the file does not say.
    pub fn time_micros(&self, index: usize) -> u64 {
        self.times[index]
    }

    /// What happened, of all events.
    pub fn actions(&self) -> &[TraceAction] {
        &self.actions
    }
}
