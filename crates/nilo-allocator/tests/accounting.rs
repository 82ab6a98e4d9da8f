//! Bytes that add up, in complete traces and in windows.

mod support;

use nilo_allocator::GpuSnapshot;
use nilo_allocator::snapshot::BlockUse;
use nilo_allocator::usage::{
    MemoryLayout, MemoryTimeline, PieceUse, ReservedBreakdown, TracePeaks, TraceStart,
    allocation_rows, explain_ooms, segment_pieces, usage_by_stack,
};
use support::{Object, counter, event, made_up, pickled, read, snapshot};

const ALL: [&str; 5] = [
    "full-steady",
    "full-varlen",
    "full-fragmentation-oom",
    "window-retain-graph",
    "window-steady",
];

fn reserved(snapshot: &GpuSnapshot) -> u64 {
    snapshot
        .segments
        .iter()
        .map(|segment| segment.total_size)
        .sum()
}

#[test]
fn the_peaks_of_complete_traces_are_those_torch_counted() {
    for name in ["full-steady", "full-varlen", "full-fragmentation-oom"] {
        let peaks = TracePeaks::of(&snapshot(name), 0);
        assert_eq!(
            peaks.allocated.allocated_bytes,
            counter(name, "allocated_bytes.all.peak"),
            "{name}"
        );
        assert_eq!(
            peaks.reserved.reserved_bytes,
            counter(name, "reserved_bytes.all.peak"),
            "{name}"
        );
        assert!(!peaks.starts_late);
    }
    assert!(TracePeaks::of(&snapshot("window-steady"), 0).starts_late);
}

#[test]
fn following_a_trace_ends_in_the_blocks_of_the_snapshot() {
    for name in ALL {
        let snapshot = snapshot(name);
        let layout = MemoryLayout::after(&snapshot, 0, None);
        assert_eq!(layout.reserved_bytes(), reserved(&snapshot), "{name}");
        let active = snapshot
            .blocks
            .iter()
            .filter(|block| block.usage != BlockUse::Inactive);
        let recorded: Vec<_> = active
            .map(|block| (block.address, block.size, block.requested, block.stack))
            .collect();
        let followed: Vec<_> = layout
            .blocks()
            .map(|block| (block.address, block.size, block.requested, block.stack))
            .collect();
        assert_eq!(followed, recorded, "{name}");
    }
}

#[test]
fn the_parts_add_up_to_the_reserved_bytes_at_every_event() {
    for name in ALL {
        let snapshot = snapshot(name);
        let start = TraceStart::of(&snapshot, 0);
        assert_eq!(start.is_empty(), name.starts_with("full"), "{name}");
        let mut layout = MemoryLayout::new(&snapshot, start);
        for index in snapshot.trace(0) {
            layout.apply(snapshot.events.row(index));
            if index % 97 == 0 {
                let parts = ReservedBreakdown::of(&layout);
                assert_eq!(
                    parts.reserved_bytes(),
                    layout.reserved_bytes(),
                    "{name} at {index}"
                );
                assert_eq!(
                    parts.requested_bytes + parts.rounding_bytes,
                    layout.allocated_bytes(),
                    "{name} at {index}"
                );
            }
        }
        let parts = ReservedBreakdown::of(&layout);
        if name.starts_with("full") {
            assert_eq!(
                parts.stranded_bytes,
                counter(name, "inactive_split_bytes.all.current"),
                "{name}"
            );
            assert_eq!(
                parts.requested_bytes,
                counter(name, "requested_bytes.all.current"),
                "{name}"
            );
        }
    }
}

#[test]
fn the_stacks_at_the_peak_hold_all_of_it() {
    let snapshot = snapshot("full-varlen");
    let peaks = TracePeaks::of(&snapshot, 0);
    let layout = MemoryLayout::after(&snapshot, 0, peaks.allocated.row);
    assert_eq!(layout.allocated_bytes(), peaks.allocated.allocated_bytes);
    let usage = usage_by_stack(&layout);
    assert_eq!(
        usage.iter().map(|usage| usage.bytes).sum::<u64>(),
        peaks.allocated.allocated_bytes
    );
    assert!(usage.windows(2).all(|pair| pair[0].bytes >= pair[1].bytes));
    assert!(snapshot.stacks.stack(usage[0].stack).count() > 0);
}

