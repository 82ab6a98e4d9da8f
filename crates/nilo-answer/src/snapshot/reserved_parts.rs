//! The reserved bytes by what they are for.

use nilo_allocator::usage::{MemoryLayout, ReservedBreakdown, TraceStart};
use nilo_allocator::{GpuSnapshot, snapshot::NO_STACK};
use schemars::JsonSchema;
use serde::Serialize;

use super::problem::SnapshotProblem;

/// Reserved bytes, each counted once: the five parts add up to `reserved_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ReservedParts {
    /// In blocks that the program has: requested and rounding.
    pub allocated_bytes: u64,
    /// In segments taken from the driver.
    pub reserved_bytes: u64,
    /// What the program asked for.
    pub requested_bytes: u64,
    /// What its blocks have beyond that.
    pub rounding_bytes: u64,
    /// Given back by the program, but another stream may still use it.
    pub pending_bytes: u64,
    /// Free, and `empty_cache` would give it back to the driver.
    pub releasable_bytes: u64,
    /// Free, but in segments that something else keeps: fragmentation.
    pub stranded_bytes: u64,
}

impl From<ReservedBreakdown> for ReservedParts {
    fn from(parts: ReservedBreakdown) -> Self {
        Self {
            allocated_bytes: parts.requested_bytes + parts.rounding_bytes,
            reserved_bytes: parts.reserved_bytes(),
            requested_bytes: parts.requested_bytes,
            rounding_bytes: parts.rounding_bytes,
            pending_bytes: parts.pending_bytes,
            releasable_bytes: parts.releasable_bytes,
            stranded_bytes: parts.stranded_bytes,
        }
    }
}

impl ReservedParts {
    /// Free bytes, of whatever use.
    pub fn free_bytes(&self) -> u64 {
        self.releasable_bytes + self.stranded_bytes
    }
}

/// The memory after an event, or before the first.
pub(crate) fn layout_at(snapshot: &GpuSnapshot, device: usize, row: Option<usize>) -> MemoryLayout {
    match row {
        Some(row) => MemoryLayout::after(snapshot, device, Some(row)),
        None => MemoryLayout::new(snapshot, TraceStart::of(snapshot, device)),
    }
}

/// Whether any event or block of a device says where it was allocated.
pub(crate) fn has_stacks(snapshot: &GpuSnapshot) -> bool {
    snapshot.stacks.stack_count() > 0
        && (snapshot.blocks.iter().any(|block| block.stack != NO_STACK)
            || (0..snapshot.events.len()).any(|row| snapshot.events.row(row).stack != NO_STACK))
}

/// Refuses to answer by call stack where there is none.
pub(crate) fn require_stacks(snapshot: &GpuSnapshot) -> Result<(), SnapshotProblem> {
    match has_stacks(snapshot) {
        true => Ok(()),
        false => Err(SnapshotProblem::NoStacks),
    }
}
