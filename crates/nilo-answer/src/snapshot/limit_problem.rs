//! Limits that a program cannot begin within: there is nothing to compare then.

use nilo_allocator::GpuSnapshot;
use nilo_allocator::model::AllocatorSettings;
use nilo_allocator::snapshot::TraceAction;
use nilo_allocator::usage::TraceStart;
use schemars::JsonSchema;
use serde::Serialize;

/// Why a limit cannot be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct LimitProblem {
    /// What does not fit.
    pub kind: LimitProblemKind,
    /// Its bytes, more than the limit.
    pub needed_bytes: u64,
}

/// What does not fit into a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitProblemKind {
    /// The smallest segment that any allocation of the program could do with.
    SmallestSegment,
    /// The blocks that were in use when the trace begins.
    InUseAtStart,
    /// The segments that were there when the trace begins. Their blocks would fit, so with the limit from the beginning there might have been fewer.
    ReservedAtStart,
}

impl LimitProblem {
    pub(crate) fn of(
        snapshot: &GpuSnapshot,
        device: usize,
        recorded: &AllocatorSettings,
        limit_bytes: u64,
    ) -> Option<Self> {
        let start = TraceStart::of(snapshot, device);
        let in_use = start.blocks().map(|block| block.size).sum();
        let needs = [
            (
                LimitProblemKind::SmallestSegment,
                smallest_segment(snapshot, device, recorded, &start),
            ),
            (LimitProblemKind::InUseAtStart, in_use),
            (LimitProblemKind::ReservedAtStart, start.reserved_bytes()),
        ];
        needs
            .into_iter()
            .find(|(_, needed_bytes)| *needed_bytes > limit_bytes)
            .map(|(kind, needed_bytes)| Self { kind, needed_bytes })
    }

    /// Whether the program would not fit, whatever the settings.
    pub fn is_certain(&self) -> bool {
        self.kind != LimitProblemKind::ReservedAtStart
    }
}

/// Expandable segments and rounding only take more. What a trace that begins late had before, nobody knows.
fn smallest_segment(
    snapshot: &GpuSnapshot,
    device: usize,
    recorded: &AllocatorSettings,
    start: &TraceStart,
) -> u64 {
    let unrounded = AllocatorSettings {
        roundup_power2_divisions: Vec::new(),
        ..recorded.clone()
    };
    let segment = |requested| unrounded.segment_bytes(unrounded.rounded_bytes(requested));
    if !start.is_empty() {
        return segment(0);
    }
    let rows = snapshot.trace(device).map(|row| snapshot.events.row(row));
    let requests = rows.filter(|row| row.action == TraceAction::Alloc);
    requests.map(|row| segment(row.size)).min().unwrap_or(0)
}