#[test]
fn a_fragmentation_oom_is_told_from_a_full_device() {
    let fragmented = explain_ooms(&snapshot("full-fragmentation-oom"), 0, 10);
    let [oom] = &fragmented[..] else {
        panic!("one OOM")
    };
    // As torch's message says: 1.86 GiB asked, 1.20 GiB allocated, 2.28 GiB reserved but unallocated.
    assert_eq!(oom.block_bytes, 1_992_294_400);
    assert_eq!(oom.segment_bytes, 1_992_294_400);
    assert_eq!(oom.device_free_bytes, 145_824_546_816);
    assert_eq!(
        format!("{:.2}", oom.allocated_bytes as f64 / f64::from(1 << 30)),
        "1.20"
    );
    assert_eq!(
        format!(
            "{:.2}",
            oom.breakdown.free_bytes() as f64 / f64::from(1 << 30)
        ),
        "2.28"
    );
    assert!(oom.fits_defragmented && oom.largest_eligible_bytes < oom.block_bytes);
    assert!(oom.eligible_free_bytes <= oom.breakdown.free_bytes());
    assert!(
        oom.eligible_free_bytes >= oom.largest_eligible_bytes && oom.largest_eligible_bytes > 0
    );
    // One stack lives in every segment with gaps, so it keeps all of their free bytes.
    assert_eq!(oom.pinning[0].kept_free_bytes, oom.eligible_free_bytes);
    assert!(oom.pinning[0].kept_free_bytes > oom.pinning[1].kept_free_bytes);
    let held: u64 = oom.holders.iter().map(|holder| holder.bytes).sum();
    assert_eq!(held, oom.allocated_bytes);

    let full = explain_ooms(&snapshot("window-retain-graph"), 0, 10);
    let [oom] = &full[..] else { panic!("one OOM") };
    assert_eq!(oom.block_bytes, 98_304_000);
    assert_eq!(explain_ooms(&snapshot("window-retain-graph"), 0, 0), []);
    assert!(oom.largest_eligible_bytes < oom.block_bytes);
}

#[test]
fn a_pending_block_is_neither_allocated_nor_free() {
    let events = vec![
        event("segment_alloc", 1 << 30, 2 << 20),
        event("alloc", 1 << 30, 1000),
        event("alloc", (1 << 30) + 1024, 4000),
        event("free_requested", 1 << 30, 1000),
    ];
    let block = |address: i128, size: i128, requested: i128, state| {
        Object::Dict(vec![
            ("address", Object::Int(address)),
            ("size", Object::Int(size)),
            ("requested_size", Object::Int(requested)),
            ("state", Object::Text(state)),
        ])
    };
    let segment = Object::Dict(vec![
        ("address", Object::Int(1 << 30)),
        ("total_size", Object::Int(2 << 20)),
        ("stream", Object::Int(0)),
        ("segment_type", Object::Text("small")),
        (
            "blocks",
            Object::List(vec![
                block(1 << 30, 1024, 1000, "active_pending_free"),
                block((1 << 30) + 1024, 4096, 4000, "active_allocated"),
                block((1 << 30) + 5120, (2 << 20) - 5120, 0, "inactive"),
            ]),
        ),
    ]);
    let made = read(&pickled(&made_up(vec![segment], events))).unwrap();
    let layout = MemoryLayout::after(&made, 0, None);
    let parts = ReservedBreakdown::of(&layout);
    let expected = ReservedBreakdown {
        requested_bytes: 4000,
        rounding_bytes: 96,
        pending_bytes: 1024,
        releasable_bytes: 0,
        stranded_bytes: (2 << 20) - 5120,
    };
    assert_eq!(parts, expected);
    let freed = MemoryLayout::after(&made, 0, Some(0));
    assert_eq!(ReservedBreakdown::of(&freed).releasable_bytes, 2 << 20);
}

#[test]
fn whole_free_pages_of_expandable_segments_are_releasable() {
    let base = 1 << 40;
    let page = 20 << 20;
    let events = vec![
        event("segment_map", base, 3 * page),
        event("alloc", base, 30 << 20),
        event("free_requested", base, 30 << 20),
        event("free_completed", base, 30 << 20),
        event("alloc", base, 5 << 20),
        event("segment_unmap", base + 2 * page, page),
    ];
    // The end: two mapped pages with a block of 5 MiB.
    let block = |address: i128, size: i128, state| {
        Object::Dict(vec![
            ("address", Object::Int(address)),
            ("size", Object::Int(size)),
            ("requested_size", Object::Int(size)),
            ("state", Object::Text(state)),
        ])
    };
    let segment = Object::Dict(vec![
        ("address", Object::Int(base)),
        ("total_size", Object::Int(2 * page)),
        ("stream", Object::Int(0)),
        ("segment_type", Object::Text("large")),
        ("is_expandable", Object::Bool(true)),
        (
            "blocks",
            Object::List(vec![
                block(base, 5 << 20, "active_allocated"),
                block(base + (5 << 20), (35) << 20, "inactive"),
            ]),
        ),
    ]);
    let made = read(&pickled(&made_up(vec![segment], events))).unwrap();
    assert!(TraceStart::of(&made, 0).is_empty());
    let before = ReservedBreakdown::of(&MemoryLayout::after(&made, 0, Some(4)));
    assert_eq!(
        (before.releasable_bytes, before.stranded_bytes),
        (40 << 20, 15 << 20)
    );
    let after = ReservedBreakdown::of(&MemoryLayout::after(&made, 0, None));
    assert_eq!(
        (
            after.requested_bytes,
            after.releasable_bytes,
            after.stranded_bytes
        ),
        (5 << 20, 20 << 20, 15 << 20)
    );
}

