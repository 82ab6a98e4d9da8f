//! What `nilo snapshot diff` answers: the bytes at the peaks of two snapshots, by call stack.

use std::collections::BTreeMap;

use nilo_allocator::GpuSnapshot;
use nilo_allocator::usage::{TracePeaks, usage_by_stack};
use schemars::JsonSchema;
use serde::Serialize;

use super::call_stack::AllocationStack;
use super::problem::SnapshotProblem;
use super::reserved_parts::{layout_at, require_stacks};
use super::trace_place::{TraceMoment, TraceRange};

/// The value of [`SnapshotDiffAnswer::schema`].
pub const SNAPSHOT_DIFF_SCHEMA: &str = "nilo.snapshot-diff/1";

/// Two snapshots at their peaks of allocated memory.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct SnapshotDiffAnswer {
    /// `nilo.snapshot-diff/1`.
    #[schemars(extend("const" = SNAPSHOT_DIFF_SCHEMA))]
    pub schema: &'static str,
    /// The first file.
    pub before: ComparedSnapshot,
    /// The second file.
    pub after: ComparedSnapshot,
    /// The change of the allocated peak.
    pub peak_allocated_change_bytes: i64,
    /// The change of the reserved peak.
    pub peak_reserved_change_bytes: i64,
    /// The stacks that changed, the largest change first.
    pub stacks: Vec<StackChange>,
    /// How many stacks changed.
    pub changed_stacks: u64,
    /// How many hold the same in both.
    pub unchanged_stacks: u64,
}

/// One of the two.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ComparedSnapshot {
    /// The file.
    pub file: String,
    /// The GPU's ordinal.
    pub device: usize,
    /// The most in blocks that the program had.
    pub peak_allocated_bytes: u64,
    /// The most in segments.
    pub peak_reserved_bytes: u64,
    /// When most was allocated.
    pub peak_allocated_at: TraceMoment,
    #[serde(skip)]
    by_stack: BTreeMap<AllocationStack, HeldBlocks>,
}

#[derive(Debug, Clone, Copy, Default)]
struct HeldBlocks {
    bytes: u64,
    blocks: u64,
}

/// What one call stack holds in both.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct StackChange {
    /// What it holds more in the second.
    pub change_bytes: i64,
    /// Its bytes at the peak of the first.
    pub before_bytes: u64,
    /// Its bytes at the peak of the second.
    pub after_bytes: u64,
    /// Its blocks at the peak of the first.
    pub before_blocks: u64,
    /// Its blocks at the peak of the second.
    pub after_blocks: u64,
    /// Where they were allocated.
    #[serde(flatten)]
    pub stack: AllocationStack,
}

impl ComparedSnapshot {
    /// A device at its peak within a part of its trace.
    pub fn of(
        file: String,
        snapshot: &GpuSnapshot,
        device: usize,
        range: &TraceRange,
    ) -> Result<Self, SnapshotProblem> {
        require_stacks(snapshot)?;
        let rows = range.rows(snapshot, device)?;
        let peaks = TracePeaks::within(snapshot, device, rows.clone());
        let layout = layout_at(snapshot, device, peaks.allocated.row);
        let mut by_stack: BTreeMap<AllocationStack, HeldBlocks> = BTreeMap::new();
        for usage in usage_by_stack(&layout) {
            let held = by_stack.entry(AllocationStack::of(snapshot, usage.stack));
            let held = held.or_default();
            held.bytes += usage.bytes;
            held.blocks += usage.blocks as u64;
        }
        Ok(Self {
            file,
            device,
            peak_allocated_bytes: peaks.allocated.allocated_bytes,
            peak_reserved_bytes: peaks.reserved.reserved_bytes,
            peak_allocated_at: TraceMoment::of_peak(snapshot, device, peaks.allocated.row, &rows),
            by_stack,
        })
    }
}

impl SnapshotDiffAnswer {
    /// Compares two snapshots; so many stacks are named.
    pub fn of(before: ComparedSnapshot, after: ComparedSnapshot, most_stacks: usize) -> Self {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let change = |from: u64, to: u64| signed(to).saturating_sub(signed(from));
        let mut stacks = Vec::new();
        let only_after = |stack: &&AllocationStack| !before.by_stack.contains_key(*stack);
        let all = before.by_stack.keys();
        for stack in all.chain(after.by_stack.keys().filter(only_after)) {
            let held = |of: &ComparedSnapshot| of.by_stack.get(stack).copied().unwrap_or_default();
            let (from, to) = (held(&before), held(&after));
            stacks.push(StackChange {
                change_bytes: change(from.bytes, to.bytes),
                before_bytes: from.bytes,
                after_bytes: to.bytes,
                before_blocks: from.blocks,
                after_blocks: to.blocks,
                stack: stack.clone(),
            });
        }
        let all = stacks.len() as u64;
        stacks.retain(|stack| stack.change_bytes != 0);
        let changed_stacks = stacks.len() as u64;
        stacks.sort_by_key(|stack| std::cmp::Reverse(stack.change_bytes.unsigned_abs()));
        stacks.truncate(most_stacks);
        Self {
            schema: SNAPSHOT_DIFF_SCHEMA,
            peak_allocated_change_bytes: change(
                before.peak_allocated_bytes,
                after.peak_allocated_bytes,
            ),
            peak_reserved_change_bytes: change(
                before.peak_reserved_bytes,
                after.peak_reserved_bytes,
            ),
            before,
            after,
            stacks,
            changed_stacks,
            unchanged_stacks: all - changed_stacks,
        }
    }
}
