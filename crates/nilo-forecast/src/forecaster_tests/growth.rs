//! Growth that lasts: what is a leak, what was loaded, and what has stopped.

use super::{GIB, reading, watch};
use crate::{Forecaster, GrowthKind, Reading};

#[test]
fn nothing_is_foretold_without_a_limit_and_growth_is_found_all_the_same() {
    let mut forecaster = Forecaster::new();
    let unlimited = |t: f64| Reading {
        limit_bytes: None,
        ..reading(t, 4.0 + t * 0.005)
    };
    assert_eq!(watch(&mut forecaster, 1000, unlimited), None);
    let growth = forecaster.growth(0.1 * GIB).unwrap();
    assert_eq!(growth.kind, GrowthKind::Leak);
    assert!((growth.bytes_per_sec / (0.005 * GIB) - 1.0).abs() < 0.02);
}

#[test]
fn a_leak_that_begins_late_is_one_when_it_has_lasted() {
    let mut forecaster = Forecaster::new();
    watch(&mut forecaster, 3000, |t| {
        reading(t, 4.0 + (t - 2000.0).max(0.0) * 0.002)
    });
    assert_eq!(forecaster.growth(0.1 * GIB).unwrap().kind, GrowthKind::Leak);
}

#[test]
fn growth_that_dies_away_is_no_leak() {
    let mut forecaster = Forecaster::new();
    watch(&mut forecaster, 3600, |t| {
        reading(t, 4.0 + 1.5 * (1.0 + t / 60.0).ln())
    });
    let growth = forecaster.growth(0.1 * GIB);
    assert!(growth.is_none_or(|growth| growth.kind == GrowthKind::Growth));
}

/// What is said of growth after ten readings a second.
fn kind_after(
    secs: f64,
    level: impl Fn(f64) -> f64,
    step: impl Fn(f64) -> Option<i64>,
) -> Option<GrowthKind> {
    let mut forecaster = Forecaster::new();
    for at in 0..(secs * 10.0) as u32 {
        let t = f64::from(at) / 10.0;
        forecaster.observe(&Reading {
            step: step(t),
            ..reading(t, level(t))
        });
    }
    forecaster.growth(0.16 * GIB).map(|growth| growth.kind)
}

/// Loading at 20 MiB a second, then nothing more.
fn loaded(t: f64, loading_secs: f64) -> f64 {
    1.0 + 0.02 * t.min(loading_secs)
}

#[test]
fn loading_that_is_over_is_no_leak_once_the_level_stands_still() {
    for (loading_secs, still_secs) in [
        (12.0, 4.0),
        (30.0, 8.0),
        (60.0, 10.0),
        (100.0, 20.0),
        (600.0, 120.0),
        (600.0, 90.0),
        (300.0, 300.0),
    ] {
        let kind = kind_after(
            loading_secs + still_secs,
            |t| loaded(t, loading_secs),
            |_| None,
        );
        assert_eq!(kind, None, "{loading_secs} s, then {still_secs} s");
    }
}

#[test]
fn loading_is_no_leak_once_training_brings_nothing() {
    for (loading_secs, training_secs, step_secs) in [
        (12.0, 3.0, 0.02),
        (30.0, 8.0, 0.02),
        (60.0, 3.0, 0.02),
        (100.0, 5.0, 0.05),
        (600.0, 20.0, 0.2),
    ] {
        let step = |t: f64| (t >= loading_secs).then(|| ((t - loading_secs) / step_secs) as i64);
        let kind = kind_after(
            loading_secs + training_secs,
            |t| loaded(t, loading_secs),
            step,
        );
        assert_eq!(
            kind, None,
            "{loading_secs} s, then {training_secs} s of steps"
        );
    }
}

/// Twenty seconds of growth and three of standing still may be loading, or a leak and the writing of a report.
#[test]
fn growth_that_stopped_a_moment_ago_is_no_leak_and_not_nothing() {
    let paused_after = |still_secs: f64| {
        let mut forecaster = Forecaster::new();
        for tick in 0..((20.0 + still_secs) * 10.0) as u32 {
            let t = f64::from(tick) / 10.0;
            forecaster.observe(&reading(t, 0.1 + 0.12 * t.min(20.0)));
        }
        assert_eq!(forecaster.growth(0.1 * GIB), None, "{still_secs}");
        forecaster.paused_growth(0.1 * GIB)
    };
    let paused = paused_after(3.0).unwrap();
    assert!(
        (2.0 * GIB..2.41 * GIB).contains(&paused.grown_bytes),
        "{paused:?}"
    );
    assert!((17.0..21.0).contains(&paused.lasted_secs), "{paused:?}");
    assert!((2.0..4.5).contains(&paused.paused_secs), "{paused:?}");
    // By then it has loaded.
    assert_eq!(paused_after(10.0), None);
    assert_eq!(paused_after(60.0), None);
}

#[test]
fn a_leak_that_pauses_stays_one() {
    // Grows for 30 s, pauses for 10.
    let level = |t: f64| 1.0 + 0.02 * (30.0 * (t / 40.0).floor() + (t % 40.0).min(30.0));
    for secs in (100..600).step_by(7) {
        let kind = kind_after(f64::from(secs), level, |_| None);
        assert_eq!(kind, Some(GrowthKind::Leak), "after {secs} s");
    }
}

#[test]
fn a_leak_is_one_after_the_last_evaluation_too() {
    let level = |t: f64| 1.0 + 0.02 * t.min(300.0);
    let step = |t: f64| Some((t.min(300.0) / 0.25) as i64);
    assert_eq!(kind_after(360.0, level, step), Some(GrowthKind::Leak));
    // The same with steps that go on: the leak is over.
    let step = |t: f64| Some((t / 0.25) as i64);
    assert_eq!(kind_after(360.0, level, step), None);
}

#[test]
fn growth_that_stands_still_at_its_limit_is_not_over() {
    let until = |full: f64| move |t: f64| (1.0 + 0.025 * t).min(full);
    assert_eq!(
        kind_after(720.0, until(15.8), |_| None),
        Some(GrowthKind::Leak)
    );
    assert_eq!(kind_after(720.0, until(15.0), |_| None), None);
}

#[test]
fn a_leak_slower_than_the_loading_before_it_is_found() {
    let level = |t: f64| loaded(t, 60.0) + 0.002 * (t - 60.0).max(0.0);
    let step = |t: f64| (t >= 60.0).then(|| ((t - 60.0) / 0.25) as i64);
    assert_eq!(kind_after(300.0, level, step), Some(GrowthKind::Leak));
}
