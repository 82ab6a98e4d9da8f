//! What k attempts achieve: pass@k, and the expected best, worst and mean of k answers.
//!
//! All are exact expectations over the ways to choose k of a group's scored answers, then means over the groups that have k of them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::levels::Levels;
use super::moments::{mean, share};

/// Success per group and per number of attempts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Solving {
    /// Share of groups without a success.
    pub solved_none: Option<f64>,
    /// Share of groups with successes and failures.
    pub solved_some: Option<f64>,
    /// Share of groups with nothing but successes.
    pub solved_all: Option<f64>,
    /// For k = 1, 2, 4, … and the largest group's size: the chance that one of k answers is a success.
    pub pass_at_k: BTreeMap<usize, f64>,
    /// The expected largest reward of k answers.
    pub best_at_k: BTreeMap<usize, f64>,
    /// The expected smallest reward of k answers.
    pub worst_at_k: BTreeMap<usize, f64>,
    /// The expected mean reward of k answers: the group's mean, over the groups that have k answers.
    pub mean_at_k: BTreeMap<usize, f64>,
}

/// 1 − C(n − c, k) / C(n, k): the chance that k of n answers, c of them right, include a right one.
///
/// As a product of factors below one; binomial coefficients of groups of a few hundred would overflow.
pub fn pass_at_k(answers: usize, right: usize, attempts: usize) -> Option<f64> {
    if attempts == 0 || attempts > answers || right > answers {
        return None;
    }
    if answers - right < attempts {
        return Some(1.0);
    }
    let all_wrong: f64 = (answers - right + 1..=answers)
        .map(|among| 1.0 - attempts as f64 / among as f64)
        .product();
    Some(1.0 - all_wrong)
}

/// The expected largest of k of these ascending values.
pub fn best_of(ascending: &[f64], attempts: usize) -> Option<f64> {
    let expected = expected_extreme(ascending.iter().rev().copied(), ascending.len(), attempts)?;
    within(ascending, expected)
}

/// The expected smallest of k of these ascending values.
pub fn worst_of(ascending: &[f64], attempts: usize) -> Option<f64> {
    let expected = expected_extreme(ascending.iter().copied(), ascending.len(), attempts)?;
    within(ascending, expected)
}

/// Takes back what rounding may have added beyond the ends.
fn within(ascending: &[f64], expected: f64) -> Option<f64> {
    Some(expected.clamp(*ascending.first()?, *ascending.last()?))
}

/// The expected first-in-order of k values chosen from `count`.
///
/// The first leads in k of n choices; each later one leads with the chance of the one before it times (left − k) / (left − 1), none better being chosen.
fn expected_extreme(
    in_order: impl Iterator<Item = f64>,
    count: usize,
    attempts: usize,
) -> Option<f64> {
    if attempts == 0 || attempts > count {
        return None;
    }
    let mut chance = attempts as f64 / count as f64;
    let mut expected = 0.0;
    for (passed, value) in in_order.enumerate().take(count - attempts + 1) {
        expected += chance * value;
        let left = (count - passed) as f64;
        // With one left there is no next one, and the divisor would be zero.
        if left > 1.0 {
            chance *= (left - attempts as f64) / (left - 1.0);
        }
    }
    Some(expected)
}

/// Describes what k attempts achieve; `groups` are ascending and finite.
pub fn describe_solving(groups: &[Vec<f64>], levels: &Levels) -> Solving {
    let groups: Vec<(&[f64], usize)> = groups
        .iter()
        .filter(|group| !group.is_empty())
        .map(|group| {
            let right = group.iter().filter(|r| levels.is_success(**r)).count();
            (group.as_slice(), right)
        })
        .collect();
    let largest = groups.iter().map(|(group, _)| group.len()).max();
    let none = groups.iter().filter(|(_, right)| *right == 0).count();
    let all = groups.iter().filter(|(g, right)| *right == g.len()).count();
    let mut solving = Solving {
        solved_none: share(none, groups.len()),
        solved_some: share(groups.len() - none - all, groups.len()),
        solved_all: share(all, groups.len()),
        ..Solving::default()
    };
    for attempts in attempt_counts(largest.unwrap_or(0)) {
        let average = |of_group: &dyn Fn(&[f64], usize) -> Option<f64>| {
            let answers: Vec<f64> = groups
                .iter()
                .filter(|(group, _)| group.len() >= attempts)
                .filter_map(|(group, right)| of_group(group, *right))
                .collect();
            mean(&answers)
        };
        let columns = [
            (
                &mut solving.pass_at_k,
                average(&|group, right| pass_at_k(group.len(), right, attempts)),
            ),
            (
                &mut solving.best_at_k,
                average(&|group, _| best_of(group, attempts)),
            ),
            (
                &mut solving.worst_at_k,
                average(&|group, _| worst_of(group, attempts)),
            ),
            (&mut solving.mean_at_k, average(&|group, _| mean(group))),
        ];
        for (column, value) in columns {
            column.extend(value.map(|value| (attempts, value)));
        }
    }
    solving
}

