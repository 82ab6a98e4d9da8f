//! Segments that are not free because a few blocks live in them, and whose blocks those are.

use std::cmp::Reverse;
use std::collections::HashMap;

use nilo_allocator::GpuSnapshot;
use nilo_allocator::usage::{OomReport, PinnedSegment, PinningStack, StackUsage};
use schemars::JsonSchema;
use serde::Serialize;

use super::call_stack::{AllocationStack, HeldByStack, largest_holders};

/// A segment that a few blocks keep.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct PinnedSegmentReport {
    /// Its bytes.
    pub segment_bytes: u64,
    /// The bytes of the blocks in it.
    pub pinned_bytes: u64,
    /// Those blocks.
    pub pinned_blocks: u64,
    /// Who allocated them, most bytes first.
    pub stacks: Vec<HeldByStack>,
}

/// What one call stack keeps from being used as a whole.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct PinnedByStack {
    /// The free bytes in the segments that its blocks live in; several stacks may keep the same.
    pub kept_free_bytes: u64,
    /// Those segments.
    pub segments: u64,
    /// Its blocks in them.
    pub blocks: u64,
    /// The bytes of these.
    pub bytes: u64,
    /// Where they were allocated.
    #[serde(flatten)]
    pub stack: AllocationStack,
}

pub(crate) fn pinned_report(
    snapshot: &GpuSnapshot,
    pinned: &PinnedSegment,
    most_stacks: usize,
) -> PinnedSegmentReport {
    let mut by_stack: HashMap<u32, StackUsage> = HashMap::new();
    for block in pinned.blocks.iter().filter(|block| block.size > 0) {
        let usage = by_stack.entry(block.stack).or_insert(StackUsage {
            stack: block.stack,
            blocks: 0,
            bytes: 0,
        });
        usage.blocks += 1;
        usage.bytes += block.size;
    }
    let mut usage: Vec<StackUsage> = by_stack.into_values().collect();
    usage.sort_by_key(|usage| (Reverse(usage.bytes), usage.stack));
    PinnedSegmentReport {
        segment_bytes: pinned.range.size,
        pinned_bytes: pinned.pinned_bytes,
        pinned_blocks: usage.iter().map(|usage| usage.blocks as u64).sum(),
        stacks: largest_holders(snapshot, &usage, most_stacks),
    }
}

pub(crate) fn pinned_by(
    snapshot: &GpuSnapshot,
    report: &OomReport,
    most_stacks: usize,
) -> Vec<PinnedByStack> {
    let pinning = report.pinning.iter().take(most_stacks);
    let stack = |one: &PinningStack| PinnedByStack {
        kept_free_bytes: one.kept_free_bytes,
        segments: one.segments as u64,
        blocks: one.blocks as u64,
        bytes: one.bytes,
        stack: AllocationStack::of(snapshot, one.stack),
    };
    pinning.map(stack).collect()
}
