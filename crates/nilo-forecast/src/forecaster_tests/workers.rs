//! Worker processes that grow: when it is a leak, and when an epoch may give it back.

use super::MIB;
use crate::{Cause, Forecaster, Reading, RiskLevel};

const LIMIT_MIB: f64 = 500.0;
const MAIN_MIB: f64 = 20.0;

/// Feeds ten readings a second of workers that hold so many MiB, and gives the first second at which the level was high.
fn alarm_secs(
    forecaster: &mut Forecaster,
    secs: std::ops::Range<u32>,
    workers: impl Fn(f64) -> f64,
) -> Option<f64> {
    let mut alarm = None;
    for tick in secs.start * 10..secs.end * 10 {
        let secs = f64::from(tick) / 10.0;
        let children = workers(secs);
        forecaster.observe(&Reading {
            time_nanos: u64::from(tick) * 100_000_000,
            used_bytes: (MAIN_MIB + children) * MIB,
            limit_bytes: Some(LIMIT_MIB * MIB),
            children_bytes: Some(children * MIB),
            ..Reading::default()
        });
        if forecaster.forecast().level >= RiskLevel::High {
            alarm.get_or_insert(secs);
        }
    }
    alarm
}

#[test]
fn a_leak_in_workers_is_foretold_by_half_of_the_time_that_is_left_to_it() {
    for a_second in [8.0, 5.0, 3.0, 1.5, 1.0, 0.82] {
        let killed_secs = (LIMIT_MIB - MAIN_MIB) / a_second;
        let mut forecaster = Forecaster::new();
        let alarm = alarm_secs(&mut forecaster, 0..killed_secs as u32, |secs| {
            secs * a_second
        });
        let alarm = alarm.unwrap_or(f64::INFINITY);
        assert!(
            alarm <= (30.0 + killed_secs) / 2.0,
            "{alarm} of {killed_secs}"
        );
        let forecast = forecaster.forecast();
        assert_eq!(forecast.cause, Some(Cause::Workers));
        assert!(forecast.level >= RiskLevel::High, "it stays until the kill");
    }
}

#[test]
fn workers_that_gave_back_what_they_held_are_calm() {
    // Each epoch would reach the limit after 160 s.
    let epoch = |secs: f64| secs % 120.0 * 3.0;
    let mut forecaster = Forecaster::new();
    alarm_secs(&mut forecaster, 0..140, epoch);
    assert_eq!(alarm_secs(&mut forecaster, 140..600, epoch), None);
}

#[test]
fn workers_of_a_program_that_marks_its_epochs_are_calm_until_an_epoch_gave_nothing_back() {
    let leak = |secs: f64| secs * 1.5;
    let mut forecaster = Forecaster::new();
    forecaster.boundary();
    // The limit is reached after 320 s.
    assert_eq!(alarm_secs(&mut forecaster, 0..200, leak), None);
    // Where an epoch ended and gave nothing back, it is a leak like any other.
    forecaster.boundary();
    assert!(alarm_secs(&mut forecaster, 200..215, leak).is_some());
}

#[test]
fn workers_whose_growth_slows_down_are_calm() {
    let copied = |secs: f64| 400.0 * (secs / 300.0).powf(0.85);
    assert_eq!(alarm_secs(&mut Forecaster::new(), 0..250, copied), None);
}
