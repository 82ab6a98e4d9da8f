//! Prints the figures of a snapshot file: what `bench/allocator_snapshot.py` measures.
//!
//! With `replay` as the second argument, the trace is also replayed as it was and with expandable segments.

#![allow(clippy::print_stdout)]

use nilo_allocator::model::AllocatorSettings;
use nilo_allocator::replay::replay_under;
use nilo_allocator::usage::{MemoryLayout, ReservedBreakdown, TracePeaks, usage_by_stack};
use nilo_allocator::{GpuSnapshot, ReadOptions};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("the path of a snapshot");
    let replay = arguments.next().as_deref() == Some("replay");
    let file = std::fs::File::open(&path).expect("a readable file");
    // SAFETY: nothing changes the file while the benchmark reads it.
    let map = unsafe { memmap2::Mmap::map(&file) }.expect("a mappable file");
    let started = std::time::Instant::now();
    let snapshot = GpuSnapshot::read(&map, &ReadOptions::default()).expect("a snapshot");
    println!(
        "events {} stacks {} read_secs {:.3}",
        snapshot.events.len(),
        snapshot.stacks.stack_count(),
        started.elapsed().as_secs_f64()
    );
    for device in snapshot.devices() {
        let peaks = TracePeaks::of(&snapshot, device);
        let layout = MemoryLayout::after(&snapshot, device, peaks.allocated.row);
        let parts = ReservedBreakdown::of(&layout);
        println!(
            "device {device} peak_allocated_bytes {} peak_reserved_bytes {}",
            peaks.allocated.allocated_bytes, peaks.reserved.reserved_bytes
        );
        println!("{parts:?} by {} stacks", usage_by_stack(&layout).len());
        if replay {
            let recorded = AllocatorSettings::from(&snapshot.settings);
            let expandable = AllocatorSettings {
                expandable_segments: true,
                ..recorded.clone()
            };
            println!("replayed {:?}", replay_under(&snapshot, device, &recorded));
            println!(
                "expandable {:?}",
                replay_under(&snapshot, device, &expandable)
            );
        }
    }
    println!("answer_secs {:.3}", started.elapsed().as_secs_f64());
}
