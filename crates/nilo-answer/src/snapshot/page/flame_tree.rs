//! The allocated bytes at their peak as a tree of calls, outermost first.

use std::cmp::Reverse;
use std::collections::HashMap;

use nilo_allocator::GpuSnapshot;
use nilo_allocator::usage::StackUsage;
use serde::Serialize;

use super::frame_table::FrameTable;
use super::packed::PackedNumbers;

/// Calls that are drawn; smaller ones have no pixel even in a tenfold zoom.
const MOST_CALLS: usize = 40_000;
/// Call stacks that are looked at, the largest.
const MOST_STACKS: usize = 10_000;
/// Frames of a stack, outermost first.
const DEEPEST: usize = 250;

/// A tree of calls.
#[derive(Debug, Serialize)]
pub struct FlameTree {
    /// The bytes of all stacks.
    pub bytes: u64,
    /// How many calls are drawn.
    pub calls: u64,
    /// How many are too small to be.
    pub left_out: u64,
    /// For each call, depth first and the largest first: its depth from 0, its frame from 1 (0 has no stack), its bytes.
    pub data: String,
}

struct Call {
    frame: u32,
    depth: usize,
    bytes: u64,
    children: Vec<u32>,
}

impl FlameTree {
    pub(crate) fn of(
        snapshot: &GpuSnapshot,
        usage: &[StackUsage],
        frames: &mut FrameTable,
    ) -> Self {
        let mut calls: Vec<Call> = Vec::new();
        let mut roots: Vec<u32> = Vec::new();
        let mut numbers: HashMap<(Option<u32>, u32), u32> = HashMap::new();
        for held in usage.iter().take(MOST_STACKS) {
            let stack = snapshot.stacks.stack(held.stack).rev().take(DEEPEST);
            let mut path: Vec<u32> = stack.map(|one| frames.frame(snapshot, one) + 1).collect();
            if path.is_empty() {
                path.push(0);
            }
            let mut parent = None;
            for (depth, frame) in path.into_iter().enumerate() {
                let next = calls.len() as u32;
                let number = *numbers.entry((parent, frame)).or_insert(next);
                if number == next {
                    calls.push(Call {
                        frame,
                        depth,
                        bytes: 0,
                        children: Vec::new(),
                    });
                    match parent {
                        Some(parent) => calls[parent as usize].children.push(number),
                        None => roots.push(number),
                    }
                }
                let bytes = &mut calls[number as usize].bytes;
                *bytes = bytes.saturating_add(held.bytes);
                parent = Some(number);
            }
        }
        let (smallest, mut of_smallest) = smallest_drawn(&calls);
        let mut packed = PackedNumbers::default();
        let mut drawn = 0;
        let mut open = roots;
        // What lies last is drawn first.
        open.sort_by_key(|number| calls[*number as usize].bytes);
        while let Some(number) = open.pop() {
            let call = &calls[number as usize];
            if call.bytes < smallest || (call.bytes == smallest && of_smallest == 0) {
                continue;
            }
            of_smallest -= usize::from(call.bytes == smallest);
            drawn += 1;
            packed.push(call.depth as u64);
            packed.push(u64::from(call.frame));
            packed.push(call.bytes);
            let mut children = call.children.clone();
            children.sort_by_key(|child| (calls[*child as usize].bytes, Reverse(*child)));
            open.extend(children);
        }
        Self {
            bytes: usage
                .iter()
                .fold(0, |sum, held| sum.saturating_add(held.bytes)),
            calls: drawn,
            left_out: calls.len() as u64 - drawn,
            data: packed.into_base64(),
        }
    }
}

/// From how many bytes on a call is drawn, and how many of exactly that size. Who calls has at least as many, so nobody is drawn
/// without its caller.
fn smallest_drawn(calls: &[Call]) -> (u64, usize) {
    let mut sizes: Vec<u64> = calls.iter().map(|call| call.bytes).collect();
    sizes.sort_unstable_by_key(|bytes| Reverse(*bytes));
    sizes.truncate(MOST_CALLS);
    let smallest = sizes.last().copied().unwrap_or(0);
    let equal = sizes.iter().rev().take_while(|bytes| **bytes == smallest);
    (smallest, equal.count())
}
