//! Is memory still growing at the end of a run? Then its peak says nothing about a longer one.

use nilo_sample::SeriesView;
use nilo_sample::units::MIB;
use schemars::JsonSchema;
use serde::Serialize;

use nilo_forecast::{Forecaster, Reading};

/// Growth that had not ended when the run did.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct UnfinishedGrowth {
    /// How fast.
    pub bytes_per_sec: f64,
}

/// Growth below this share of the peak, or below this many bytes, is noise.
const LEAST_RATIO: f64 = 0.01;
const LEAST_BYTES: f64 = 16.0 * MIB as f64;

/// The growth that the leak finder sees at the end of a run, whether it is sure of a leak or not.
/// What stands still at its limit has not ended.
pub fn still_growing(level: SeriesView<'_>, limit_bytes: Option<u64>) -> Option<UnfinishedGrowth> {
    let mut forecaster = Forecaster::new();
    for (time_nanos, used_bytes) in level.present() {
        forecaster.observe(&Reading {
            time_nanos,
            used_bytes,
            limit_bytes: limit_bytes.map(|bytes| bytes as f64),
            ..Reading::default()
        });
    }
    let (_, peak) = level.max()?;
    let growth = forecaster.growth((LEAST_RATIO * peak).max(LEAST_BYTES))?;
    Some(UnfinishedGrowth {
        bytes_per_sec: growth.bytes_per_sec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::units::NANOS_PER_SEC;
    use proptest::prelude::*;

    fn growth(level: impl Fn(f64) -> f64) -> Option<UnfinishedGrowth> {
        let times: Vec<u64> = (0..600).map(|tick| tick * NANOS_PER_SEC).collect();
        let values: Vec<f64> = (0..600).map(|tick| level(f64::from(tick)) * 1e9).collect();
        still_growing(
            SeriesView {
                times: &times,
                values: &values,
            },
            None,
        )
    }

    #[test]
    fn a_leak_is_growth_with_its_speed() {
        let found = growth(|t| 1.0 + 0.002 * t).unwrap();
        assert!((found.bytes_per_sec / 2e6 - 1.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn a_leak_under_a_sawtooth_is_growth() {
        let found = growth(|t| 1.0 + 0.002 * t + (t % 7.0) / 4.0).unwrap();
        assert!((found.bytes_per_sec / 2e6 - 1.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn plateaus_steps_sawteeth_and_warm_ups_are_not() {
        assert_eq!(growth(|_| 3.0), None);
        assert_eq!(growth(|t| t % 30.0), None);
        assert_eq!(growth(|t| (t / 100.0).min(1.0)), None);
        assert_eq!(growth(|t| if t < 400.0 { 1.0 } else { 2.0 }), None);
        assert_eq!(growth(|t| 1.0 - (-t / 60.0).exp()), None);
    }

    #[test]
    fn a_few_samples_or_a_few_bytes_are_no_trend() {
        let times: Vec<u64> = (0..20).collect();
        let values: Vec<f64> = (0..20).map(|v| f64::from(v) * 1e9).collect();
        let view = SeriesView {
            times: &times,
            values: &values,
        };
        assert_eq!(still_growing(view, None), None);
        assert_eq!(growth(|t| 1.0 + 1e-6 * t), None);
    }

    proptest! {
        #[test]
        fn a_constant_with_noise_never_grows(seed in 0u64..1000) {
            let noise = |t: f64| ((t as u64 * 7919 + seed * 104_729) % 101) as f64 / 101.0;
            prop_assert_eq!(growth(|t| 10.0 + 0.5 * noise(t)), None);
        }
    }
}
