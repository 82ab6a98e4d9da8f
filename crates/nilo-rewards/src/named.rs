//! Group statistics as named numbers, one row of a recording: `groups/…`.

use super::distribution::RewardDistribution;

/// The single numbers of a distribution with their names; what is not known is left out.
pub fn named_metrics(of: &RewardDistribution) -> Vec<(String, f64)> {
    let mut named = Named::default();
    named.add("reward_mean", of.reward_mean);
    named.add("reward_std", of.reward_std);
    named.add("frac_unscored", of.frac_unscored);
    named.add("group_reward_std/mean", of.group_reward_std.mean);
    named.add("group_reward_std/p10", of.group_reward_std.p10);
    named.add("group_reward_std/p50", of.group_reward_std.p50);
    named.add("group_reward_std/p90", of.group_reward_std.p90);
    named.add("variance/within", of.variance.within);
    named.add("variance/between", of.variance.between);
    named.add("variance/between_share", of.variance.between_share);
    signal(&mut named, of);
    advantages(&mut named, of);
    named.add("rank_gap/mean", of.ranking.mean_rank_gap);
    named.add("rank_gap/max", of.ranking.max_rank_gap);
    named.add("tied_pair_share", of.ranking.tied_pair_share);
    named.add("distinct_rewards", of.ranking.distinct_rewards_mean);
    solving(&mut named, of);
    components(&mut named, of);
    answers(&mut named, of);
    named.list
}

#[derive(Default)]
struct Named {
    list: Vec<(String, f64)>,
}

impl Named {
    fn add(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.list.push((format!("groups/{name}"), value));
        }
    }
}

fn signal(named: &mut Named, of: &RewardDistribution) {
    let signal = &of.signal;
    named.add("frac_reward_zero_std", signal.frac_reward_zero_std);
    named.add("frac_reward_low_std", signal.frac_reward_low_std);
    named.add("frac_all_max", signal.frac_all_max);
    named.add("frac_all_min", signal.frac_all_min);
    named.add("frac_all_equal_mid", signal.frac_all_equal_mid);
    named.add("effective_batch", Some(signal.effective_batch as f64));
    named.add("effective_share", signal.effective_share);
}

fn advantages(named: &mut Named, of: &RewardDistribution) {
    let advantages = &of.advantages;
    named.add("advantage/share_positive", advantages.share_positive);
    named.add("advantage/mean_abs", advantages.mean_abs);
    named.add("advantage/max_abs", advantages.max_abs);
    named.add("advantage/top_percent_share", advantages.top_percent_share);
}

fn solving(named: &mut Named, of: &RewardDistribution) {
    named.add("solved_none", of.solving.solved_none);
    named.add("solved_some", of.solving.solved_some);
    named.add("solved_all", of.solving.solved_all);
    let by_attempts = [
        ("pass", &of.solving.pass_at_k),
        ("best", &of.solving.best_at_k),
        ("worst", &of.solving.worst_at_k),
    ];
    for (name, values) in by_attempts {
        for (attempts, value) in values {
            named.add(&format!("{name}@{attempts}"), Some(*value));
        }
    }
}

fn components(named: &mut Named, of: &RewardDistribution) {
    for (name, component) in &of.components {
        let path = |figure: &str| format!("rewards/{name}/{figure}");
        named.add(&path("mean"), component.mean);
        named.add(&path("std"), component.std);
        named.add(&path("kendall_tau_b"), component.kendall_tau_b);
    }
}

fn answers(named: &mut Named, of: &RewardDistribution) {
    if let Some(lengths) = &of.lengths {
        named.add("length/mean", lengths.mean);
        named.add("length/reward_pearson", lengths.reward_pearson);
        named.add("length/reward_spearman", lengths.reward_spearman);
        named.add("length/rank_spearman", lengths.rank_spearman);
    }
    if let Some(truncation) = &of.truncation {
        named.add("truncated_share", truncation.share);
    }
    if let Some(prompts) = &of.prompts {
        named.add("prompts/seen", Some(prompts.prompts as f64));
        named.add("prompts/solved", Some(prompts.solved as f64));
        named.add("prompts/forgotten", Some(prompts.forgotten as f64));
        let flips = prompts.flips_to_unsolved as f64;
        named.add("prompts/flips_to_unsolved", Some(flips));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GroupBatch, RewardHistory};

    #[test]
    fn names_are_unique_and_values_are_numbers() {
        let groups = [vec![0.0, 1.0, 1.0, 0.0], vec![1.0, 1.0, 1.0, 1.0]];
        let batch = GroupBatch::new(&groups)
            .with_component("format", &groups)
            .unwrap()
            .with_lengths(&groups)
            .unwrap()
            .with_prompts(vec!["a".into(), "b".into()])
            .unwrap();
        let mut history = RewardHistory::default();
        history.push(batch);
        let named = named_metrics(&history.newest());
        let mut names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(named.iter().all(|(_, value)| value.is_finite()));
        let value = |name: &str| named.iter().find(|(n, _)| n == name).unwrap().1;
        assert_eq!(value("groups/frac_all_max"), 0.5);
        assert_eq!(value("groups/pass@1"), 0.75);
        assert_eq!(value("groups/rewards/format/kendall_tau_b"), 1.0);
    }
}