/// 1, 2, 4, … below the largest group's size, and that size.
fn attempt_counts(largest: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1usize), |k| k.checked_mul(2))
        .take_while(move |k| *k < largest)
        .chain((largest > 0).then_some(largest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::Observed;
    use crate::settings::RewardSettings;
    use proptest::prelude::*;

    /// Every choice of k of n places, as bit masks.
    fn choices(count: usize, attempts: usize) -> impl Iterator<Item = Vec<usize>> {
        (0u32..1 << count)
            .filter(move |mask| mask.count_ones() as usize == attempts)
            .map(move |mask| (0..count).filter(|i| mask & (1 << i) != 0).collect())
    }

    fn average(values: impl Iterator<Item = f64>) -> f64 {
        let values: Vec<f64> = values.collect();
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn pass_at_k_by_hand() {
        // 1 − C(2,2)/C(4,2) = 5/6.
        assert!((pass_at_k(4, 2, 2).unwrap() - 5.0 / 6.0).abs() < 1e-15);
        assert_eq!(pass_at_k(4, 0, 2), Some(0.0));
        assert_eq!(pass_at_k(4, 4, 1), Some(1.0));
        assert_eq!(pass_at_k(4, 1, 5), None);
        assert_eq!(pass_at_k(4, 1, 0), None);
    }

    #[test]
    fn pass_at_k_of_a_large_group_neither_overflows_nor_loses_its_digits() {
        let one_of_many = pass_at_k(100_000, 1, 1).unwrap();
        assert!((one_of_many - 1e-5).abs() < 1e-15);
        assert_eq!(pass_at_k(100_000, 50_000, 50_001), Some(1.0));
        assert!((pass_at_k(100_000, 50_000, 64).unwrap() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn groups_are_solved_by_none_some_or_all() {
        let groups = [
            vec![0.0, 0.5],
            vec![0.0, 1.0],
            vec![1.0, 1.0],
            vec![0.0, 0.0, 1.0],
            vec![],
        ];
        let levels = Levels::resolve(&RewardSettings::default(), Observed::default());
        let solving = describe_solving(&groups, &levels);
        assert_eq!(solving.solved_none, Some(0.25));
        assert_eq!(solving.solved_some, Some(0.5));
        assert_eq!(solving.solved_all, Some(0.25));
        let ks: Vec<usize> = solving.pass_at_k.keys().copied().collect();
        assert_eq!(ks, [1, 2, 3]);
        // 0, 1/2, 1 and 1/3.
        assert!((solving.pass_at_k[&1] - (0.5 + 1.0 + 1.0 / 3.0) / 4.0).abs() < 1e-15);
        assert_eq!(solving.best_at_k[&3], 1.0);
        assert_eq!(solving.worst_at_k[&3], 0.0);
        assert!((solving.mean_at_k[&3] - 1.0 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn attempts_double_up_to_the_group() {
        let of = |largest| attempt_counts(largest).collect::<Vec<_>>();
        assert_eq!(of(8), [1, 2, 4, 8]);
        assert_eq!(of(6), [1, 2, 4, 6]);
        assert_eq!(of(1), [1]);
        assert!(of(0).is_empty());
    }

    proptest! {
        #[test]
        fn expectations_are_those_over_every_choice(
            mut rewards in prop::collection::vec(-2.0..2.0f64, 1..9),
            attempts in 1usize..9,
        ) {
            rewards.sort_by(f64::total_cmp);
            prop_assume!(attempts <= rewards.len());
            let chosen = |places: &Vec<usize>| places.iter().map(|i| rewards[*i]).collect::<Vec<_>>();
            let all: Vec<Vec<f64>> = choices(rewards.len(), attempts).map(|c| chosen(&c)).collect();
            let best = average(all.iter().map(|c| c.iter().copied().fold(f64::MIN, f64::max)));
            let worst = average(all.iter().map(|c| c.iter().copied().fold(f64::MAX, f64::min)));
            let passed = average(all.iter().map(|c| f64::from(c.iter().any(|r| *r >= 1.0))));
            let right = rewards.iter().filter(|r| **r >= 1.0).count();
            prop_assert!((best_of(&rewards, attempts).unwrap() - best).abs() < 1e-12);
            prop_assert!((worst_of(&rewards, attempts).unwrap() - worst).abs() < 1e-12);
            prop_assert!((pass_at_k(rewards.len(), right, attempts).unwrap() - passed).abs() < 1e-12);
        }

        #[test]
        fn more_attempts_are_never_worse(
            mut rewards in prop::collection::vec(0.0..1.0f64, 2..40),
        ) {
            rewards.sort_by(f64::total_cmp);
            for k in 1..rewards.len() {
                prop_assert!(best_of(&rewards, k + 1).unwrap() >= best_of(&rewards, k).unwrap() - 1e-12);
                prop_assert!(worst_of(&rewards, k + 1).unwrap() <= worst_of(&rewards, k).unwrap() + 1e-12);
            }
        }
    }
}
