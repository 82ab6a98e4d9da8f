//! Blocks that stay: what each call stack allocated within a trace, gave back, and still holds at its end.

use std::ops::Range;

use hashbrown::HashMap;

use super::layout::MemoryLayout;
use super::start::TraceStart;
use crate::model::AllocatorSettings;
use crate::snapshot::{GpuSnapshot, NO_STACK, TraceAction};

/// A trace is looked at in this many parts with equally many events.
const PARTS: usize = 8;
/// What accumulates does so in at least this many of them. Weights, optimizer state and the last step's activations come in one or two.
const FEWEST_PARTS: usize = 4;

/// What one call stack allocated within a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackAccumulation {
    /// The stack, by number.
    pub stack: u32,
    /// Its allocations.
    pub allocations: u64,
    /// Those that were given back.
    pub freed: u64,
    /// Those alive at the end.
    pub alive_blocks: u64,
    /// The bytes of those.
    pub alive_bytes: u64,
    /// Blocks from before the first event that are alive at the end too.
    pub kept_blocks: u64,
    /// The event of the first one that is still alive.
    pub first_alive_row: usize,
    alive_in_part: [u32; PARTS],
}

impl StackAccumulation {
    /// Whether what stays was allocated again and again, rather than at once as weights are.
    pub fn accumulates(&self) -> bool {
        let keeps = self.freed == 0 || self.kept_blocks > 0;
        self.is_steady() || self.rounds() >= 3 || (keeps && self.rounds() >= 2)
    }

    /// How often it was allocated, nothing for at least a part of the trace, and allocated again.
    fn rounds(&self) -> usize {
        let alive = |part: &u32| *part > 0;
        self.alive_in_part
            .chunk_by(|one, next| alive(one) == alive(next))
            .filter(|chunk| alive(&chunk[0]))
            .count()
    }

    /// Whether it went on all along up to the end.
    fn is_steady(&self) -> bool {
        let Some(first) = self.alive_in_part.iter().position(|alive| *alive > 0) else {
            return false;
        };
        let parts = self.alive_in_part[first..]
            .iter()
            .filter(|alive| **alive > 0);
        let goes_on = self.alive_in_part[PARTS - 2..]
            .iter()
            .any(|alive| *alive > 0);
        goes_on && parts.count() >= FEWEST_PARTS.max(3 * (PARTS - first) / 4)
    }
}

/// What stays of the allocations of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceAccumulation {
    /// By call stack, most bytes alive at the end first.
    pub stacks: Vec<StackAccumulation>,
    /// How far the lowest level of allocated bytes rose from the first to the last part.
    pub growth_bytes: i64,
}

impl TraceAccumulation {
    /// Follows these events of a device.
    pub fn within(snapshot: &GpuSnapshot, device: usize, rows: Range<usize>) -> Self {
        let settings = AllocatorSettings::from(&snapshot.settings);
        let trace = snapshot.trace(device);
        let rows = rows.start.max(trace.start)..rows.end.min(trace.end);
        let mut layout = MemoryLayout::new(snapshot, TraceStart::of(snapshot, device));
        for index in trace.start..rows.start {
            layout.apply(snapshot.events.row(index));
        }
        let known = layout.blocks().filter(|block| block.stack != NO_STACK);
        let mut kept: HashMap<u64, u32> = known.map(|block| (block.address, block.stack)).collect();
        let mut lowest = [u64::MAX; PARTS];
        let mut alive: HashMap<u64, usize> = HashMap::new();
        let mut stacks: HashMap<u32, StackAccumulation> = HashMap::new();
        let part_of = |index: usize| (index - rows.start) * PARTS / rows.len().max(1);
        for index in rows.clone() {
            let row = snapshot.events.row(index);
            layout.apply(row);
            match row.action {
                TraceAction::Alloc => {
                    alive.insert(row.address, index);
                    entry(&mut stacks, row.stack).allocations += 1;
                }
                TraceAction::FreeRequested | TraceAction::FreeCompleted => {
                    kept.remove(&row.address);
                    if let Some(born) = alive.remove(&row.address) {
                        let stack = snapshot.events.row(born).stack;
                        entry(&mut stacks, stack).freed += 1;
                    }
                }
                _ => {}
            }
            let lowest = &mut lowest[part_of(index)];
            *lowest = (*lowest).min(layout.allocated_bytes());
        }
        for stack in kept.into_values() {
            entry(&mut stacks, stack).kept_blocks += 1;
        }
        for index in alive.into_values() {
            let row = snapshot.events.row(index);
            let stack = entry(&mut stacks, row.stack);
            stack.alive_blocks += 1;
            stack.alive_bytes = stack
                .alive_bytes
                .saturating_add(settings.rounded_bytes(row.size));
            stack.first_alive_row = stack.first_alive_row.min(index);
            stack.alive_in_part[part_of(index)] += 1;
        }
        let mut stacks: Vec<StackAccumulation> = stacks.into_values().collect();
        stacks.sort_unstable_by_key(|stack| (std::cmp::Reverse(stack.alive_bytes), stack.stack));
        Self {
            stacks,
            growth_bytes: growth(&lowest),
        }
    }
}

fn growth(lowest: &[u64; PARTS]) -> i64 {
    let mut seen = lowest.iter().filter(|bytes| **bytes != u64::MAX);
    let signed = |bytes: &u64| i64::try_from(*bytes).unwrap_or(i64::MAX);
    match (seen.next(), seen.next_back()) {
        (Some(first), Some(last)) => signed(last).saturating_sub(signed(first)),
        _ => 0,
    }
}

fn entry(stacks: &mut HashMap<u32, StackAccumulation>, stack: u32) -> &mut StackAccumulation {
    stacks.entry(stack).or_insert(StackAccumulation {
        stack,
        allocations: 0,
        freed: 0,
        alive_blocks: 0,
        alive_bytes: 0,
        kept_blocks: 0,
        first_alive_row: usize::MAX,
        alive_in_part: [0; PARTS],
    })
}
