//! Three ways two columns can go together: Pearson, Spearman and Kendall's tau-b.
//!
//! Each takes columns of equal length and leaves out the pairs in which either value is not finite.
//! A constant column goes together with nothing: the answer is `None`, not zero.

use std::ops::AddAssign;

use super::moments::mean;

/// The pairs in which both values are finite, as two columns.
pub fn complete_pairs(left: &[f64], right: &[f64]) -> (Vec<f64>, Vec<f64>) {
    left.iter()
        .zip(right)
        .filter(|(left, right)| left.is_finite() && right.is_finite())
        .map(|(left, right)| (*left, *right))
        .unzip()
}

/// Pearson's correlation: how close to a straight line.
pub fn pearson(left: &[f64], right: &[f64]) -> Option<f64> {
    let (left, right) = complete_pairs(left, right);
    cosine(&centred(&left)?, &centred(&right)?)
}

/// Spearman's correlation: Pearson's of the ranks over all pairs.
pub fn spearman(left: &[f64], right: &[f64]) -> Option<f64> {
    let (left, right) = complete_pairs(left, right);
    pearson(&average_ranks(&left), &average_ranks(&right))
}

/// The cosine of the angle between two columns.
pub fn cosine(left: &[f64], right: &[f64]) -> Option<f64> {
    let product: f64 = left.iter().zip(right).map(|(l, r)| l * r).sum();
    let left_length: f64 = left.iter().map(|value| value * value).sum();
    let right_length: f64 = right.iter().map(|value| value * value).sum();
    let lengths = (left_length * right_length).sqrt();
    (lengths > 0.0 && lengths.is_finite()).then(|| (product / lengths).clamp(-1.0, 1.0))
}

/// Distances from the mean, the farthest being one, so that products stay in range; `None` of a constant column.
fn centred(values: &[f64]) -> Option<Vec<f64>> {
    let magnitude = values.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    // Quartered where a difference of two values could overflow.
    let unit = if magnitude > f64::MAX / 4.0 {
        0.25
    } else {
        1.0
    };
    let scaled: Vec<f64> = values.iter().map(|value| value * unit).collect();
    let mean = mean(&scaled)?;
    let farthest = scaled
        .iter()
        .fold(0.0f64, |most, value| most.max((value - mean).abs()));
    (farthest > 0.0).then(|| {
        scaled
            .iter()
            .map(|value| (value - mean) / farthest)
            .collect()
    })
}

/// Ranks from 1 for the smallest; equal values share the mean of the ranks they take up.
pub fn average_ranks(values: &[f64]) -> Vec<f64> {
    // Values and their places side by side: sorting places alone would jump about in memory.
    let mut order: Vec<(f64, usize)> = values.iter().copied().zip(0..).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![0.0; values.len()];
    let mut below = 0;
    for tied in order.chunk_by(|a, b| a.0 == b.0) {
        let shared = below as f64 + (tied.len() + 1) as f64 / 2.0;
        for (_, index) in tied {
            ranks[*index] = shared;
        }
        below += tied.len();
    }
    ranks
}

/// Pairs of answers as Kendall's tau counts them; those of several groups add up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PairCounts {
    /// Pairs that both columns order the same way, less those they order oppositely.
    pub agreement: f64,
    /// Pairs that the left column orders at all.
    pub ordered_left: f64,
    /// Pairs that the right column orders at all.
    pub ordered_right: f64,
}

impl PairCounts {
    /// Kendall's tau-b; `None` where a column orders no pair.
    pub fn tau_b(self) -> Option<f64> {
        let scale = (self.ordered_left * self.ordered_right).sqrt();
        (scale > 0.0).then(|| (self.agreement / scale).clamp(-1.0, 1.0))
    }
}

impl AddAssign for PairCounts {
    fn add_assign(&mut self, other: Self) {
        self.agreement += other.agreement;
        self.ordered_left += other.ordered_left;
        self.ordered_right += other.ordered_right;
    }
}

/// Counts ordered pairs by Knight's method: sort by the left column, then count the exchanges that sort the right one.
pub fn pair_counts(left: &[f64], right: &[f64]) -> PairCounts {
    let mut pairs: Vec<(f64, f64)> = left
        .iter()
        .zip(right)
        .filter(|(left, right)| left.is_finite() && right.is_finite())
        // Adding zero turns -0.0 into 0.0, which sorting by total order would keep apart.
        .map(|(left, right)| (left + 0.0, right + 0.0))
        .collect();
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let all = pairs_among(pairs.len());
    let tied_left = tied_pairs(&pairs, |a, b| a.0 == b.0);
    let tied_both = tied_pairs(&pairs, |a, b| a == b);
    let mut column: Vec<f64> = pairs.into_iter().map(|pair| pair.1).collect();
    let exchanges = sort_counting_exchanges(&mut column);
    let tied_right = tied_pairs(&column, |a, b| a == b);
    PairCounts {
        agreement: all - tied_left - tied_right + tied_both - 2.0 * exchanges,
        ordered_left: all - tied_left,
        ordered_right: all - tied_right,
    }
}

