//! Promises about the drawn traces: they are what their shape says, for every seed.

use nilo_verdict_bench::shapes::{SHAPES, draw};
use nilo_verdict_bench::trace::{Trace, TracePoint};

const SEEDS: std::ops::Range<u64> = 0..30;

fn every_trace() -> impl Iterator<Item = Trace> {
    (1..=SHAPES).flat_map(|shape| SEEDS.map(move |seed| draw(shape, seed)))
}

fn of_shape(shape: u8) -> impl Iterator<Item = Trace> {
    SEEDS.map(move |seed| draw(shape, seed))
}

/// The share of the limit in use, without what could be dropped.
fn needed_share(point: &TracePoint) -> f64 {
    (point.used_bytes - point.reclaimable_bytes)
        / point.limit_bytes.expect("drawn traces have a limit")
}

fn used_share(point: &TracePoint) -> f64 {
    point.used_bytes / point.limit_bytes.expect("drawn traces have a limit")
}

#[test]
fn a_shape_and_a_seed_give_the_same_trace_every_time() {
    for shape in 1..=SHAPES {
        assert_eq!(draw(shape, 7), draw(shape, 7));
        assert_ne!(draw(shape, 7).points, draw(shape, 8).points);
    }
}

#[test]
fn times_ascend_and_numbers_are_finite_and_within_each_other() {
    for trace in every_trace() {
        let name = &trace.name;
        assert!(trace.points.len() >= 30, "{name}: {}", trace.points.len());
        for pair in trace.points.windows(2) {
            assert!(pair[0].time_nanos < pair[1].time_nanos, "{name}");
        }
        for point in &trace.points {
            let used = point.used_bytes;
            assert!(used.is_finite() && used > 0.0, "{name}");
            assert!(used <= point.limit_bytes.unwrap(), "{name}");
            let parts = [
                Some(point.reclaimable_bytes),
                point.held_bytes,
                point.children_bytes,
                point.own_bytes,
            ];
            for part in parts.into_iter().flatten() {
                assert!((0.0..=used).contains(&part), "{name}: {part} of {used}");
            }
            if let Some(swap) = point.swap_used_bytes {
                assert!((0.0..=point.swap_total_bytes.unwrap()).contains(&swap));
            }
            assert!((0.0..=1.0).contains(&point.pressure_full.unwrap_or(0.0)));
        }
    }
}

#[test]
fn a_trace_with_an_oom_ends_there_at_the_limit_and_a_calm_one_stays_below() {
    for trace in every_trace().filter(|trace| trace.shape != Some(24)) {
        let name = &trace.name;
        let last = trace.points.last().unwrap();
        match trace.truth.oom_at_nanos {
            Some(at) => {
                assert_eq!(at, trace.end_nanos(), "{name}");
                assert_eq!(used_share(last), 1.0, "{name}");
                assert_eq!(trace.truth.limit_reached_after_end_nanos, None, "{name}");
            }
            None => assert!(trace.points.iter().all(|p| used_share(p) < 1.0), "{name}"),
        }
    }
}

#[test]
fn swap_kills_when_it_is_full_and_memory_is_flat_at_the_limit_meanwhile() {
    let mut killed = 0;
    for trace in of_shape(24) {
        let last = trace.points.last().unwrap();
        let full = last.swap_used_bytes == last.swap_total_bytes;
        assert_eq!(full, trace.truth.oom_at_nanos.is_some(), "{}", trace.name);
        assert!(used_share(last) > 0.95);
        assert_eq!(trace.truth.leak, None);
        killed += u32::from(full);
    }
    assert!((8..=22).contains(&killed), "{killed}");
}

#[test]
fn these_shapes_always_run_out_and_those_never() {
    for shape in [1, 7, 11, 12, 16, 18] {
        for trace in of_shape(shape) {
            assert!(trace.truth.oom_at_nanos.is_some(), "{}", trace.name);
        }
    }
    for shape in [2, 4, 5, 6, 8, 9, 10, 13, 14, 15, 17, 19, 20] {
        for trace in of_shape(shape) {
            assert_eq!(trace.truth.oom_at_nanos, None, "{}", trace.name);
        }
    }
    for shape in [3, 21, 22, 23, 24] {
        let killed = of_shape(shape).filter(|trace| trace.truth.oom_at_nanos.is_some());
        let killed = killed.count();
        assert!((6..=29).contains(&killed), "shape {shape}: {killed} of 30");
    }
}

#[test]
fn an_oom_leaves_time_to_see_it_coming() {
    for trace in every_trace() {
        let Some(at) = trace.truth.oom_at_nanos else {
            continue;
        };
        // A fifth of the shortest duration.
        assert!(at >= 60_000_000_000, "{}: {at}", trace.name);
    }
}

