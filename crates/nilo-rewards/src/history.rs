//! Groups taken in step by step, and answers about all of them or the newest.

use super::advantages::divisors;
use super::batch::GroupBatch;
use super::distribution::{RewardDistribution, describe};
use super::levels::{Levels, Observed};
use super::moments::finite_sorted;
use super::prompts::{PromptRecord, PromptTable};
use super::settings::RewardSettings;
use super::sheet::Sheet;

/// Everything seen of a run's rewards.
#[derive(Debug, Clone, Default)]
pub struct RewardHistory {
    settings: RewardSettings,
    sheet: Sheet,
    observed: Observed,
    prompts: PromptTable,
    groups_forgotten: usize,
    newest_batch: usize,
}

impl RewardHistory {
    /// An empty history.
    pub fn new(settings: RewardSettings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Takes in the groups of one step.
    pub fn push(&mut self, batch: GroupBatch) {
        let mut rewards = batch.rewards.as_slice();
        let mut groups = Vec::with_capacity(batch.sizes.len());
        for size in &batch.sizes {
            let (group, rest) = rewards.split_at(*size);
            groups.push(finite_sorted(group));
            rewards = rest;
        }
        self.observed.include(&batch.rewards);
        if let Some(prompts) = &batch.prompts {
            let levels = self.levels();
            for (prompt, group) in prompts.iter().zip(&groups) {
                self.prompts.visit(prompt, group, &levels);
            }
        }
        self.newest_batch = groups.len();
        let divisors = divisors(&groups, &self.settings);
        self.sheet.append(batch, &divisors);
        // Room is made in large pieces, because moving what stays costs as much as there is of it.
        let keep = self.settings.keep_rewards;
        if self.sheet.reward_count() > keep.saturating_add(keep / 4) {
            self.groups_forgotten += self.sheet.shrink_to(keep);
        }
    }

    /// Everything about the newest `window` groups, or about all that are kept.
    pub fn distribution(&self, window: Option<usize>) -> RewardDistribution {
        let view = self.sheet.view(window);
        RewardDistribution {
            groups_forgotten: self.groups_forgotten,
            prompts: self.prompts.summary(),
            ..describe(view, self.levels(), &self.settings)
        }
    }

    /// Everything about the groups that were pushed last.
    pub fn newest(&self) -> RewardDistribution {
        self.distribution(Some(self.newest_batch))
    }

    /// How many groups are kept.
    pub fn group_count(&self) -> usize {
        self.sheet.group_count()
    }

    /// One prompt's record.
    pub fn prompt(&self, prompt: &str) -> Option<&PromptRecord> {
        self.prompts.get(prompt)
    }

    fn levels(&self) -> Levels {
        Levels::resolve(&self.settings, self.observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_rewards_of_the_first_example() {
        let mut history = RewardHistory::default();
        history.push(GroupBatch::new(&[vec![0.9, 0.7, 0.5, 0.3]]));
        let found = history.distribution(None);
        assert!((found.reward_mean.unwrap() - 0.6).abs() < 1e-15);
        assert!((found.reward_std.unwrap() - (0.2f64 / 3.0).sqrt()).abs() < 1e-15);
        assert_eq!(found.ranking.rank_distribution.len(), 4);
        assert_eq!(found.ranking.rank_distribution[&1].mean_reward, 0.9);
        assert_eq!(found.signal.frac_reward_zero_std, Some(0.0));
        assert_eq!(found.signal.effective_batch, 4);
    }

    #[test]
    fn missing_and_infinite_rewards_are_counted_and_not_averaged() {
        let mut history = RewardHistory::default();
        history.push(GroupBatch::new(&[vec![1.0, f64::NAN, 0.5, f64::INFINITY]]));
        let found = history.distribution(None);
        assert_eq!((found.scored, found.unscored, found.infinite), (2, 1, 1));
        assert_eq!(found.reward_mean, Some(0.75));
        assert_eq!(found.frac_unscored, Some(0.25));
    }

    #[test]
    fn a_window_sees_the_newest_groups_but_the_scale_knows_them_all() {
        let mut history = RewardHistory::default();
        history.push(GroupBatch::new(&[vec![0.0, 2.0]]));
        history.push(GroupBatch::new(&[vec![1.0, 1.0], vec![2.0, 2.0]]));
        let found = history.distribution(Some(2));
        assert_eq!(found.groups, 2);
        assert_eq!(found.signal.groups_all_max, 1);
        assert_eq!(found.signal.groups_all_equal_mid, 1);
        assert_eq!(history.newest(), found);
    }

    #[test]
    fn memory_is_bounded_and_what_is_forgotten_is_counted() {
        let mut history = RewardHistory::new(RewardSettings {
            keep_rewards: 100,
            ..RewardSettings::default()
        });
        for step in 0..1000 {
            history.push(GroupBatch::new(&[vec![step as f64; 4]]));
        }
        let found = history.distribution(None);
        assert!(found.answers <= 125);
        assert_eq!(found.groups + found.groups_forgotten, 1000);
        assert_eq!(found.levels.scale_min, Some(0.0));
    }

    #[test]
    fn nothing_seen_is_no_number() {
        let found = RewardHistory::default().distribution(None);
        assert_eq!(found.reward_mean, None);
        assert_eq!(found.signal.frac_reward_zero_std, None);
        assert!(found.solving.pass_at_k.is_empty());
        assert_eq!(found.advantages.origin, None);
        assert_eq!(found.prompts, None);
    }
}
