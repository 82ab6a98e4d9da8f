//! Advantages: how far each answer is pushed, and whether a few answers hold most of the push.

use serde::Serialize;

use super::moments::{finite, mean, sample_deviation, share};
use super::settings::{AdvantageScale, RewardSettings};
use super::sheet::SheetView;

/// Bins are this wide, from `-HISTOGRAM_LIMIT` to `HISTOGRAM_LIMIT`.
const BIN_WIDTH: f64 = 0.25;
/// A group of 16 reaches 3.75 at most; what lies beyond is counted at the ends.
const HISTOGRAM_LIMIT: f64 = 4.0;

/// Where advantages are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvantageOrigin {
    /// (reward − group mean) / divisor, computed here.
    Computed,
    /// The trainer's own.
    Given,
    /// The trainer's own for some groups, computed for the others.
    Mixed,
}

/// The advantages in view.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advantages {
    /// Where they are from; `None` without any.
    pub origin: Option<AdvantageOrigin>,
    /// How computed ones are scaled.
    pub scale: AdvantageScale,
    /// How many there are.
    pub count: usize,
    /// Share above zero.
    pub share_positive: Option<f64>,
    /// Share exactly zero: answers that teach nothing.
    pub share_zero: Option<f64>,
    /// Mean of |A|.
    pub mean_abs: Option<f64>,
    /// Largest |A|.
    pub max_abs: Option<f64>,
    /// Part of the sum of |A| held by the largest hundredth of the answers, at least one.
    pub top_percent_share: Option<f64>,
    /// (N − 1) / √N for the largest group: the most a group's own sample deviation allows, reached by one answer against N − 1 equal ones.
    pub theoretical_max: Option<f64>,
    /// Counts in fixed bins.
    pub histogram: Histogram,
}

/// Counts in bins of equal width; a value on an edge belongs to the bin above it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Histogram {
    /// One more than there are bins.
    pub edges: Vec<f64>,
    /// Values in each bin.
    pub counts: Vec<usize>,
    /// Values below the first edge.
    pub below: usize,
    /// Values at or above the last edge.
    pub above: usize,
}

/// What each group's distances from its mean are divided by; NaN for a group that has no advantages.
pub fn divisors(groups: &[Vec<f64>], settings: &RewardSettings) -> Vec<f64> {
    let epsilon = settings.advantage_epsilon;
    let scaled = |values: &[f64]| sample_deviation(values).map_or(f64::NAN, |std| std + epsilon);
    match settings.advantage_scale {
        AdvantageScale::Group => groups.iter().map(|group| scaled(group)).collect(),
        AdvantageScale::Batch => vec![scaled(&groups.concat()); groups.len()],
        AdvantageScale::None => vec![1.0; groups.len()],
    }
}

/// Describes the advantages in view: the trainer's where a group has them, computed ones elsewhere.
pub fn describe_advantages(
    view: SheetView<'_>,
    groups: &[Vec<f64>],
    scale: AdvantageScale,
) -> Advantages {
    let given = view.advantages();
    let mut values = Vec::with_capacity(view.rewards().len());
    let (mut any_given, mut any_computed) = (false, false);
    for ((place, group), divisor) in view.places().zip(groups).zip(view.divisors()) {
        let of_trainer = given.as_ref().map_or(&[][..], |given| &given[place]);
        let before = values.len();
        if of_trainer.iter().any(|advantage| advantage.is_finite()) {
            values.extend(of_trainer.iter().copied().filter(|a| a.is_finite()));
            any_given = true;
        } else if let Some(mean) = mean(group) {
            let advantage = |reward: &f64| (reward - mean) / divisor;
            values.extend(group.iter().map(advantage).filter(|a| a.is_finite()));
            any_computed |= values.len() > before;
        }
    }
    let origin = match (any_given, any_computed) {
        (true, true) => Some(AdvantageOrigin::Mixed),
        (true, false) => Some(AdvantageOrigin::Given),
        (false, true) => Some(AdvantageOrigin::Computed),
        (false, false) => None,
    };
    let largest_group = groups.iter().map(Vec::len).max().unwrap_or(0);
    summarize(&values, origin, scale, largest_group)
}

fn summarize(
    values: &[f64],
    origin: Option<AdvantageOrigin>,
    scale: AdvantageScale,
    largest_group: usize,
) -> Advantages {
    let mut sizes: Vec<f64> = values.iter().map(|advantage| advantage.abs()).collect();
    sizes.sort_unstable_by(|a, b| b.total_cmp(a));
    let top = sizes.len().div_ceil(100);
    let total: f64 = sizes.iter().sum();
    let of_top: f64 = sizes[..top].iter().sum();
    Advantages {
        origin,
        scale,
        count: values.len(),
        share_positive: share(values.iter().filter(|a| **a > 0.0).count(), values.len()),
        share_zero: share(values.iter().filter(|a| **a == 0.0).count(), values.len()),
        mean_abs: mean(&sizes),
        max_abs: sizes.first().copied(),
        top_percent_share: finite(of_top / total),
        theoretical_max: (largest_group > 1)
            .then(|| (largest_group as f64 - 1.0) / (largest_group as f64).sqrt()),
        histogram: histogram(values),
    }
}