/// Pairs among so many things.
pub fn pairs_among(count: usize) -> f64 {
    count as f64 * (count as f64 - 1.0) / 2.0
}

/// Pairs of equal values among sorted ones.
pub fn tied_pairs<T>(sorted: &[T], equal: impl Fn(&T, &T) -> bool) -> f64 {
    sorted
        .chunk_by(equal)
        .map(|tied| pairs_among(tied.len()))
        .sum()
}

/// Merge sort that counts how many pairs stood in the wrong order.
fn sort_counting_exchanges(values: &mut [f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let (low, high) = values.split_at_mut(values.len() / 2);
    let mut exchanges = sort_counting_exchanges(low) + sort_counting_exchanges(high);
    let mut merged = Vec::with_capacity(low.len() + high.len());
    let (mut from_low, mut from_high) = (0, 0);
    while from_low < low.len() && from_high < high.len() {
        if low[from_low] <= high[from_high] {
            merged.push(low[from_low]);
            from_low += 1;
        } else {
            exchanges += (low.len() - from_low) as f64;
            merged.push(high[from_high]);
            from_high += 1;
        }
    }
    merged.extend_from_slice(&low[from_low..]);
    merged.extend_from_slice(&high[from_high..]);
    values.copy_from_slice(&merged);
    exchanges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every pair looked at, straight from the definition.
    fn slow_pair_counts(left: &[f64], right: &[f64]) -> PairCounts {
        let mut counts = PairCounts::default();
        for later in 0..left.len() {
            for earlier in 0..later {
                let sign = |column: &[f64]| {
                    column[later]
                        .partial_cmp(&column[earlier])
                        .map_or(0.0, |order| order as i8 as f64)
                };
                counts.agreement += sign(left) * sign(right);
                counts.ordered_left += sign(left).abs();
                counts.ordered_right += sign(right).abs();
            }
        }
        counts
    }

    #[test]
    fn ties_share_the_mean_of_their_ranks() {
        assert_eq!(average_ranks(&[0.5, 1.0, 0.5, 0.0]), [2.5, 4.0, 2.5, 1.0]);
        assert_eq!(average_ranks(&[0.0, -0.0]), [1.5, 1.5]);
    }

    #[test]
    fn a_line_correlates_fully_and_a_constant_not_at_all() {
        let line = [1.0, 2.0, 3.0];
        assert_eq!(pearson(&line, &[2.0, 4.0, 6.0]), Some(1.0));
        assert_eq!(spearman(&line, &[9.0, 4.0, 1.0]), Some(-1.0));
        assert_eq!(pearson(&line, &[5.0; 3]), None);
        assert_eq!(pearson(&[], &[]), None);
        assert_eq!(pair_counts(&line, &[5.0; 3]).tau_b(), None);
    }

    #[test]
    fn a_pair_with_a_missing_value_is_left_out() {
        let left = [1.0, 2.0, f64::NAN, 4.0];
        let right = [1.0, 2.0, -9.0, f64::INFINITY];
        assert_eq!(pearson(&left, &right), Some(1.0));
        assert_eq!(pair_counts(&left, &right).ordered_left, 1.0);
    }

    #[test]
    fn tau_b_by_hand() {
        // Six pairs; (1,2) tied on the left, (2,3) tied on the right; of the other four, two agree and two do not.
        let counts = pair_counts(&[1.0, 1.0, 2.0, 3.0], &[1.0, 3.0, 3.0, 2.0]);
        assert_eq!(counts.ordered_left, 5.0);
        assert_eq!(counts.ordered_right, 5.0);
        assert_eq!(counts.agreement, 0.0);
        let counts = pair_counts(&[1.0, 2.0, 3.0], &[1.0, 3.0, 2.0]);
        assert!((counts.tau_b().unwrap() - 1.0 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn huge_values_still_correlate() {
        let left = [f64::MAX, -f64::MAX, 0.0];
        assert!((pearson(&left, &[1.0, -1.0, 0.0]).unwrap() - 1.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_fast_count_is_the_slow_count(pairs in prop::collection::vec((0..6i8, 0..6i8), 0..40)) {
            let left: Vec<f64> = pairs.iter().map(|pair| pair.0 as f64).collect();
            let right: Vec<f64> = pairs.iter().map(|pair| pair.1 as f64).collect();
            prop_assert_eq!(pair_counts(&left, &right), slow_pair_counts(&left, &right));
        }

        #[test]
        fn correlations_stay_within_one(pairs in prop::collection::vec((any::<f64>(), any::<f64>()), 0..20)) {
            let (left, right): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            for answer in [pearson(&left, &right), spearman(&left, &right), pair_counts(&left, &right).tau_b()] {
                prop_assert!(answer.is_none_or(|r| (-1.0..=1.0).contains(&r)));
            }
        }
    }
}
