//! What `nilo snapshot leaks` answers: call stacks whose blocks only accumulate.

use nilo_allocator::GpuSnapshot;
use nilo_allocator::snapshot::TraceAction;
use nilo_allocator::usage::{StackAccumulation, TraceAccumulation};
use schemars::JsonSchema;
use serde::Serialize;

use super::call_stack::AllocationStack;
use super::problem::SnapshotProblem;
use super::reserved_parts::require_stacks;
use super::trace_place::{TraceMoment, TraceRange, secs_between};

/// The value of [`SnapshotLeaksAnswer::schema`].
pub const SNAPSHOT_LEAKS_SCHEMA: &str = "nilo.snapshot-leaks/1";

/// What accumulates on a device.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct SnapshotLeaksAnswer {
    /// `nilo.snapshot-leaks/1`.
    #[schemars(extend("const" = SNAPSHOT_LEAKS_SCHEMA))]
    pub schema: &'static str,
    /// The file.
    pub file: String,
    /// The GPU's ordinal.
    pub device: usize,
    /// The events that were looked at: up to the last failed allocation, unless an end was given.
    pub events: u64,
    /// How long they took.
    pub duration_secs: Option<f64>,
    /// How far the lowest level of allocated bytes rose from the first eighth of the events to the last.
    pub growth_bytes: i64,
    /// The bytes that accumulated, of all stacks.
    pub accumulated_bytes: u64,
    /// Those stacks, most bytes first.
    pub stacks: Vec<AccumulatingStack>,
    /// How many there are.
    pub stack_count: u64,
}

/// A call stack whose blocks only accumulate.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct AccumulatingStack {
    /// The bytes of its blocks that are alive at the end.
    pub alive_bytes: u64,
    /// Those blocks.
    pub alive_blocks: u64,
    /// Its allocations within the trace.
    pub allocations: u64,
    /// The part of them that was ever freed.
    pub freed_ratio: f64,
    /// Bytes that stay for each event.
    pub bytes_per_event: f64,
    /// Bytes that stay for each second; `null` where the file has no times.
    pub bytes_per_sec: Option<f64>,
    /// When the first of the blocks was allocated.
    pub since: TraceMoment,
    /// Where they were allocated.
    #[serde(flatten)]
    pub stack: AllocationStack,
}

impl SnapshotLeaksAnswer {
    /// Looks at a part of a device's trace; so many stacks are named.
    pub fn of(
        file: String,
        snapshot: &GpuSnapshot,
        device: usize,
        range: &TraceRange,
        most_stacks: usize,
    ) -> Result<Self, SnapshotProblem> {
        require_stacks(snapshot)?;
        let mut rows = range.rows(snapshot, device)?;
        // What follows a failed allocation is its exception, which frees what was kept.
        let failed = |row: &usize| snapshot.events.actions()[*row] == TraceAction::Oom;
        let last_oom = rows.clone().rev().find(failed);
        if let Some(oom) = last_oom.filter(|_| range.to.is_none()) {
            rows.end = oom + 1;
        }
        let found = TraceAccumulation::within(snapshot, device, rows.clone());
        let mut steady: Vec<StackAccumulation> = found.stacks;
        // What is replaced again and again stays as well, but the level does not rise.
        steady.retain(|stack| found.growth_bytes > 0 && stack.accumulates());
        let last = rows.end - 1;
        let accumulating = |stack: &StackAccumulation| {
            let events = (rows.end - stack.first_alive_row).max(1);
            let secs = secs_between(snapshot, stack.first_alive_row, last);
            let per_sec = |secs: f64| stack.alive_bytes as f64 / secs;
            AccumulatingStack {
                alive_bytes: stack.alive_bytes,
                alive_blocks: stack.alive_blocks,
                allocations: stack.allocations,
                freed_ratio: stack.freed as f64 / stack.allocations.max(1) as f64,
                bytes_per_event: stack.alive_bytes as f64 / events as f64,
                bytes_per_sec: secs.filter(|secs| *secs > 0.0).map(per_sec),
                since: TraceMoment::of(snapshot, device, Some(stack.first_alive_row)),
                stack: AllocationStack::of(snapshot, stack.stack),
            }
        };
        Ok(Self {
            schema: SNAPSHOT_LEAKS_SCHEMA,
            file,
            device,
            events: rows.len() as u64,
            duration_secs: secs_between(snapshot, rows.start, last),
            growth_bytes: found.growth_bytes,
            accumulated_bytes: steady.iter().map(|stack| stack.alive_bytes).sum(),
            stack_count: steady.len() as u64,
            stacks: steady.iter().take(most_stacks).map(accumulating).collect(),
        })
    }

    /// 1 where something accumulates.
    pub fn exit_status(&self) -> u8 {
        u8::from(self.stack_count > 0)
    }
}