fn histogram(values: &[f64]) -> Histogram {
    let bins = (2.0 * HISTOGRAM_LIMIT / BIN_WIDTH) as usize;
    let mut histogram = Histogram {
        edges: (0..=bins)
            .map(|bin| bin as f64 * BIN_WIDTH - HISTOGRAM_LIMIT)
            .collect(),
        counts: vec![0; bins],
        below: 0,
        above: 0,
    };
    for value in values {
        let bin = ((value + HISTOGRAM_LIMIT) / BIN_WIDTH).floor();
        if bin < 0.0 {
            histogram.below += 1;
        } else if let Some(count) = histogram.counts.get_mut(bin as usize) {
            *count += 1;
        } else {
            histogram.above += 1;
        }
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::GroupBatch;
    use crate::moments::finite_sorted;
    use crate::sheet::Sheet;

    fn advantages_of(batch: GroupBatch, settings: &RewardSettings) -> Advantages {
        let mut sheet = Sheet::default();
        let mut start = 0;
        let groups: Vec<Vec<f64>> = batch
            .sizes
            .iter()
            .map(|size| {
                start += size;
                finite_sorted(&batch.rewards[start - size..start])
            })
            .collect();
        sheet.append(batch, &divisors(&groups, settings));
        describe_advantages(sheet.view(None), &groups, settings.advantage_scale)
    }

    fn without_epsilon() -> RewardSettings {
        RewardSettings {
            advantage_epsilon: 0.0,
            ..RewardSettings::default()
        }
    }

    #[test]
    fn a_lone_success_reaches_the_theoretical_maximum() {
        for size in [2usize, 4, 8, 16] {
            let mut group = vec![0.0; size];
            group[size / 2] = 1.0;
            let found = advantages_of(GroupBatch::new(&[group]), &without_epsilon());
            let most = found.theoretical_max.unwrap();
            assert!((found.max_abs.unwrap() - most).abs() < 1e-12);
            assert_eq!(found.share_positive, Some(1.0 / size as f64));
        }
    }

    #[test]
    fn four_rewards_by_hand() {
        // Mean 0.6; the sample deviation is √(0.2 / 3).
        let batch = GroupBatch::new(&[vec![0.9, 0.7, 0.5, 0.3]]);
        let found = advantages_of(batch, &RewardSettings::default());
        let std = (0.2f64 / 3.0).sqrt();
        assert!((found.max_abs.unwrap() - 0.3 / (std + 1e-4)).abs() < 1e-12);
        assert!((found.mean_abs.unwrap() - 0.2 / (std + 1e-4)).abs() < 1e-12);
        assert_eq!(found.share_positive, Some(0.5));
        // The largest of four holds 0.3 of 0.8.
        assert!((found.top_percent_share.unwrap() - 0.375).abs() < 1e-12);
        assert_eq!(found.origin, Some(AdvantageOrigin::Computed));
    }

    #[test]
    fn the_trainers_own_advantages_go_first() {
        let batch = GroupBatch::new(&[vec![1.0, 0.0], vec![1.0, 0.0]])
            .with_advantages(&[vec![5.0, -5.0], vec![f64::NAN, f64::NAN]])
            .unwrap();
        let found = advantages_of(batch, &without_epsilon());
        assert_eq!(found.origin, Some(AdvantageOrigin::Mixed));
        assert_eq!(found.count, 4);
        assert_eq!((found.histogram.below, found.histogram.above), (1, 1));
        assert_eq!(found.max_abs, Some(5.0));
    }

    #[test]
    fn a_batch_scale_divides_all_groups_alike() {
        let settings = RewardSettings {
            advantage_scale: AdvantageScale::Batch,
            ..without_epsilon()
        };
        let batch = GroupBatch::new(&[vec![0.0, 4.0], vec![1.0, 3.0]]);
        let found = advantages_of(batch, &settings);
        // Over all four: mean 2, squares 4 + 4 + 1 + 1, so the deviation is √(10 / 3).
        assert!((found.max_abs.unwrap() - 2.0 / (10f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn unscaled_advantages_are_distances_from_the_mean() {
        let settings = RewardSettings {
            advantage_scale: AdvantageScale::None,
            ..RewardSettings::default()
        };
        let found = advantages_of(GroupBatch::new(&[vec![0.0, 4.0]]), &settings);
        assert_eq!(found.max_abs, Some(2.0));
    }

    #[test]
    fn flat_groups_push_nothing_and_single_answers_have_no_advantage() {
        let batch = GroupBatch::new(&[vec![0.3; 4], vec![1.0]]);
        let found = advantages_of(batch, &RewardSettings::default());
        assert_eq!(found.count, 4);
        assert_eq!(found.share_zero, Some(1.0));
        assert_eq!(found.top_percent_share, None);
    }
}
