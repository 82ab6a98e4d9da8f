//! Mean, spread and quantiles, right for constant, tiny and huge values.

use serde::Serialize;

/// The arithmetic mean; of nothing, `None`.
///
/// Summed as distances from the smallest value: equal values then give exactly themselves, so a constant group spreads by exactly zero.
pub fn mean(values: &[f64]) -> Option<f64> {
    let smallest = values.iter().copied().reduce(f64::min)?;
    let largest = values.iter().copied().fold(smallest, f64::max);
    let count = values.len() as f64;
    let above: f64 = values.iter().map(|value| value - smallest).sum();
    let mean = smallest + above / count;
    if mean.is_finite() {
        // What the distances from the mean add up to is its rounding error.
        let rest: f64 = values.iter().map(|value| value - mean).sum();
        return Some((mean + rest / count).clamp(smallest, largest));
    }
    // The sum left the range of a double; the mean itself cannot.
    let mean: f64 = values.iter().map(|value| value / count).sum();
    Some(mean.clamp(smallest, largest))
}

/// The standard deviation with divisor `count - ddof`; `None` where that is not positive.
///
/// Two passes, with distances scaled by the largest of them: squares neither overflow nor vanish.
pub fn deviation(values: &[f64], ddof: usize) -> Option<f64> {
    let divisor = values.len().checked_sub(ddof).filter(|n| *n > 0)? as f64;
    let mean = mean(values)?;
    let farthest = values
        .iter()
        .map(|value| (value - mean).abs())
        .fold(0.0, f64::max);
    if farthest == 0.0 {
        return Some(0.0);
    }
    if farthest.is_infinite() {
        let quarters: Vec<f64> = values.iter().map(|value| value / 4.0).collect();
        return deviation(&quarters, ddof).map(|quarter| quarter * 4.0);
    }
    let (squares, rest) = values.iter().fold((0.0, 0.0), |(squares, rest), value| {
        let distance = (value - mean) / farthest;
        (squares + distance * distance, rest + distance)
    });
    // The distances from an exact mean add up to zero; what they add up to is the mean's rounding error.
    let corrected: f64 = squares - rest * rest / values.len() as f64;
    Some(farthest * (corrected.max(0.0) / divisor).sqrt())
}

/// The sample standard deviation, as TRL and `torch.std` have it.
pub fn sample_deviation(values: &[f64]) -> Option<f64> {
    deviation(values, 1)
}

/// A quantile of ascending values, interpolated linearly between neighbours (numpy's default).
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let (low, high) = (sorted[below], sorted[(below + 1).min(last)]);
    let part = position - below as f64;
    // Equal neighbours are returned as they are: weighting them would round.
    Some(if low == high {
        low
    } else {
        low * (1.0 - part) + high * part
    })
}

/// Ascending copy of the finite values.
pub fn finite_sorted(values: &[f64]) -> Vec<f64> {
    let mut finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    finite.sort_unstable_by(f64::total_cmp);
    finite
}

/// The value where it is a number.
pub fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// A part of a whole; of nothing, `None`.
pub fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Mean and three quantiles of a quantity that each group has one of.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spectrum {
    /// Mean over the groups.
    pub mean: Option<f64>,
    /// A tenth of the groups are at or below.
    pub p10: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// Nine tenths of the groups are at or below.
    pub p90: Option<f64>,
    /// How many groups had the quantity.
    pub groups: usize,
}

/// Mean and quantiles of finite values.
pub fn spectrum(values: &[f64]) -> Spectrum {
    let sorted = finite_sorted(values);
    Spectrum {
        mean: mean(&sorted),
        p10: quantile(&sorted, 0.1),
        p50: quantile(&sorted, 0.5),
        p90: quantile(&sorted, 0.9),
        groups: sorted.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_equal_values_is_that_value() {
        assert_eq!(mean(&[0.1; 7]), Some(0.1));
        assert_eq!(deviation(&[0.1; 7], 1), Some(0.0));
    }

    #[test]
    fn the_deviation_of_two_four_four_four_five_five_seven_nine_is_two() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(deviation(&values, 0), Some(2.0));
        let sample = sample_deviation(&values).unwrap();
        assert!((sample - (32.0f64 / 7.0).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn a_small_spread_on_a_large_level_is_kept() {
        let values = [1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0];
        assert!((sample_deviation(&values).unwrap() - 30f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn squares_neither_overflow_nor_vanish() {
        let huge = sample_deviation(&[1e300, -1e300]).unwrap();
        assert!((huge / (1e300 * 2f64.sqrt()) - 1.0).abs() < 1e-12);
        let tiny = sample_deviation(&[1e-300, -1e-300]).unwrap();
        assert!((tiny / (1e-300 * 2f64.sqrt()) - 1.0).abs() < 1e-12);
        assert_eq!(mean(&[f64::MAX, f64::MAX]), Some(f64::MAX));
        let widest = deviation(&[f64::MAX, -f64::MAX, 0.0, 0.0, 0.0], 0).unwrap();
        assert!((widest / (f64::MAX * 0.4f64.sqrt()) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_value_has_a_mean_and_no_sample_deviation() {
        assert_eq!(mean(&[3.0]), Some(3.0));
        assert_eq!(sample_deviation(&[3.0]), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(deviation(&[], 0), None);
    }

    #[test]
    fn quantiles_lie_between_neighbours_as_in_numpy() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&sorted, 0.5), Some(2.5));
        assert!((quantile(&sorted, 0.1).unwrap() - 1.3).abs() < 1e-15);
        assert_eq!(quantile(&sorted, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
