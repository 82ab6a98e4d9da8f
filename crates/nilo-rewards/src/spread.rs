//! How much rewards differ inside groups and between them: do the prompts carry the differences, or the answers?

use serde::Serialize;

use super::moments::{finite, mean};

/// Variance split by a one-way analysis of variance with the prompt as the factor.
///
/// With G groups of n₁ … n_G rewards, N in all: SSW adds the squared distances from the group means, SSB the squared distances of the group means from the grand mean, once for each reward.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VarianceSplit {
    /// SSW / (N − G): the variance among answers to one prompt.
    pub within: Option<f64>,
    /// (SSB / (G − 1) − within) / n₀, no less than zero, where n₀ = (N − Σnᵢ² / N) / (G − 1): the variance among prompts, free of what the answers' own scatter adds.
    pub between: Option<f64>,
    /// between / (between + within): the intraclass correlation ICC(1), no less than zero.
    ///
    /// One: only the prompt decides, and a group teaches nothing. Zero: prompts are alike.
    pub between_share: Option<f64>,
    /// SSB / (SSB + SSW): the share as it stands in the sample (eta squared); larger than `between_share` the smaller the groups.
    pub between_share_of_squares: Option<f64>,
}

/// Splits the variance of groups of finite rewards.
pub fn split_variance(groups: &[Vec<f64>]) -> VarianceSplit {
    let groups: Vec<&[f64]> = groups
        .iter()
        .map(Vec::as_slice)
        .filter(|group| !group.is_empty())
        .collect();
    let rewards = groups.concat();
    let Some(grand_mean) = mean(&rewards) else {
        return VarianceSplit::default();
    };
    // Squares are taken of distances scaled to at most one or so, and scaled back at the end.
    let unit = rewards
        .iter()
        .fold(0.0f64, |most, reward| most.max((reward - grand_mean).abs()));
    if !unit.is_finite() {
        return VarianceSplit::default();
    }
    let divisor = if unit > 0.0 { unit } else { 1.0 };
    let (mut inside, mut across, mut sizes_squared) = (0.0, 0.0, 0.0);
    for group in &groups {
        let size = group.len() as f64;
        let group_mean = mean(group).unwrap_or(grand_mean);
        let scatter = |reward: &f64| ((reward - group_mean) / divisor).powi(2);
        inside += group.iter().map(scatter).sum::<f64>();
        across += size * ((group_mean - grand_mean) / divisor).powi(2);
        sizes_squared += size * size;
    }
    let total = rewards.len() as f64;
    let group_count = groups.len() as f64;
    let within = (rewards.len() > groups.len()).then(|| inside / (total - group_count));
    let between = within.filter(|_| groups.len() > 1).map(|within| {
        let typical_size = (total - sizes_squared / total) / (group_count - 1.0);
        ((across / (group_count - 1.0) - within) / typical_size).max(0.0)
    });
    let part_of = |part: f64, rest: f64| finite(part / (part + rest));
    let in_units = |variance: f64| finite(variance * divisor * divisor);
    VarianceSplit {
        within: within.and_then(in_units),
        between: between.and_then(in_units),
        between_share: between.zip(within).and_then(|(b, w)| part_of(b, w)),
        between_share_of_squares: (groups.len() > 1)
            .then(|| part_of(across, inside))
            .flatten(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-12)
    }

    #[test]
    fn two_groups_by_hand() {
        // Means 1 and 4, grand mean 2.5: SSW = 2 + 2, SSB = 2·2.25·2 = 9; n₀ = 2.
        let split = split_variance(&[vec![0.0, 2.0], vec![3.0, 5.0]]);
        assert!(near(split.within, 2.0));
        assert!(near(split.between, (9.0 - 2.0) / 2.0));
        assert!(near(split.between_share, 3.5 / 5.5));
        assert!(near(split.between_share_of_squares, 9.0 / 13.0));
    }

    #[test]
    fn unequal_groups_by_hand() {
        // Means 1 and 4, grand mean 2: SSW = 2 + 2, SSB = 4·1 + 2·4 = 12; n₀ = (6 − 20/6) / 1 = 8/3.
        let split = split_variance(&[vec![0.0, 1.0, 1.0, 2.0], vec![3.0, 5.0]]);
        assert!(near(split.within, 1.0));
        assert!(near(split.between, 11.0 / (8.0 / 3.0)));
    }

    #[test]
    fn only_the_prompt_decides_when_answers_are_all_alike() {
        let split = split_variance(&[vec![0.0; 4], vec![1.0; 4]]);
        assert_eq!(split.within, Some(0.0));
        assert_eq!(split.between_share, Some(1.0));
    }

    #[test]
    fn groups_alike_share_nothing_between_them() {
        let split = split_variance(&[vec![0.0, 1.0], vec![0.0, 1.0]]);
        assert_eq!(split.between, Some(0.0));
        assert_eq!(split.between_share, Some(0.0));
    }

    #[test]
    fn one_group_and_groups_of_one_cannot_be_split() {
        let one = split_variance(&[vec![0.0, 1.0]]);
        assert_eq!((one.within, one.between), (Some(0.5), None));
        let singles = split_variance(&[vec![0.0], vec![1.0], vec![]]);
        assert_eq!((singles.within, singles.between_share), (None, None));
        assert_eq!(split_variance(&[]), VarianceSplit::default());
        let alike = split_variance(&[vec![1.0, 1.0], vec![1.0, 1.0]]);
        assert_eq!(alike.between_share, None);
    }
}
