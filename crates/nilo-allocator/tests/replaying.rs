//! The allocator model against what torch did on a real GPU.

mod support;

use nilo_allocator::GpuSnapshot;
use nilo_allocator::model::{AllocatorSettings, DriverAction};
use nilo_allocator::replay::{estimate_limit, replay_faithfully, replay_under};
use nilo_allocator::usage::explain_ooms;
use support::{counter, event, made_up, pickled, read, snapshot};

const COMPLETE: [&str; 3] = ["full-steady", "full-varlen", "full-fragmentation-oom"];

fn settings(snapshot: &GpuSnapshot) -> AllocatorSettings {
    AllocatorSettings::from(&snapshot.settings)
}

#[test]
fn replaying_a_complete_trace_gives_its_driver_calls_blocks_and_counters() {
    for name in COMPLETE {
        let snapshot = snapshot(name);
        let replay = replay_faithfully(&snapshot, 0, &settings(&snapshot));
        assert_eq!(replay.replayed_calls, replay.recorded_calls, "{name}");
        assert_eq!(replay.misplaced_blocks, 0, "{name}");
        assert!(replay.same_segments, "{name}");
        assert!(replay.is_exact());
        let taken = replay
            .replayed_calls
            .iter()
            .filter(|call| call.action == DriverAction::SegmentAlloc)
            .count();
        assert_eq!(taken as u64, counter(name, "num_device_alloc"), "{name}");
        let totals = replay.totals;
        for (bytes, key) in [
            (totals.peak_allocated_bytes, "allocated_bytes.all.peak"),
            (totals.peak_active_bytes, "active_bytes.all.peak"),
            (totals.peak_requested_bytes, "requested_bytes.all.peak"),
            (totals.peak_reserved_bytes, "reserved_bytes.all.peak"),
            (totals.allocated_bytes, "allocated_bytes.all.current"),
            (totals.requested_bytes, "requested_bytes.all.current"),
            (totals.reserved_bytes, "reserved_bytes.all.current"),
        ] {
            assert_eq!(bytes, counter(name, key), "{name}: {key}");
        }
    }
}

#[test]
fn a_model_with_other_constants_does_not_reproduce_the_record() {
    let snapshot = snapshot("full-steady");
    let other = AllocatorSettings {
        large_segment_bytes: 32 << 20,
        ..settings(&snapshot)
    };
    assert!(!replay_faithfully(&snapshot, 0, &other).is_exact());
}

#[test]
fn a_replay_under_the_recorded_settings_gives_the_recorded_peaks() {
    for name in COMPLETE {
        let snapshot = snapshot(name);
        let estimate = estimate_limit(&snapshot, 0, &settings(&snapshot));
        let outcome = replay_under(&snapshot, 0, &estimate.limited(&settings(&snapshot)));
        assert!(
            !outcome.starts_late && outcome.new_ooms.is_empty(),
            "{name}: {outcome:?}"
        );
        assert_eq!(
            outcome.peak_allocated_bytes,
            counter(name, "allocated_bytes.all.peak"),
            "{name}"
        );
        assert_eq!(
            outcome.peak_reserved_bytes,
            counter(name, "reserved_bytes.all.peak"),
            "{name}"
        );
        assert_eq!(
            outcome.final_reserved_bytes,
            counter(name, "reserved_bytes.all.current"),
            "{name}"
        );
        assert_eq!(
            outcome.remaining_ooms.len() as u64,
            counter(name, "num_ooms"),
            "{name}"
        );
        assert_eq!(
            outcome.retries,
            counter(name, "num_alloc_retries"),
            "{name}"
        );
    }
}

#[test]
fn the_limit_lies_between_what_was_reserved_and_what_failed() {
    let snapshot = snapshot("full-fragmentation-oom");
    let estimate = estimate_limit(&snapshot, 0, &settings(&snapshot));
    // It ran with 4 GiB allowed, and the device had 135 GiB left.
    assert!(estimate.at_least_bytes <= 4 << 30);
    assert!(estimate.below_bytes.unwrap() > 4 << 30);
    assert_eq!(estimate.device_bytes, None);
    let without = estimate_limit(
        &support::snapshot("full-steady"),
        0,
        &AllocatorSettings::default(),
    );
    assert_eq!(without.below_bytes, None);
    assert_eq!(without.at_least_bytes, 1_562_378_240);
}

