//! The forecaster as a whole: what must be said, what must not be said, and what must not happen.

mod any_series;
mod growth;
mod growth_amounts;
mod staircases;
mod workers;

use crate::{Cause, Forecaster, Reading, RiskLevel};

const GIB: f64 = 1073741824.0;
const MIB: f64 = 1048576.0;

fn reading(secs: f64, used: f64) -> Reading {
    Reading {
        time_nanos: (secs * 1e9) as u64,
        used_bytes: used * GIB,
        limit_bytes: Some(16.0 * GIB),
        ..Reading::default()
    }
}

/// Feeds one reading a second and gives the first second at which the level was high.
fn watch(forecaster: &mut Forecaster, secs: u32, reading: impl Fn(f64) -> Reading) -> Option<u32> {
    let mut alarm = None;
    for second in 0..secs {
        forecaster.observe(&reading(f64::from(second)));
        if forecaster.forecast().level >= RiskLevel::High {
            alarm.get_or_insert(second);
        }
    }
    alarm
}

fn alarm(secs: u32, reading: impl Fn(f64) -> Reading) -> Option<u32> {
    watch(&mut Forecaster::new(), secs, reading)
}

#[test]
fn a_steady_leak_is_foretold_with_its_time() {
    let mut forecaster = Forecaster::new();
    // 4 GiB at first, 16 GiB after 2400 s.
    let alarm = watch(&mut forecaster, 2000, |t| reading(t, 4.0 + t * 0.005)).unwrap();
    assert!((1750..1900).contains(&alarm), "{alarm}");
    let forecast = forecaster.forecast();
    let (low, high) = (
        forecast.seconds_low.unwrap(),
        forecast.seconds_high.unwrap(),
    );
    assert!(low < 400.0 && 400.0 < high, "{forecast:?}");
    assert!(forecast.confidence > 0.8);
    assert_eq!(forecast.cause, Some(Cause::Growth));
}

#[test]
fn a_sawtooth_under_the_limit_is_calm() {
    assert_eq!(alarm(3600, |t| reading(t, 6.0 + (t % 40.0) * 0.2)), None);
}

#[test]
fn a_plateau_near_the_limit_is_calm() {
    let level = |t: f64| 14.8 - 12.0 * (-t / 90.0).exp();
    assert_eq!(alarm(3600, |t| reading(t, level(t))), None);
}

#[test]
fn a_cache_full_to_the_brim_is_calm_while_little_is_allocated() {
    let torch = |t: f64| Reading {
        held_bytes: Some((3.0 + (t % 3.0)) * GIB),
        ..reading(t, (4.0 + (t / 20.0).floor() * 3.0).min(15.9))
    };
    assert_eq!(alarm(1800, torch), None);
}

#[test]
fn a_reserve_that_creeps_to_the_limit_is_fragmentation() {
    let mut forecaster = Forecaster::new();
    let torch = |t: f64| Reading {
        held_bytes: Some((5.0 + (t % 3.0)) * GIB),
        ..reading(t, 6.0 + (t / 45.0).floor() * 0.2)
    };
    assert!(watch(&mut forecaster, 2100, torch).is_some());
    assert_eq!(forecaster.forecast().cause, Some(Cause::Fragmentation));
}

#[test]
fn workers_that_are_replaced_each_epoch_alarm_nobody_after_the_first() {
    let epoch = |t: f64| t % 600.0 * 0.012;
    let workers = |t: f64| Reading {
        children_bytes: Some((1.0 + epoch(t)) * GIB),
        ..reading(t, 4.0 + epoch(t))
    };
    assert_eq!(alarm(3600, workers), None);
}

#[test]
fn a_slow_leak_under_recurring_spikes_is_foretold_from_the_spikes() {
    let mut forecaster = Forecaster::new();
    let spiky = |t: f64| {
        let spike = if t % 300.0 < 8.0 { 4.0 } else { 0.0 };
        reading(t, 5.0 + t * 0.003 + spike)
    };
    // The base alone would reach the limit after 3,667 s; with a spike on top it is 2,333 s.
    let alarm = watch(&mut forecaster, 2300, spiky).unwrap();
    assert!((1500..2300).contains(&alarm), "{alarm}");
    assert_eq!(forecaster.forecast().cause, Some(Cause::Peaks));
}

