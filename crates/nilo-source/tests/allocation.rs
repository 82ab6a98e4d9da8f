//! A tick on which nothing changes allocates nothing. A program of its own: it counts every allocation.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use nilo_source::{ProcessTree, Roots, TreeOptions};
use support::Job;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: likewise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The ticks below pass in a fraction of a second: on a busy machine the children would still be on their way to `sleep`.
fn wait_for_sleepers(job: &Job, count: usize) {
    let is_asleep = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| stat.contains("(sleep) S"))
    };
    let children = format!("/proc/{0}/task/{0}/children", job.pid());
    while std::fs::read_to_string(&children)
        .unwrap()
        .split_whitespace()
        .filter(|pid| is_asleep(pid))
        .count()
        < count
    {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_tick_allocates_nothing_while_nothing_changes() {
    let mut job = Job::sh("for i in 1 2 3 4 5; do sleep 1000 & done; echo ready; wait");
    job.hear();
    wait_for_sleepers(&job, 5);
    let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
    tree.add_root(job.pid()).unwrap();
    let mut now_nanos = 0;
    let mut counts = Vec::new();
    for tick in 0..400 {
        now_nanos += 100_000_000;
        let before = ALLOCATIONS.get();
        tree.tick(now_nanos);
        // The first seconds open files, read names and measure PSS.
        if tick >= 100 {
            counts.push(ALLOCATIONS.get() - before);
        }
    }
    assert_eq!(tree.processes().len(), 6);
    // Somebody else's new process may make a list grow on a few ticks; detail, PSS and the sweep fall on many.
    let with_allocation = counts.iter().filter(|count| **count > 0).count();
    assert!(
        with_allocation <= 10,
        "{with_allocation} of {}",
        counts.len()
    );
}
