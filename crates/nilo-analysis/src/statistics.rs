//! Figures over plain numbers: mean, spread and quantiles.
//!
//! All of them expect finite values; callers leave out and count what is not.

/// Mean and standard deviation, divided by n as NumPy does by default.
pub fn mean_and_std(values: &[f64]) -> (Option<f64>, Option<f64>) {
    if values.is_empty() {
        return (None, None);
    }
    // Scaled by the largest, so that neither the sum nor the squares overflow.
    let largest = values
        .iter()
        .fold(0.0f64, |most, value| most.max(value.abs()));
    if largest == 0.0 {
        return (Some(0.0), Some(0.0));
    }
    let count = values.len() as f64;
    // By a power of two, which changes no digit.
    let scale = power_of_two_of(largest);
    let scaled = || values.iter().map(|value| value / scale);
    let mean = compensated_sum(scaled()) / count;
    // A second pass: a sum of squares would swallow small differences on a large level.
    let variance = scaled().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (Some(mean * scale), Some(variance.sqrt() * scale))
}

/// A power of two of about the size of a positive number, which can be multiplied with and divided by.
fn power_of_two_of(number: f64) -> f64 {
    let exponent_bits = number.to_bits() & f64::INFINITY.to_bits();
    f64::from_bits(exponent_bits).max(f64::MIN_POSITIVE)
}

/// The sum with what each addition rounds off (Neumaier): the mean of 100 to 104 is 102, not just below.
fn compensated_sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0f64);
    for value in values {
        let next = sum + value;
        lost += match sum.abs() >= value.abs() {
            true => (sum - next) + value,
            false => (value - next) + sum,
        };
        sum = next;
    }
    sum + lost
}

/// The value below which a share of all lies, straight between its neighbours (NumPy's default); reorders the values.
pub fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = (place.floor() as usize).min(last);
    let (_, lower, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let lower = *lower;
    let upper = above.iter().copied().reduce(f64::min).unwrap_or(lower);
    let part = place - below as f64;
    // Weighted, not by the difference, which may be too large for a number.
    Some(lower * (1.0 - part) + upper * part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_answers() {
        let (mean, std) = mean_and_std(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(mean, Some(5.0));
        assert!((std.unwrap() - 2.0).abs() < 1e-12);
        let mut values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&mut values, 0.5), Some(2.5));
        assert!((quantile(&mut values, 0.95).unwrap() - 3.85).abs() < 1e-12);
        assert_eq!(quantile(&mut values, 1.0), Some(4.0));
    }

    #[test]
    fn the_mean_of_numbers_with_an_exact_one_is_exact() {
        for first in 1..200 {
            let values: Vec<f64> = (0..5).map(|i| f64::from(first + i)).collect();
            assert_eq!(mean_and_std(&values).0, Some(f64::from(first + 2)));
        }
        assert_eq!(mean_and_std(&[1e16, 1.0, -1e16, 1.0]).0, Some(0.5));
        assert_eq!(mean_and_std(&[f64::MAX; 3]).0, Some(f64::MAX));
        let smallest = f64::from_bits(1);
        assert_eq!(mean_and_std(&[smallest; 3]).0, Some(smallest));
    }

    #[test]
    fn nothing_has_no_figures_and_one_value_no_spread() {
        assert_eq!(mean_and_std(&[]), (None, None));
        assert_eq!(mean_and_std(&[3.0]), (Some(3.0), Some(0.0)));
        assert_eq!(quantile(&mut [], 0.5), None);
        assert_eq!(quantile(&mut [3.0], 0.95), Some(3.0));
    }

    #[test]
    fn a_small_spread_on_a_large_level_is_not_lost() {
        let values: Vec<f64> = (0..1000).map(|i| 1e9 + f64::from(i % 2)).collect();
        let (_, std) = mean_and_std(&values);
        assert!((std.unwrap() - 0.5).abs() < 1e-4, "{std:?}");
    }

    proptest! {
        #[test]
        fn quantiles_lie_between_the_extremes(values in prop::collection::vec(-1e300..1e300f64, 1..60), share in 0.0..=1.0f64) {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let found = quantile(&mut values.clone(), share).unwrap();
            prop_assert!(found >= sorted[0] && found <= sorted[sorted.len() - 1]);
        }

        #[test]
        fn any_numbers_are_survived(bits in prop::collection::vec(any::<u64>(), 0..60)) {
            let mut values: Vec<f64> = bits.iter().copied().map(f64::from_bits).filter(|v| v.is_finite()).collect();
            let (mean, std) = mean_and_std(&values);
            prop_assert!(mean.is_none_or(f64::is_finite) && std.is_none_or(f64::is_finite));
            let _ = quantile(&mut values, 0.5);
        }
    }
}