#[test]
fn expandable_segments_do_not_help_where_every_page_holds_a_live_block() {
    // Blocks of 5 MiB, every other one freed: no page of 20 MiB is free.
    let snapshot = snapshot("full-fragmentation-oom");
    let allowed = AllocatorSettings {
        allowed_bytes: Some(4 << 30),
        ..settings(&snapshot)
    };
    let expandable = AllocatorSettings {
        expandable_segments: true,
        ..allowed.clone()
    };
    for settings in [&allowed, &expandable] {
        let outcome = replay_under(&snapshot, 0, settings);
        assert_eq!(
            (outcome.avoided_ooms.len(), outcome.remaining_ooms.len()),
            (0, 1)
        );
        assert!(outcome.new_ooms.is_empty() && outcome.peak_reserved_bytes <= 4 << 30);
    }
    let more = AllocatorSettings {
        allowed_bytes: Some(6 << 30),
        ..allowed
    };
    assert_eq!(replay_under(&snapshot, 0, &more).avoided_ooms.len(), 1);
}

#[test]
fn expandable_segments_avoid_an_oom_of_stranded_segments() {
    const MIB: i128 = 1 << 20;
    let base = 1 << 40;
    // 3 MiB stay in the segment of 100 MiB, so that it cannot be given back for the 160 MiB asked for at last.
    let events = vec![
        event("segment_alloc", base, 100 * MIB),
        event("alloc", base, 100 * MIB),
        event("free_requested", base, 100 * MIB),
        event("free_completed", base, 100 * MIB),
        event("alloc", base, 3 * MIB),
        event("oom", 200 << 30, 160 * MIB),
    ];
    let snapshot = read(&pickled(&made_up(vec![], events))).unwrap();
    let limited = AllocatorSettings {
        allowed_bytes: Some(250 << 20),
        ..AllocatorSettings::default()
    };
    let replayed = replay_under(&snapshot, 0, &limited);
    assert_eq!(
        (
            replayed.avoided_ooms.len(),
            replayed.remaining_ooms.as_slice()
        ),
        (0, &[5][..])
    );
    let whatif = replay_under(
        &snapshot,
        0,
        &AllocatorSettings {
            expandable_segments: true,
            ..limited
        },
    );
    assert_eq!(
        (whatif.avoided_ooms.as_slice(), whatif.remaining_ooms.len()),
        (&[5][..], 0)
    );
    // A page of 20 MiB stays mapped, and nine hold 3 and 160 MiB.
    assert_eq!(whatif.peak_reserved_bytes, 180 << 20);
}

#[test]
fn expandable_segments_reserve_less_for_varying_lengths() {
    let snapshot = snapshot("full-varlen");
    let expandable = AllocatorSettings {
        expandable_segments: true,
        ..settings(&snapshot)
    };
    let whatif = replay_under(&snapshot, 0, &expandable);
    assert!(whatif.peak_allocated_bytes <= counter("full-varlen", "allocated_bytes.all.peak"));
    assert!(
        whatif.peak_reserved_bytes < 3 << 30,
        "{whatif:?}, of 5,007,998,976 recorded"
    );
}

#[test]
fn a_smaller_limit_makes_new_ooms() {
    let snapshot = snapshot("full-steady");
    let tight = AllocatorSettings {
        device_bytes: Some(1 << 30),
        ..settings(&snapshot)
    };
    let whatif = replay_under(&snapshot, 0, &tight);
    assert!(!whatif.new_ooms.is_empty() && whatif.retries > 0);
    assert!(whatif.peak_reserved_bytes <= 1 << 30);
}

#[test]
fn a_window_is_replayed_exactly_from_what_was_alive_before_it() {
    for name in ["window-retain-graph", "window-steady"] {
        let snapshot = snapshot(name);
        let replay = replay_faithfully(&snapshot, 0, &settings(&snapshot));
        assert_eq!(replay.replayed_calls, replay.recorded_calls, "{name}");
        assert_eq!(replay.misplaced_blocks, 0, "{name}");
        assert!(replay.is_exact(), "{name}");
    }
    let snapshot = snapshot("window-retain-graph");
    let limited = estimate_limit(&snapshot, 0, &settings(&snapshot)).limited(&settings(&snapshot));
    let replayed = replay_under(&snapshot, 0, &limited);
    assert!(replayed.starts_late && replayed.new_ooms.is_empty());
    assert_eq!(
        (replayed.avoided_ooms.len(), replayed.remaining_ooms.len()),
        (0, 1)
    );
    let peak = nilo_allocator::usage::TracePeaks::of(&snapshot, 0)
        .reserved
        .reserved_bytes;
    assert_eq!(replayed.peak_reserved_bytes, peak);
    // Without a limit the request that failed is served.
    let unlimited = replay_under(&snapshot, 0, &settings(&snapshot));
    assert_eq!(unlimited.avoided_ooms.len(), 1);
}

