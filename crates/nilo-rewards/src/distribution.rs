//! Everything that can be said about a stretch of groups, in one answer.

use std::collections::BTreeMap;

use serde::Serialize;

use super::advantages::{Advantages, describe_advantages};
use super::components::{Component, Correlations, describe_components};
use super::lengths::{Lengths, Truncation, describe_lengths, describe_truncation};
use super::levels::Levels;
use super::moments::{
    Spectrum, finite, finite_sorted, mean, quantile, sample_deviation, share, spectrum,
};
use super::prompts::Prompts;
use super::ranking::{Ranking, describe_ranking};
use super::settings::RewardSettings;
use super::sheet::SheetView;
use super::signal::{Signal, find_signal};
use super::solving::{Solving, describe_solving};
use super::spread::{VarianceSplit, split_variance};

/// The divisor of every standard deviation here is the count less this, as in TRL.
const STD_DDOF: usize = 1;

/// Group statistics of the groups in view.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RewardDistribution {
    /// The divisor of every standard deviation is the count less this.
    pub std_ddof: usize,
    /// Groups in view.
    pub groups: usize,
    /// Groups forgotten to keep memory bounded; they are in no figure but the extremes and the prompts.
    pub groups_forgotten: usize,
    /// Answers of the smallest group.
    pub group_size_min: Option<usize>,
    /// Answers of the largest group.
    pub group_size_max: Option<usize>,
    /// Answers in view, scored or not.
    pub answers: usize,
    /// Answers with a finite reward.
    pub scored: usize,
    /// Answers without a reward (NaN).
    pub unscored: usize,
    /// Answers whose reward was infinite; they are in no other figure.
    pub infinite: usize,
    /// Unscored answers as a part of all.
    pub frac_unscored: Option<f64>,
    /// Mean over all scored answers.
    pub reward_mean: Option<f64>,
    /// Sample deviation over all scored answers.
    pub reward_std: Option<f64>,
    /// Smallest reward in view.
    pub reward_min: Option<f64>,
    /// Median reward in view.
    pub reward_median: Option<f64>,
    /// Largest reward in view.
    pub reward_max: Option<f64>,
    /// The deviation inside groups, over the groups with two scored answers or more.
    pub group_reward_std: Spectrum,
    /// Variance among answers and among prompts.
    pub variance: VarianceSplit,
    /// What the groups are judged by.
    #[serde(flatten)]
    pub levels: Levels,
    /// Groups with and without variance.
    #[serde(flatten)]
    pub signal: Signal,
    /// Advantages.
    pub advantages: Advantages,
    /// Order within groups.
    #[serde(flatten)]
    pub ranking: Ranking,
    /// What k attempts achieve.
    #[serde(flatten)]
    pub solving: Solving,
    /// Each reward function.
    pub components: BTreeMap<String, Component>,
    /// Each pair of reward functions.
    pub component_correlations: Correlations,
    /// Lengths, where given.
    pub lengths: Option<Lengths>,
    /// Truncation, where given.
    pub truncation: Option<Truncation>,
    /// Prompts over the whole history, whatever the window, where named.
    pub prompts: Option<Prompts>,
}

/// Describes the groups in view.
pub fn describe(
    view: SheetView<'_>,
    levels: Levels,
    settings: &RewardSettings,
) -> RewardDistribution {
    let groups: Vec<Vec<f64>> = view.groups().map(finite_sorted).collect();
    let scored = finite_sorted(view.rewards());
    let answers = view.rewards().len();
    let infinite = view.rewards().iter().filter(|r| r.is_infinite()).count();
    let unscored = answers - scored.len() - infinite;
    let deviations: Vec<f64> = groups.iter().filter_map(|g| sample_deviation(g)).collect();
    let (components, component_correlations) = describe_components(view);
    RewardDistribution {
        std_ddof: STD_DDOF,
        groups: view.group_count(),
        groups_forgotten: 0,
        group_size_min: view.groups().map(<[f64]>::len).min(),
        group_size_max: view.groups().map(<[f64]>::len).max(),
        answers,
        scored: scored.len(),
        unscored,
        infinite,
        frac_unscored: share(unscored, answers),
        reward_mean: mean(&scored),
        reward_std: sample_deviation(&scored).and_then(finite),
        reward_min: scored.first().copied(),
        reward_median: quantile(&scored, 0.5),
        reward_max: scored.last().copied(),
        group_reward_std: spectrum(&deviations),
        variance: split_variance(&groups),
        signal: find_signal(&groups, answers, &levels, settings),
        advantages: describe_advantages(view, &groups, settings.advantage_scale),
        ranking: describe_ranking(&groups),
        solving: describe_solving(&groups, &levels),
        components,
        component_correlations,
        lengths: describe_lengths(view, &levels),
        truncation: describe_truncation(view),
        prompts: None,
        levels,
    }
}
