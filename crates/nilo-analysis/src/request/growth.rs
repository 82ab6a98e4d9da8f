//! Is memory still growing at the end of a run? Then its peak says nothing about a longer one.

use nilo_sample::SeriesView;
use nilo_sample::units::{MIB, NANOS_PER_SEC};
use serde::Serialize;

use crate::statistics::quantile;

/// Growth that had not ended when the run did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Growth {
    /// How fast, over the last two thirds of the run.
    pub bytes_per_sec: f64,
}

/// Fewer samples show no trend.
const LEAST_SAMPLES: usize = 30;
/// The last two thirds are looked at in this many pieces.
const PIECES: usize = 6;
/// The low edge of a piece: a sawtooth's troughs, and not one dip.
const LOW_EDGE: f64 = 0.1;
/// Growth below this share of the peak, or below this many bytes, is noise.
const LEAST_RATIO: f64 = 0.01;
const LEAST_BYTES: f64 = 16.0 * MIB as f64;

/// Looks at the low edge of memory over the last two thirds of a run.
///
/// It counts as growing when the edge rises from piece to piece (one exception is allowed),
/// by a material amount, and does not slow down to less than half of its pace.
pub fn still_growing(level: SeriesView<'_>) -> Option<Growth> {
    let points: Vec<(u64, f64)> = level.present().filter(|(_, v)| v.is_finite()).collect();
    if points.len() < LEAST_SAMPLES {
        return None;
    }
    let (first, last) = (points.first()?.0, points.last()?.0);
    let warm = first + (last - first) / 3;
    let piece_nanos = (last - warm) as f64 / PIECES as f64;
    if piece_nanos <= 0.0 {
        return None;
    }
    let mut pieces: Vec<Vec<f64>> = vec![Vec::new(); PIECES];
    for (time, value) in points.iter().filter(|(time, _)| *time >= warm) {
        let piece = ((time - warm) as f64 / piece_nanos) as usize;
        pieces[piece.min(PIECES - 1)].push(*value);
    }
    let edges: Option<Vec<f64>> = pieces
        .iter_mut()
        .map(|values| quantile(values, LOW_EDGE))
        .collect();
    let edges = edges?;
    let rises = edges.windows(2).filter(|pair| pair[1] > pair[0]).count();
    let peak = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let middle = edges[PIECES / 2];
    let (early, late) = (middle - edges[0], edges[PIECES - 1] - middle);
    let grown = early + late;
    let material = grown >= (LEAST_RATIO * peak).max(LEAST_BYTES);
    // The second half has one transition less than the first.
    let goes_on = late * 3.0 / 2.0 >= 0.5 * early;
    let seconds = piece_nanos * (PIECES - 1) as f64 / NANOS_PER_SEC as f64;
    (rises >= PIECES - 2 && material && goes_on).then_some(Growth {
        bytes_per_sec: grown / seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn growth(level: impl Fn(f64) -> f64) -> Option<Growth> {
        let times: Vec<u64> = (0..600).map(|tick| tick * NANOS_PER_SEC).collect();
        let values: Vec<f64> = (0..600).map(|tick| level(f64::from(tick)) * 1e9).collect();
        still_growing(SeriesView {
            times: &times,
            values: &values,
        })
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
        assert_eq!(still_growing(view), None);
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
