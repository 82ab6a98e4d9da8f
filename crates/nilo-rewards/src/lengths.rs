//! Lengths and truncation: does a longer answer get more, and what do cut-off answers get?

use serde::Serialize;

use super::correlation::{average_ranks, complete_pairs, cosine, pearson, spearman};
use super::levels::Levels;
use super::moments::{finite_sorted, mean, share};
use super::sheet::SheetView;

/// Lengths in view, and how rewards go with them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lengths {
    /// Mean length.
    pub mean: Option<f64>,
    /// Shortest.
    pub min: Option<f64>,
    /// Longest.
    pub max: Option<f64>,
    /// Mean length of successes.
    pub mean_of_successes: Option<f64>,
    /// Mean length of failures.
    pub mean_of_failures: Option<f64>,
    /// Pearson's correlation of reward and length over all answers.
    pub reward_pearson: Option<f64>,
    /// Spearman's correlation of reward and length over all answers.
    pub reward_spearman: Option<f64>,
    /// Spearman's correlation within groups: ranks are taken in each group, less the group's mean rank, and correlated over all groups together.
    ///
    /// Hard prompts have long answers and low rewards; this one does not see that.
    pub rank_spearman: Option<f64>,
}

/// Answers cut off at the length limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Truncation {
    /// Share of the answers whose flag is known.
    pub share: Option<f64>,
    /// Mean reward of answers that were cut off.
    pub reward_mean_truncated: Option<f64>,
    /// Mean reward of answers that ended by themselves.
    pub reward_mean_complete: Option<f64>,
}

/// Describes lengths where any were given.
pub fn describe_lengths(view: SheetView<'_>, levels: &Levels) -> Option<Lengths> {
    let lengths = view.lengths()?;
    let rewards = view.rewards();
    let sorted = finite_sorted(&lengths);
    let (scored_lengths, scored_rewards) = complete_pairs(&lengths, rewards);
    let mean_where = |success: bool| {
        let chosen: Vec<f64> = scored_lengths
            .iter()
            .zip(&scored_rewards)
            .filter(|(_, reward)| levels.is_success(**reward) == success)
            .map(|(length, _)| *length)
            .collect();
        mean(&chosen)
    };
    let (mut length_ranks, mut reward_ranks) = (Vec::new(), Vec::new());
    for place in view.places() {
        let (of_group, rewards_of_group) = complete_pairs(&lengths[place.clone()], &rewards[place]);
        let middle = (of_group.len() + 1) as f64 / 2.0;
        let centred = |values: &[f64]| average_ranks(values).into_iter().map(move |r| r - middle);
        length_ranks.extend(centred(&of_group));
        reward_ranks.extend(centred(&rewards_of_group));
    }
    Some(Lengths {
        mean: mean(&sorted),
        min: sorted.first().copied(),
        max: sorted.last().copied(),
        mean_of_successes: mean_where(true),
        mean_of_failures: mean_where(false),
        reward_pearson: pearson(&lengths, rewards),
        reward_spearman: spearman(&lengths, rewards),
        rank_spearman: cosine(&length_ranks, &reward_ranks),
    })
}

/// Describes truncation where flags were given.
pub fn describe_truncation(view: SheetView<'_>) -> Option<Truncation> {
    let flags = view.truncated()?;
    let rewards_where = |wanted: bool| {
        let chosen: Vec<f64> = flags
            .iter()
            .zip(view.rewards())
            .filter(|(flag, reward)| {
                !flag.is_nan() && (**flag != 0.0) == wanted && reward.is_finite()
            })
            .map(|(_, reward)| *reward)
            .collect();
        mean(&chosen)
    };
    let known = flags.iter().filter(|flag| !flag.is_nan()).count();
    let cut = flags.iter().filter(|f| !f.is_nan() && **f != 0.0).count();
    Some(Truncation {
        share: share(cut, known),
        reward_mean_truncated: rewards_where(true),
        reward_mean_complete: rewards_where(false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::GroupBatch;
    use crate::levels::Observed;
    use crate::settings::RewardSettings;
    use crate::sheet::Sheet;

    fn sheet(batch: GroupBatch) -> Sheet {
        let divisors = vec![1.0; batch.group_count()];
        let mut sheet = Sheet::default();
        sheet.append(batch, &divisors);
        sheet
    }

    #[test]
    fn long_answers_to_hard_prompts_do_not_hide_what_happens_within_a_group() {
        // Longer is better in each group, but the group with long answers has low rewards.
        let batch = GroupBatch::new(&[vec![0.0, 0.1, 0.2], vec![0.8, 0.9, 1.0]])
            .with_lengths(&[vec![900.0, 950.0, 990.0], vec![10.0, 20.0, 30.0]])
            .unwrap();
        let levels = Levels::resolve(&RewardSettings::default(), Observed::default());
        let lengths = describe_lengths(sheet(batch).view(None), &levels).unwrap();
        assert_eq!(lengths.rank_spearman, Some(1.0));
        assert!(lengths.reward_spearman.unwrap() < 0.0);
        assert_eq!(lengths.mean_of_successes, Some(30.0));
        assert_eq!((lengths.min, lengths.max), (Some(10.0), Some(990.0)));
    }

    #[test]
    fn cut_off_answers_are_set_apart_and_unknown_ones_left_out() {
        let batch = GroupBatch::new(&[vec![0.0, 0.5, 1.0, 9.0]])
            .with_truncated(&[vec![1.0, 0.0, 0.0, f64::NAN]])
            .unwrap();
        let truncation = describe_truncation(sheet(batch).view(None)).unwrap();
        assert_eq!(truncation.share, Some(1.0 / 3.0));
        assert_eq!(truncation.reward_mean_truncated, Some(0.0));
        assert_eq!(truncation.reward_mean_complete, Some(0.75));
    }

    #[test]
    fn without_lengths_nothing_is_said_about_them() {
        let levels = Levels::resolve(&RewardSettings::default(), Observed::default());
        let sheet = sheet(GroupBatch::new(&[vec![1.0]]));
        assert_eq!(describe_lengths(sheet.view(None), &levels), None);
        assert_eq!(describe_truncation(sheet.view(None)), None);
    }
}
