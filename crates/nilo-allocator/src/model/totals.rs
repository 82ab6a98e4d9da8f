//! What torch counts too: bytes by kind with their peaks, and the calls to the driver.

/// What the allocator asked of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverAction {
    /// A segment was taken.
    SegmentAlloc,
    /// A segment was given back.
    SegmentFree,
    /// Pages were mapped into an expandable segment.
    SegmentMap,
    /// Pages of an expandable segment were unmapped.
    SegmentUnmap,
}

/// One call to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverCall {
    /// What was asked.
    pub action: DriverAction,
    /// Where.
    pub address: u64,
    /// How many bytes.
    pub size: u64,
    /// For which stream.
    pub stream: u64,
}

/// Bytes at a moment, and the most there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryTotals {
    /// In blocks the program has.
    pub allocated_bytes: u64,
    /// In blocks the program or another stream has.
    pub active_bytes: u64,
    /// What the program asked for, of active blocks.
    pub requested_bytes: u64,
    /// In segments.
    pub reserved_bytes: u64,
    /// The most bytes allocated.
    pub peak_allocated_bytes: u64,
    /// The most bytes active.
    pub peak_active_bytes: u64,
    /// The most bytes requested.
    pub peak_requested_bytes: u64,
    /// The most bytes reserved.
    pub peak_reserved_bytes: u64,
    /// Allocations that needed all cached segments released first.
    pub retries: u64,
    /// Allocations that failed.
    pub ooms: u64,
}

impl MemoryTotals {
    pub(crate) fn allocate(&mut self, block_bytes: u64, requested: u64) {
        self.allocated_bytes = self.allocated_bytes.saturating_add(block_bytes);
        self.active_bytes = self.active_bytes.saturating_add(block_bytes);
        self.requested_bytes = self.requested_bytes.saturating_add(requested);
        self.peak_allocated_bytes = self.peak_allocated_bytes.max(self.allocated_bytes);
        self.peak_active_bytes = self.peak_active_bytes.max(self.active_bytes);
        self.peak_requested_bytes = self.peak_requested_bytes.max(self.requested_bytes);
    }

    pub(crate) fn reserve(&mut self, bytes: u64) {
        self.reserved_bytes += bytes;
        self.peak_reserved_bytes = self.peak_reserved_bytes.max(self.reserved_bytes);
    }
}
