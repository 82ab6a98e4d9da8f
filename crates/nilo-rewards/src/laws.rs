//! What must hold for any rewards, tried on thousands of them.

use super::{AdvantageScale, GroupBatch, RewardDistribution, RewardHistory, RewardSettings};
use proptest::prelude::*;

fn describe(groups: &[Vec<f64>]) -> RewardDistribution {
    let mut history = RewardHistory::default();
    history.push(GroupBatch::new(groups));
    history.distribution(None)
}

/// Rewards as they occur: few different values, so that ties and flat groups are common.
fn rewards() -> impl Strategy<Value = Vec<Vec<f64>>> {
    let reward = prop_oneof![
        4 => (0..5i8).prop_map(|quarter| f64::from(quarter) / 4.0),
        1 => Just(f64::NAN),
    ];
    prop::collection::vec(prop::collection::vec(reward, 0..9), 0..7)
}

/// Any doubles at all.
fn anything() -> impl Strategy<Value = Vec<Vec<f64>>> {
    let value = prop_oneof![
        any::<f64>(),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MAX),
        Just(f64::MIN),
        Just(-0.0),
        Just(f64::MIN_POSITIVE / 2.0),
    ];
    prop::collection::vec(prop::collection::vec(value, 0..6), 0..5)
}

fn near(left: Option<f64>, right: Option<f64>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => (left - right).abs() <= 1e-9 * left.abs().max(1.0),
        (left, right) => left == right,
    }
}

proptest! {
    #[test]
    fn the_order_within_a_group_changes_nothing(groups in rewards(), turn in 0usize..8) {
        let turned: Vec<Vec<f64>> = groups
            .iter()
            .map(|group| {
                let mut group = group.clone();
                let by = turn % group.len().max(1);
                group.rotate_left(by);
                group.reverse();
                group
            })
            .collect();
        prop_assert_eq!(describe(&groups), describe(&turned));
    }

    #[test]
    fn a_constant_moves_the_mean_and_nothing_else(groups in rewards(), constant in -8..8i8) {
        let constant = f64::from(constant);
        let moved: Vec<Vec<f64>> = groups
            .iter()
            .map(|group| group.iter().map(|reward| reward + constant).collect())
            .collect();
        let (before, after) = (describe(&groups), describe(&moved));
        prop_assert!(near(before.reward_mean.map(|mean| mean + constant), after.reward_mean));
        prop_assert!(near(before.reward_std, after.reward_std));
        prop_assert!(near(before.group_reward_std.mean, after.group_reward_std.mean));
        prop_assert!(near(before.variance.between_share, after.variance.between_share));
        prop_assert!(near(before.advantages.max_abs, after.advantages.max_abs));
        prop_assert!(near(before.advantages.mean_abs, after.advantages.mean_abs));
        prop_assert_eq!(before.signal, after.signal);
    }

    #[test]
    fn a_constant_group_has_no_variance(reward in -1e6..1e6f64, size in 2usize..40) {
        let found = describe(&[vec![reward; size]]);
        prop_assert_eq!(found.group_reward_std.mean, Some(0.0));
        prop_assert_eq!(found.signal.frac_reward_zero_std, Some(1.0));
        prop_assert_eq!(found.signal.effective_batch, 0);
        prop_assert_eq!(found.advantages.max_abs, Some(0.0));
        prop_assert_eq!(found.ranking.tied_pair_share, Some(1.0));
    }

    #[test]
    fn every_answer_and_every_group_is_counted_once(groups in rewards()) {
        let found = describe(&groups);
        let signal = &found.signal;
        prop_assert_eq!(found.answers, found.scored + found.unscored + found.infinite);
        prop_assert_eq!(
            signal.groups_with_std,
            signal.groups_with_signal + signal.groups_all_max + signal.groups_all_min + signal.groups_all_equal_mid
        );
        let places: usize = found.ranking.rank_distribution.values().map(|place| place.count).sum();
        prop_assert_eq!(places, found.scored);
        let bins: usize = found.advantages.histogram.counts.iter().sum();
        prop_assert_eq!(bins, found.advantages.count, "no advantage of groups of eight leaves the histogram");
    }

    #[test]
    fn advantages_stay_below_their_theoretical_maximum(groups in rewards()) {
        let found = describe(&groups).advantages;
        if let (Some(largest), Some(limit)) = (found.max_abs, found.theoretical_max) {
            prop_assert!(largest <= limit + 1e-12);
        }
    }

    #[test]
    fn one_push_or_many_give_the_same_answer(groups in rewards()) {
        let mut history = RewardHistory::default();
        for group in &groups {
            history.push(GroupBatch::new(std::slice::from_ref(group)));
        }
        prop_assert_eq!(history.distribution(None), describe(&groups));
    }

    #[test]
    fn a_window_is_the_history_of_its_groups(groups in rewards(), window in 0usize..8) {
        let mut history = RewardHistory::new(RewardSettings {
            reward_max: Some(1.0),
            reward_min: Some(0.0),
            ..RewardSettings::default()
        });
        let mut newest = history.clone();
        history.push(GroupBatch::new(&groups));
        newest.push(GroupBatch::new(&groups[groups.len().saturating_sub(window)..]));
        prop_assert_eq!(history.distribution(Some(window)), newest.distribution(None));
    }

    #[test]
    fn no_input_makes_it_panic(groups in anything(), other in any::<bool>()) {
        for advantage_scale in [AdvantageScale::Group, AdvantageScale::Batch, AdvantageScale::None] {
            let mut history = RewardHistory::new(RewardSettings {
                reward_max: other.then_some(f64::INFINITY),
                advantage_epsilon: 0.0,
                advantage_scale,
                keep_rewards: 3,
                ..RewardSettings::default()
            });
            let batch = GroupBatch::new(&groups)
                .with_component("same", &groups)
                .and_then(|batch| batch.with_component("again", &groups))
                .and_then(|batch| batch.with_lengths(&groups))
                .and_then(|batch| batch.with_truncated(&groups))
                .and_then(|batch| batch.with_prompts(vec!["prompt".to_owned(); groups.len()]))
                .unwrap();
            history.push(batch);
            history.push(GroupBatch::new(&groups));
            let found = history.distribution(None);
            let json = serde_json::to_string(&found).unwrap();
            prop_assert!(!json.is_empty());
            for (name, value) in super::named_metrics(&history.newest()) {
                prop_assert!(value.is_finite(), "{name}");
            }
        }
    }
}