#[test]
fn a_timeline_of_few_buckets_keeps_every_peak() {
    for name in ALL {
        let snapshot = snapshot(name);
        let peaks = TracePeaks::of(&snapshot, 0);
        let events = snapshot.trace(0).len();
        for most in [1, 7, 1000, usize::MAX] {
            let timeline = MemoryTimeline::within(&snapshot, 0, snapshot.trace(0), most);
            assert!(timeline.buckets.len() <= most, "{name}");
            let per_bucket = timeline.events_per_bucket;
            assert_eq!(timeline.buckets.len(), events.div_ceil(per_bucket));
            assert!(per_bucket == 1 || events.div_ceil(per_bucket / 2) > most);
            let buckets = timeline.buckets.iter();
            let most_allocated = buckets.clone().map(|one| one.most_allocated_bytes).max();
            assert_eq!(most_allocated, Some(peaks.allocated.allocated_bytes));
            let most_reserved = buckets.clone().map(|one| one.most_reserved_bytes).max();
            assert_eq!(most_reserved, Some(peaks.reserved.reserved_bytes));
            let place = peaks.allocated.row.unwrap() / per_bucket;
            let bucket = timeline.buckets[place];
            assert_eq!(bucket.most_allocated_bytes, peaks.allocated.allocated_bytes);
            assert!(bucket.least_allocated_bytes <= bucket.most_allocated_bytes);
            assert!(buckets.clone().is_sorted_by_key(|one| one.time_micros));
        }
        let part = MemoryTimeline::within(&snapshot, 0, 500..900, usize::MAX);
        let whole = MemoryTimeline::within(&snapshot, 0, snapshot.trace(0), usize::MAX);
        assert_eq!(part.buckets[1..], whole.buckets[501..900]);
    }
}

#[test]
fn the_pieces_of_segments_are_the_parts_of_the_breakdown() {
    let expandable = read(&support::bytes_of("seeds/expandable-5.pickle")).unwrap();
    let full = ALL.map(snapshot);
    for snapshot in full.iter().chain([&expandable]) {
        let trace = snapshot.trace(0);
        for row in [trace.start, (trace.start + trace.end) / 2, trace.end - 1] {
            let layout = MemoryLayout::after(snapshot, 0, Some(row));
            let mut sums = [0; 4];
            for range in layout.ranges() {
                let pieces = segment_pieces(&layout, range);
                let size: u64 = pieces.iter().map(|piece| piece.size).sum();
                assert_eq!(size, range.size);
                for piece in pieces {
                    sums[piece.usage as usize] += piece.size;
                }
            }
            let parts = ReservedBreakdown::of(&layout);
            assert_eq!(
                sums,
                [
                    parts.requested_bytes + parts.rounding_bytes,
                    parts.pending_bytes,
                    parts.releasable_bytes,
                    parts.stranded_bytes
                ]
            );
            assert_eq!(PieceUse::Stranded as usize, 3);
        }
    }
}

#[test]
fn each_live_block_has_the_event_that_allocated_it() {
    for name in ALL {
        let snapshot = snapshot(name);
        let peak = TracePeaks::of(&snapshot, 0).allocated.row;
        let layout = MemoryLayout::after(&snapshot, 0, peak);
        let rows = allocation_rows(&snapshot, 0, &layout, peak);
        let complete = TraceStart::of(&snapshot, 0).is_empty();
        for block in layout.blocks() {
            match rows.get(&block.address) {
                Some(row) => {
                    let event = snapshot.events.row(*row);
                    assert_eq!((event.address, event.stack), (block.address, block.stack));
                    assert!(Some(*row) <= peak);
                }
                None => assert!(!complete, "{name}: only what was there before has no event"),
            }
        }
        assert!(allocation_rows(&snapshot, 0, &layout, None).is_empty());
    }
}
