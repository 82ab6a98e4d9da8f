//! Whatever comes in, what comes out makes sense.

use proptest::prelude::*;

use super::{GIB, reading, watch};
use crate::{Forecaster, Reading, RiskLevel};

#[test]
fn empty_single_and_constant_series_say_nothing() {
    let mut forecaster = Forecaster::new();
    assert_eq!(forecaster.forecast().level, RiskLevel::Low);
    assert_eq!(forecaster.growth(0.0), None);
    forecaster.observe(&reading(0.0, 5.0));
    assert_eq!(
        (forecaster.forecast().seconds, forecaster.growth(0.0)),
        (None, None)
    );
    watch(&mut forecaster, 500, |t| reading(t + 1.0, 5.0));
    assert_eq!(
        (forecaster.forecast().seconds, forecaster.growth(0.0)),
        (None, None)
    );
}

#[test]
fn readings_that_are_no_numbers_and_times_that_go_back_are_ignored_and_counted() {
    let mut forecaster = Forecaster::new();
    forecaster.observe(&reading(10.0, 5.0));
    forecaster.observe(&reading(9.0, 5.0));
    forecaster.observe(&reading(10.0, 5.0));
    forecaster.observe(&reading(11.0, f64::NAN));
    forecaster.observe(&reading(12.0, f64::INFINITY));
    forecaster.observe(&reading(13.0, -1.0));
    assert_eq!(forecaster.ignored(), 5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever comes in, what comes out makes sense.
    #[test]
    fn any_series_gives_a_sane_answer(
        points in prop::collection::vec((0_u64..20_000_000_000, 0.0_f64..40.0, prop::option::of(0.0_f64..40.0), any::<bool>()), 0..400),
    ) {
        let mut forecaster = Forecaster::new();
        let mut time = 0;
        for (step, used, held, has_limit) in points {
            time += step;
            forecaster.observe(&Reading {
                time_nanos: time,
                held_bytes: held.map(|held| held * GIB),
                limit_bytes: has_limit.then_some(16.0 * GIB),
                ..reading(0.0, used)
            });
            let forecast = forecaster.forecast();
            prop_assert!((0.0..=1.0).contains(&forecast.confidence));
            if let (Some(low), Some(seconds), Some(high)) = (forecast.seconds_low, forecast.seconds, forecast.seconds_high) {
                prop_assert!(low.is_finite() && low >= 0.0 && low <= seconds && seconds <= high, "{:?}", forecast);
            }
        }
        let growth = forecaster.growth(0.0);
        prop_assert!(growth.is_none_or(|growth| growth.bytes_per_sec.is_finite() && growth.bytes_per_sec > 0.0));
    }

    /// Twice the memory under twice the limit is the same story.
    #[test]
    fn the_unit_does_not_matter(slope in 0.001_f64..0.01, factor in 0.01_f64..100.0) {
        let series = |scale: f64| {
            let mut forecaster = Forecaster::new();
            let at = watch(&mut forecaster, 1500, |t| Reading {
                limit_bytes: Some(16.0 * GIB * scale),
                ..reading(t, (4.0 + t * slope) * scale)
            });
            (at, forecaster.forecast().level)
        };
        prop_assert_eq!(series(1.0), series(factor));
    }
}