#[test]
fn a_full_device_is_told_by_what_it_had_left() {
    let events = vec![
        event("segment_alloc", 1 << 40, 100 << 20),
        event("alloc", 1 << 40, 100 << 20),
        event("oom", 30 << 20, 60 << 20),
    ];
    let snapshot = read(&pickled(&made_up(vec![], events))).unwrap();
    let estimate = estimate_limit(&snapshot, 0, &AllocatorSettings::default());
    assert_eq!(estimate.device_bytes, Some(130 << 20));
    let limited = estimate.limited(&AllocatorSettings::default());
    assert_eq!(
        (limited.allowed_bytes, limited.device_bytes),
        (None, Some(130 << 20))
    );
    assert_eq!(replay_under(&snapshot, 0, &limited).remaining_ooms, [2]);
}

#[test]
fn a_request_larger_than_any_device_is_explained_and_never_served() {
    let asked = (1_i128 << 60) - 512;
    let events = vec![
        event("segment_alloc", 1 << 40, 100 << 20),
        event("alloc", 1 << 40, 100 << 20),
        event("oom", 30 << 20, asked),
    ];
    let snapshot = read(&pickled(&made_up(vec![], events))).unwrap();
    let [report] = &explain_ooms(&snapshot, 0, 5)[..] else {
        panic!("one allocation failed");
    };
    assert_eq!(i128::from(report.block_bytes), asked);
    assert!(!report.fits_defragmented);
    // Without a limit too.
    let replayed = replay_under(&snapshot, 0, &AllocatorSettings::default());
    assert_eq!(replayed.remaining_ooms, [2]);
    assert_eq!(replayed.peak_reserved_bytes, 100 << 20);

    for event in [event("oom", 1, 1 << 60), event("alloc", 4096, 1 << 42)] {
        let refused = read(&pickled(&made_up(vec![], vec![event]))).unwrap_err();
        let told = refused.to_string();
        assert!(told.contains("\"size\" is not a size in bytes"), "{told}");
    }
}

#[test]
fn holes_of_whole_pages_serve_a_large_request_in_expandable_segments() {
    const PIECE: i128 = 256 << 20;
    let (base, apart) = (1_i128 << 40, 1_i128 << 30);
    let mut events = Vec::new();
    for segment in 0..7 {
        events.push(event("segment_alloc", base + segment * apart, 2 * PIECE));
        events.push(event("alloc", base + segment * apart, 2 * PIECE));
    }
    let freed = |address, size| {
        ["free_requested", "free_completed"].map(|action| event(action, address, size))
    };
    for segment in 0..7 {
        events.extend(freed(base + segment * apart, 2 * PIECE));
    }
    for segment in 0..7 {
        for half in 0..2 {
            events.push(event("alloc", base + segment * apart + half * PIECE, PIECE));
        }
    }
    for segment in 0..7 {
        events.extend(freed(base + segment * apart + PIECE, PIECE));
    }
    // The process was allowed 4 GiB; the device had room.
    events.push(event("oom", 100 << 30, 600 << 20));
    let oom = events.len() - 1;
    let snapshot = read(&pickled(&made_up(vec![], events))).unwrap();
    let own = AllocatorSettings::default();
    let estimate = estimate_limit(&snapshot, 0, &own);
    let (lowest, highest) = (estimate.limited(&own), estimate.highest(&own).unwrap());
    assert_eq!(
        (lowest.allowed_bytes, highest.allowed_bytes),
        (Some(3584 << 20), Some((4184 << 20) - 1))
    );
    for limited in [lowest, highest] {
        assert_eq!(replay_under(&snapshot, 0, &limited).remaining_ooms, [oom]);
        let expandable = AllocatorSettings {
            expandable_segments: true,
            ..limited
        };
        let replayed = replay_under(&snapshot, 0, &expandable);
        assert_eq!(replayed.avoided_ooms, [oom], "{replayed:?}");
        // Pages of 20 MiB need 16 MiB more than the seven segments.
        let fails_before = expandable.allowed_bytes == Some(3584 << 20);
        assert_eq!(!replayed.new_ooms.is_empty(), fails_before, "{replayed:?}");
    }
}
