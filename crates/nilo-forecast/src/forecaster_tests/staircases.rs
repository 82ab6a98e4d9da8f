//! Levels that rise in steps.

use super::{GIB, alarm, reading, watch};
use crate::{Cause, Forecaster, Reading, RiskLevel};

/// A batch that is raised every 25 seconds: peaks rise in steps of `height` GiB over a base that stays.
fn ramp(t: f64, steps: f64, height: f64) -> Reading {
    let raised = ((t - 100.0) / 25.0).ceil().clamp(0.0, steps);
    let is_peak = (t as u32).is_multiple_of(3);
    Reading {
        step: Some((t / 0.5) as i64),
        ..reading(t, 3.0 + if is_peak { 1.0 + height * raised } else { 0.0 })
    }
}

#[test]
fn a_batch_size_ramp_is_foretold_from_the_height_of_its_next_step() {
    let mut forecaster = Forecaster::new();
    // The sixth step would need 16.6 GiB; before it, 14.5 GiB were the most.
    let alarm = watch(&mut forecaster, 224, |t| ramp(t, 9.0, 2.1)).unwrap();
    assert!((150..224).contains(&alarm), "{alarm}");
    let forecast = forecaster.forecast();
    assert_eq!(forecast.cause, Some(Cause::Stairs));
    assert!(
        (forecast.peak_height_bytes / GIB - 2.1).abs() < 0.2,
        "{forecast:?}"
    );
    let (low, high) = (
        forecast.seconds_low.unwrap(),
        forecast.seconds_high.unwrap(),
    );
    assert!(low < 30.0 && high > 2.0, "{forecast:?}");
}

#[test]
fn steps_that_double_are_foretold_to_double_again() {
    let level = |t: f64| 1.0 + 0.4 * (t / 30.0).floor().exp2();
    let doubling = |t: f64| Reading {
        step: Some(t as i64),
        ..reading(t, level(t))
    };
    let mut forecaster = Forecaster::new();
    // 7.4 GiB from 120 s on, 13.8 GiB from 150 s on, 26.6 GiB would be next.
    assert!(watch(&mut forecaster, 175, doubling).is_some());
    assert_eq!(forecaster.forecast().cause, Some(Cause::Stairs));
}

#[test]
fn a_staircase_that_has_ended_is_calm() {
    let mut forecaster = Forecaster::new();
    watch(&mut forecaster, 400, |t| ramp(t, 5.0, 2.1));
    assert!(forecaster.forecast().level < RiskLevel::High);
}

#[test]
fn shards_that_are_loaded_alarm_nobody() {
    let shards = |t: f64| reading(t, 0.2 + 1.6 * (t / 6.0).ceil().min(8.0));
    assert_eq!(alarm(600, shards), None);
}

#[test]
fn one_rise_is_no_staircase() {
    let once = |t: f64| Reading {
        step: Some(t as i64),
        ..reading(t, if t < 300.0 { 5.0 } else { 12.0 })
    };
    assert_eq!(alarm(900, once), None);
}

#[test]
fn an_alarm_is_told_with_more_confidence_than_anything_that_is_none() {
    // Steps of 5 % of the limit every 8 seconds: some judgements find a leak, those between them do not.
    for phase in [0.0, 2.0, 4.0, 6.5] {
        let mut forecaster = Forecaster::new();
        let (mut most_below, mut least_of_alarms) = (0.0_f64, 1.0_f64);
        for tick in 0..1450 {
            let t = f64::from(tick) * 0.1;
            let steps = ((t + phase) / 8.0).floor() + 1.0;
            forecaster.observe(&reading(t, 0.2 + 0.8 * steps));
            let forecast = forecaster.forecast();
            match forecast.level {
                RiskLevel::High | RiskLevel::Critical => {
                    least_of_alarms = least_of_alarms.min(forecast.confidence);
                }
                _ => most_below = most_below.max(forecast.confidence),
            }
        }
        assert!(most_below > 0.0 && least_of_alarms < 1.0, "{phase}");
        assert!(
            most_below < least_of_alarms,
            "{phase}: {most_below} {least_of_alarms}"
        );
    }
}
