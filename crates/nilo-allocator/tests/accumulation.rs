//! What accumulates in a trace, and what only stays.

#![allow(clippy::unwrap_used)]

mod support;

use nilo_allocator::GpuSnapshot;
use nilo_allocator::usage::{TraceAccumulation, TracePeaks};
use support::{Object, frame, made_up, pickled, read, snapshot};

const WEIGHTS: i128 = 1;
const ACTIVATION: i128 = 2;
const LEAK: i128 = 3;
const REPLACED: i128 = 4;
const SIZE: i128 = 4096;

/// Writes events of a program, one address after another.
#[derive(Default)]
struct Program {
    events: Vec<Object>,
    next: i128,
}

impl Program {
    fn event(&mut self, action: &'static str, address: i128, line: i128) {
        self.events.push(Object::Dict(vec![
            ("action", Object::Text(action)),
            ("addr", Object::Int(address)),
            ("size", Object::Int(SIZE)),
            ("stream", Object::Int(0)),
            ("time_us", Object::Int(1 + self.events.len() as i128)),
            ("frames", Object::List(vec![frame("train.py", line)])),
        ]));
    }

    fn alloc(&mut self, line: i128) -> i128 {
        self.next += SIZE;
        let address = (1 << 40) + self.next;
        self.event("alloc", address, line);
        address
    }

    fn free(&mut self, address: i128) {
        self.event("free_requested", address, 99);
        self.event("free_completed", address, 99);
    }

    fn snapshot(self) -> GpuSnapshot {
        read(&pickled(&made_up(vec![], self.events))).unwrap()
    }
}

/// A training whose steps keep something if `leaks`.
fn training(steps: usize, leaks: bool) -> GpuSnapshot {
    let mut program = Program::default();
    for _ in 0..40 {
        program.alloc(WEIGHTS);
    }
    let mut replaced = program.alloc(REPLACED);
    for _ in 0..steps {
        let activations: Vec<i128> = (0..5).map(|_| program.alloc(ACTIVATION)).collect();
        activations.into_iter().for_each(|one| program.free(one));
        let next = program.alloc(REPLACED);
        program.free(replaced);
        replaced = next;
        if leaks {
            program.alloc(LEAK);
        }
    }
    program.snapshot()
}

fn lines(snapshot: &GpuSnapshot) -> Vec<u32> {
    let found = TraceAccumulation::within(snapshot, 0, snapshot.trace(0));
    let steady = found.stacks.iter().filter(|stack| stack.accumulates());
    let line = |stack: u32| snapshot.stacks.stack(stack).next().unwrap().line;
    steady.map(|stack| line(stack.stack)).collect()
}

#[test]
fn what_each_step_keeps_accumulates_and_weights_do_not() {
    assert_eq!(lines(&training(40, true)), [LEAK as u32]);
    assert_eq!(lines(&training(40, false)), [] as [u32; 0]);
}

#[test]
fn allocations_and_frees_are_counted_by_stack() {
    let snapshot = training(40, true);
    let found = TraceAccumulation::within(&snapshot, 0, snapshot.trace(0));
    let of = |line: i128| {
        let mut stacks = found.stacks.iter();
        let is_line = |stack: u32| {
            let mut frames = snapshot.stacks.stack(stack);
            frames.next().unwrap().line == line as u32
        };
        let stack = stacks.find(|stack| is_line(stack.stack)).unwrap();
        (stack.allocations, stack.freed, stack.alive_blocks)
    };
    assert_eq!(of(WEIGHTS), (40, 0, 40));
    assert_eq!(of(ACTIVATION), (200, 200, 0));
    assert_eq!(of(REPLACED), (41, 40, 1));
    assert_eq!(of(LEAK), (40, 0, 40));
    // One block after the first event; 41 and those of 34 steps when the last eighth begins.
    assert_eq!(found.growth_bytes, (41 + 34 - 1) * SIZE as i64);
}

#[test]
fn a_leak_that_is_older_than_the_window_is_known_by_what_was_kept() {
    let snapshot = snapshot("window-retain-graph");
    // The allocation that failed; its exception frees what was kept.
    let rows = 0..19_684;
    let found = TraceAccumulation::within(&snapshot, 0, rows);
    let steady: Vec<_> = found
        .stacks
        .iter()
        .filter(|stack| stack.accumulates())
        .collect();
    assert!(steady.len() > 5 && steady[0].kept_blocks > 0 && steady[0].freed > 0);
}

#[test]
fn the_peak_of_a_trace_is_the_higher_one_of_its_parts() {
    let snapshot = snapshot("full-varlen");
    let whole = TracePeaks::of(&snapshot, 0);
    let trace = snapshot.trace(0);
    for cut in [1, 10_000, 15_433, 15_434, 40_000] {
        let first = TracePeaks::within(&snapshot, 0, trace.start..cut);
        let second = TracePeaks::within(&snapshot, 0, cut..trace.end);
        let highest = first
            .allocated
            .allocated_bytes
            .max(second.allocated.allocated_bytes);
        assert_eq!(highest, whole.allocated.allocated_bytes, "{cut}");
        assert!(second.allocated.row.unwrap() >= cut - 1);
    }
}