#[test]
fn leaks_are_labelled_by_their_nature() {
    for trace in every_trace() {
        let leak = trace.truth.leak;
        match trace.shape.unwrap() {
            1 | 2 | 3 | 11 | 16 => assert_eq!(leak, Some(true), "{}", trace.name),
            18 | 24 => assert_eq!(leak, None, "{}", trace.name),
            21 | 22 => assert!(leak.is_some(), "{}", trace.name),
            _ => assert_eq!(leak, Some(false), "{}", trace.name),
        }
    }
}

#[test]
fn growth_cut_off_by_the_end_knows_when_it_would_have_arrived() {
    for trace in every_trace() {
        if let Some(at) = trace.truth.limit_reached_after_end_nanos {
            assert!(at > trace.end_nanos(), "{}", trace.name);
        }
    }
    for trace in of_shape(2) {
        let grown = needed_share(trace.points.last().unwrap());
        assert!(grown < 0.92, "{}", trace.name);
    }
    let known = of_shape(2).filter(|trace| trace.limit_reached_nanos().is_some());
    assert!(known.count() > 5);
}

#[test]
fn only_a_first_spike_is_unpredictable() {
    for trace in every_trace() {
        assert_eq!(trace.truth.unpredictable, trace.shape == Some(7));
    }
}

#[test]
fn page_cache_reaches_the_limit_with_pages_that_can_be_dropped() {
    let mut filled = 0;
    for trace in of_shape(13) {
        let top = trace.points.iter().map(used_share).fold(0.0, f64::max);
        let needed = trace.points.iter().map(needed_share).fold(0.0, f64::max);
        assert!(needed < 0.75, "{}: {needed}", trace.name);
        filled += u32::from(top > 0.93);
    }
    assert!(filled >= 15, "{filled}");
}

#[test]
fn fragmentation_holds_a_flat_amount_inside_a_growing_one() {
    for trace in of_shape(12) {
        let held = |point: &TracePoint| point.held_bytes.unwrap() / point.limit_bytes.unwrap();
        let half = trace.points.len() / 2;
        let highest = |points: &[TracePoint]| points.iter().map(held).fold(0.0, f64::max);
        let (first, second) = (
            highest(&trace.points[..half]),
            highest(&trace.points[half..]),
        );
        assert!(
            (first - second).abs() < 0.02,
            "{}: {first} {second}",
            trace.name
        );
    }
    let told = of_shape(6)
        .filter(|trace| trace.points[0].held_bytes.is_some())
        .count();
    assert!((8..=22).contains(&told), "{told}");
}

#[test]
fn workers_are_told_apart_and_half_of_the_jobs_mark_their_epochs() {
    for shape in [10, 11] {
        let mut marked = 0;
        for trace in of_shape(shape) {
            assert!(trace.points.iter().all(|p| p.children_bytes.is_some()));
            let marks = trace.points.iter().filter(|p| p.mark.is_some()).count();
            assert!(marks == 0 || marks >= 2, "{}: {marks}", trace.name);
            marked += u32::from(marks > 0);
        }
        assert!((8..=22).contains(&marked), "shape {shape}: {marked}");
    }
}

#[test]
fn a_neighbour_grows_while_this_job_does_not() {
    for trace in of_shape(23) {
        let own: Vec<f64> = trace.points.iter().map(|p| p.own_bytes.unwrap()).collect();
        assert!(own.iter().all(|bytes| *bytes == own[0]), "{}", trace.name);
        let grown = trace.points.last().unwrap().used_bytes - trace.points[0].used_bytes;
        assert!(
            grown > 0.05 * trace.points[0].limit_bytes.unwrap(),
            "{}",
            trace.name
        );
    }
}

#[test]
fn a_moving_limit_moves_once() {
    for trace in of_shape(21) {
        let changes = trace
            .points
            .windows(2)
            .filter(|pair| pair[0].limit_bytes != pair[1].limit_bytes);
        assert_eq!(changes.count(), 1, "{}", trace.name);
    }
}

#[test]
fn gaps_last_and_the_rest_is_sampled() {
    for trace in of_shape(22) {
        let duration = trace.duration_secs();
        let longest = trace
            .points
            .windows(2)
            .map(|pair| pair[1].seconds() - pair[0].seconds())
            .fold(0.0, f64::max);
        assert!(longest > 0.01 * duration, "{}: {longest} s", trace.name);
    }
}

#[test]
fn the_drawn_traces_stay_the_same_from_version_to_version() {
    // Figures of different dates are comparable only if the traces are. A change of a shape or of the generator's crate
    // changes this number: say so in the page of the benchmark.
    // Rounded, because logarithms may differ in their last digit between machines.
    let mut points = 0;
    let mut ends_secs = 0.0;
    let mut shares = 0.0;
    for trace in every_trace() {
        points += trace.points.len();
        ends_secs += trace.duration_secs();
        let used: f64 = trace.points.iter().map(used_share).sum();
        shares += used / trace.points.len() as f64;
    }
    let fingerprint = format!("{points} {ends_secs:.0} {shares:.4}");
    assert_eq!(fingerprint, "3757627 2668089 454.9739");
}