#[test]
fn full_memory_with_free_swap_is_calm_and_filling_swap_is_not() {
    let swapping = |t: f64| Reading {
        swap_total_bytes: Some(8.0 * GIB),
        swap_used_bytes: Some(((t - 400.0).max(0.0) * 0.004).min(8.0) * GIB),
        ..reading(t, (8.0 + t * 0.02).min(15.7))
    };
    let alarm = alarm(2400, swapping).unwrap();
    assert!(alarm > 1700, "{alarm}");
}

#[test]
fn a_neighbour_is_named() {
    let mut forecaster = Forecaster::new();
    let host = |t: f64| Reading {
        own_bytes: Some(3.0 * GIB),
        ..reading(t, 6.0 + t * 0.005)
    };
    assert!(watch(&mut forecaster, 1900, host).is_some());
    assert_eq!(forecaster.forecast().cause, Some(Cause::Neighbour));
}

#[test]
fn a_limit_that_is_raised_ends_the_alarm() {
    let mut forecaster = Forecaster::new();
    watch(&mut forecaster, 2200, |t| reading(t, 4.0 + t * 0.005));
    assert!(forecaster.forecast().level >= RiskLevel::High);
    for second in 2200..2400 {
        let t = f64::from(second);
        forecaster.observe(&Reading {
            limit_bytes: Some(64.0 * GIB),
            ..reading(t, 4.0 + t * 0.005)
        });
    }
    assert!(forecaster.forecast().level < RiskLevel::High);
}

#[test]
fn no_slope_runs_across_a_gap() {
    // Flat before and after, but 6 GiB higher after an hour of silence.
    let gap = |t: f64| {
        reading(
            if t < 900.0 { t } else { t + 3600.0 },
            if t < 900.0 { 5.0 } else { 11.0 },
        )
    };
    assert_eq!(alarm(1800, gap), None);
}

#[test]
fn a_leak_of_381_mib_a_minute_under_900_mib_alarms_by_half_of_the_time_left() {
    let mib = GIB / 1024.0;
    let leak = |t: f64| Reading {
        used_bytes: (12.0 + 381.0 / 60.0 * t) * mib,
        limit_bytes: Some(900.0 * mib),
        ..reading(t, 0.0)
    };
    // Killed after 140 s and established after 30 s.
    let mut forecaster = Forecaster::new();
    let alarm = watch(&mut forecaster, 139, leak).unwrap();
    assert!((60..=85).contains(&alarm), "{alarm}");
    assert!(forecaster.forecast().level >= RiskLevel::High);
    assert_eq!(forecaster.forecast().cause, Some(Cause::Growth));
    assert!(forecaster.forecast().confidence >= 0.5);
}

#[test]
fn uneven_growth_has_a_wider_interval_than_a_line() {
    let width = |level: fn(f64) -> f64| {
        let mut forecaster = Forecaster::new();
        watch(&mut forecaster, 1500, |t| reading(t, level(t)));
        let forecast = *forecaster.forecast();
        forecast.seconds_high.unwrap() / forecast.seconds_low.unwrap()
    };
    let line = width(|t| 4.0 + t * 0.006);
    let bent = width(|t| 4.0 + 9.0 * (t / 1500.0).powi(2));
    assert!(bent > 1.1 * line, "{bent} {line}");
}

#[test]
fn who_makes_a_growth_does_not_change_with_every_look() {
    let mut forecaster = Forecaster::new();
    let mut causes = Vec::new();
    for tick in 0..900 {
        let t = f64::from(tick) * 0.1;
        // The job makes 30 % of it, in lumps.
        let job = 0.5 + 0.045 * (t / 1.7).floor() * 1.7;
        forecaster.observe(&Reading {
            job_bytes: Some(job * GIB),
            is_shared: true,
            ..reading(t, 1.0 + 0.105 * t + job)
        });
        causes.extend(forecaster.forecast().cause);
    }
    causes.dedup();
    assert!(causes.len() <= 4, "{causes:?}");
    assert_eq!(causes.last(), Some(&Cause::Neighbour), "{causes:?}");
}
