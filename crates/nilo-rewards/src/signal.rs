//! Which groups can teach anything: rewards that are all alike give no advantage, and it matters why they are alike.

use serde::Serialize;

use super::levels::Levels;
use super::moments::{mean, sample_deviation, share};
use super::settings::RewardSettings;

/// Groups with and without variance.
///
/// Fractions are of the groups with two scored rewards or more: one reward alone has no deviation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Signal {
    /// Groups with two scored rewards or more.
    pub groups_with_std: usize,
    /// Those of them with variance.
    pub groups_with_signal: usize,
    /// No variance, all rewards the best there is: too easy.
    pub groups_all_max: usize,
    /// No variance, all rewards the worst there is: too hard.
    pub groups_all_min: usize,
    /// No variance, all rewards somewhere between: stuck at partial credit.
    pub groups_all_equal_mid: usize,
    /// Groups in which one answer alone differs from all others, which are alike; of three answers or more.
    pub groups_with_lone_answer: usize,
    /// Fraction without variance.
    pub frac_reward_zero_std: Option<f64>,
    /// Fraction with little or no variance.
    pub frac_reward_low_std: Option<f64>,
    /// Up to which deviation variance counts as little.
    pub low_std: f64,
    /// Fraction that is too easy.
    pub frac_all_max: Option<f64>,
    /// Fraction that is too hard.
    pub frac_all_min: Option<f64>,
    /// Fraction stuck at partial credit.
    pub frac_all_equal_mid: Option<f64>,
    /// Scored rewards in groups with variance: groups with signal × N where groups are of equal size.
    pub effective_batch: usize,
    /// The effective batch as a part of all answers, unscored ones included.
    pub effective_share: Option<f64>,
}

/// Sorts groups by the variance of their rewards; `groups` are ascending and finite, `answers` counts the unscored too.
pub fn find_signal(
    groups: &[Vec<f64>],
    answers: usize,
    levels: &Levels,
    settings: &RewardSettings,
) -> Signal {
    let mut signal = Signal {
        low_std: settings.low_std,
        ..Signal::default()
    };
    let mut low = 0;
    for group in groups {
        let Some(std) = sample_deviation(group) else {
            continue;
        };
        signal.groups_with_std += 1;
        signal.groups_with_lone_answer += usize::from(has_lone_answer(group));
        let flat = std <= settings.zero_std;
        low += usize::from(flat || std <= settings.low_std);
        let level = mean(group).unwrap_or(group[0]);
        if !flat {
            signal.groups_with_signal += 1;
            signal.effective_batch += group.len();
        } else if levels.is_best(level) {
            signal.groups_all_max += 1;
        } else if levels.is_worst(level) {
            signal.groups_all_min += 1;
        } else {
            signal.groups_all_equal_mid += 1;
        }
    }
    let of_groups = |part: usize| share(part, signal.groups_with_std);
    signal.frac_reward_zero_std = of_groups(signal.groups_with_std - signal.groups_with_signal);
    signal.frac_reward_low_std = of_groups(low);
    signal.frac_all_max = of_groups(signal.groups_all_max);
    signal.frac_all_min = of_groups(signal.groups_all_min);
    signal.frac_all_equal_mid = of_groups(signal.groups_all_equal_mid);
    signal.effective_share = share(signal.effective_batch, answers);
    signal
}

/// One end of the sorted group differs, and all the rest are equal.
fn has_lone_answer(sorted: &[f64]) -> bool {
    let [worst, middle @ .., best] = sorted else {
        return false;
    };
    let (Some(second_worst), Some(second_best)) = (middle.first(), middle.last()) else {
        return false;
    };
    let lone_best = worst == second_best && second_best < best;
    let lone_worst = worst < second_worst && second_worst == best;
    lone_best || lone_worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::Observed;

    fn signal_of(groups: &[Vec<f64>], settings: &RewardSettings) -> Signal {
        let mut observed = Observed::default();
        groups.iter().for_each(|group| observed.include(group));
        let levels = Levels::resolve(settings, observed);
        let answers = groups.iter().map(Vec::len).sum();
        find_signal(groups, answers, &levels, settings)
    }

    #[test]
    fn flat_groups_are_split_by_their_level() {
        let groups = [
            vec![1.0; 4],
            vec![0.0; 4],
            vec![0.0; 4],
            vec![0.5; 4],
            vec![0.0, 0.0, 0.0, 1.0],
            vec![0.0, 0.0, 1.0, 1.0],
            vec![0.50, 0.50, 0.51, 0.51],
            vec![0.5],
        ];
        let signal = signal_of(&groups, &RewardSettings::default());
        assert_eq!(signal.groups_with_std, 7);
        assert_eq!(signal.groups_all_max, 1);
        assert_eq!(signal.groups_all_min, 2);
        assert_eq!(signal.groups_all_equal_mid, 1);
        assert_eq!(signal.groups_with_lone_answer, 1);
        assert_eq!(signal.effective_batch, 12);
        assert_eq!(signal.effective_share, Some(12.0 / 29.0));
        assert_eq!(signal.frac_reward_zero_std, Some(4.0 / 7.0));
        assert_eq!(signal.frac_reward_low_std, Some(5.0 / 7.0));
    }

    #[test]
    fn a_declared_scale_moves_the_ends() {
        let settings = RewardSettings {
            reward_max: Some(2.0),
            reward_min: Some(-1.0),
            ..RewardSettings::default()
        };
        let signal = signal_of(&[vec![1.0; 4], vec![0.0; 4], vec![2.0; 4]], &settings);
        assert_eq!(signal.groups_all_max, 1);
        assert_eq!(signal.groups_all_min, 0);
        assert_eq!(signal.groups_all_equal_mid, 2);
    }

    #[test]
    fn a_lone_failure_counts_as_a_lone_success_does() {
        assert!(has_lone_answer(&[0.0, 1.0, 1.0]));
        assert!(has_lone_answer(&[0.0, 0.0, 1.0]));
        assert!(!has_lone_answer(&[0.0, 1.0]), "of two, which is alone?");
        assert!(!has_lone_answer(&[0.0, 0.5, 1.0]));
        assert!(!has_lone_answer(&[1.0, 1.0, 1.0]));
    }
}
