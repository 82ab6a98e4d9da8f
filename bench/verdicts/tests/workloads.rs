//! Promises about the simulated jobs: they are what their kind says, for every seed.

use nilo_verdict_bench::trace::Trace;
use nilo_verdict_bench::workloads::{WORKLOADS, simulate};

const SEEDS: std::ops::Range<u64> = 0..20;

fn every_job() -> impl Iterator<Item = Trace> {
    (1..=WORKLOADS).flat_map(|kind| SEEDS.map(move |seed| simulate(kind, seed)))
}

#[test]
fn a_kind_and_a_seed_give_the_same_job_every_time() {
    for kind in 1..=WORKLOADS {
        assert_eq!(simulate(kind, 7), simulate(kind, 7));
        assert_ne!(simulate(kind, 7).points, simulate(kind, 8).points);
    }
}

#[test]
fn times_ascend_and_levels_stay_within_the_limit() {
    for trace in every_job() {
        let name = &trace.name;
        assert!(trace.points.len() >= 30, "{name}: {}", trace.points.len());
        for pair in trace.points.windows(2) {
            assert!(pair[0].time_nanos < pair[1].time_nanos, "{name}");
        }
        for point in &trace.points {
            let limit = point.limit_bytes.expect("every job has a limit");
            assert!((0.0..=limit).contains(&point.used_bytes), "{name}");
            assert!(
                point.children_bytes.unwrap_or(0.0) <= point.used_bytes,
                "{name}"
            );
        }
    }
}

#[test]
fn jobs_that_run_out_end_at_the_limit_and_those_that_fit_never_do() {
    for trace in every_job() {
        let last = trace.points.last().unwrap();
        let is_full = Some(last.used_bytes) == last.limit_bytes;
        assert_eq!(
            is_full,
            trace.truth.oom_at_nanos.is_some(),
            "{}",
            trace.name
        );
        let fits = [7, 8, 10, 11, 12, 15, 16].contains(&trace.shape.unwrap());
        assert!(!(fits && is_full), "{}", trace.name);
    }
    let killed = every_job().filter(|trace| trace.truth.oom_at_nanos.is_some());
    assert!((60..160).contains(&killed.count()));
}

#[test]
fn the_simulated_jobs_stay_the_same_from_version_to_version() {
    // As for the shapes: a change makes older figures incomparable, and the page has to say so.
    let mut points = 0;
    let mut ends_secs = 0.0;
    let mut shares = 0.0;
    for trace in every_job() {
        points += trace.points.len();
        ends_secs += trace.duration_secs();
        let share = |used: f64, limit: Option<f64>| used / limit.unwrap();
        let used = trace
            .points
            .iter()
            .map(|it| share(it.used_bytes, it.limit_bytes));
        shares += used.sum::<f64>() / trace.points.len() as f64;
    }
    let fingerprint = format!("{points} {ends_secs:.0} {shares:.3}");
    assert_eq!(fingerprint, "554720 783312 201.030");
}
