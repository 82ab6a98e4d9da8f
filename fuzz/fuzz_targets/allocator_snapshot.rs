//! Any bytes as a GPU memory snapshot: refused in one sentence, or followed and replayed without a panic, with sums that add up.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilo_allocator::model::AllocatorSettings;
use nilo_allocator::replay::{estimate_limit, replay_faithfully, replay_under};
use nilo_allocator::usage::{MemoryLayout, ReservedBreakdown, TracePeaks, explain_ooms, usage_by_stack};
use nilo_allocator::{GpuSnapshot, ReadOptions};

fuzz_target!(|data: &[u8]| {
    let snapshot = match GpuSnapshot::read(data, &ReadOptions { max_decompressed_bytes: 1 << 20 }) {
        Ok(snapshot) => snapshot,
        Err(error) => return assert!(!error.to_string().contains('\n'), "one sentence: {error}"),
    };
    let recorded = AllocatorSettings::from(&snapshot.settings);
    for device in snapshot.devices().into_iter().take(4) {
        let peaks = TracePeaks::of(&snapshot, device);
        for row in [None, peaks.allocated.row, peaks.reserved.row] {
            let layout = MemoryLayout::after(&snapshot, device, row);
            assert_eq!(ReservedBreakdown::of(&layout).reserved_bytes(), layout.reserved_bytes());
            let _ = usage_by_stack(&layout);
        }
        for oom in explain_ooms(&snapshot, device, 8) {
            assert!(oom.largest_eligible_bytes <= oom.eligible_free_bytes);
        }
        let _ = replay_faithfully(&snapshot, device, &recorded);
        let limit = estimate_limit(&snapshot, device, &recorded).at_least_bytes;
        for expandable_segments in [false, true] {
            let settings = AllocatorSettings { expandable_segments, allowed_bytes: Some(limit), ..recorded.clone() };
            let outcome = replay_under(&snapshot, device, &settings);
            assert!(outcome.peak_allocated_bytes <= outcome.peak_reserved_bytes);
            let settings = AllocatorSettings {
                expandable_segments,
                max_split_bytes: Some(32 << 20),
                garbage_collection_threshold: 0.5,
                allowed_bytes: Some(limit),
                device_bytes: Some(limit / 2),
                ..recorded.clone()
            };
            let _ = replay_under(&snapshot, device, &settings);
        }
    }
});
