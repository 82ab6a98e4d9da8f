//! A known stack costs no memory: counted by the allocator of this test.

#![allow(clippy::unwrap_used)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use nilo_runfile::{RunWriter, WriterOptions};
use nilo_sample::Frame;
use support::Scratch;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promised us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised us.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_known_stack_allocates_nothing() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", WriterOptions::default()).unwrap();
    let frames: Vec<Frame<'_>> = (0..30)
        .map(|line| Frame {
            function: "forward",
            file: "/home/ada/models/transformer.py",
            line,
        })
        .collect();
    let before = ALLOCATIONS.get();
    let id = writer.intern_stack(&frames).unwrap();
    assert!(ALLOCATIONS.get() > before, "the first time it is stored");
    let before = ALLOCATIONS.get();
    for _ in 0..100 {
        assert_eq!(writer.intern_stack(&frames), Some(id));
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
