//! Taking a reading of the GPUs allocates nothing on the asker's side, and next to nothing on the reader's.
//! A program of its own: it counts every allocation.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nilo_source::gpu::{GpuReader, GpuSources, GpuView};
use support::fake_nvml::{FakeDriver, gpu, process};

thread_local! {
    static HERE: Cell<u64> = const { Cell::new(0) };
}
static EVERYWHERE: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged; the counters allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HERE.with(|count| count.set(count.get() + 1));
        EVERYWHERE.fetch_add(1, Ordering::Relaxed);
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

#[test]
fn a_tick_with_gpus_allocates_nothing_and_their_reader_only_lists() {
    const GPUS: u64 = 8;
    const ROUNDS: u64 = 50;
    let state = |used: i64| -> Vec<String> {
        let lines = (0..GPUS).flat_map(|index| {
            let uuid = format!("GPU-{index}");
            [gpu(&uuid, used, 50), process(&uuid, 7, 1000)]
        });
        lines.collect()
    };
    let driver = FakeDriver::new(&state(5000));
    let reader = GpuReader::start(&GpuSources::nvidia(driver.library())).unwrap();
    let mut view = GpuView::default();
    let round = |view: &mut GpuView| {
        reader.wait(Duration::from_secs(60));
        let before = HERE.get();
        let is_new = reader.look(view);
        reader.request();
        assert!(is_new);
        HERE.get() - before
    };
    round(&mut view);
    round(&mut view);
    let before = EVERYWHERE.load(Ordering::Relaxed);
    let on_ticks: u64 = (0..ROUNDS).map(|_| round(&mut view)).sum();
    let altogether = EVERYWHERE.load(Ordering::Relaxed) - before;
    assert_eq!(on_ticks, 0);
    // A list takes two vectors; while memory does not change it is asked for once a second only.
    assert!(altogether <= 2 * GPUS * ROUNDS, "{altogether}");
    assert_eq!(view.round, ROUNDS + 2);
}
