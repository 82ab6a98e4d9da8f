//! What the user may declare about rewards, and the values taken otherwise.

use serde::Serialize;

/// What an advantage is divided by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvantageScale {
    /// The group's own sample deviation: the GRPO paper and TRL's default.
    #[default]
    Group,
    /// The sample deviation over all groups handed in together.
    Batch,
    /// Nothing: only the group's mean is taken away (Dr. GRPO).
    None,
}

/// Declarations and tolerances for a [`super::RewardHistory`].
#[derive(Debug, Clone, Serialize)]
pub struct RewardSettings {
    /// The best reward there can be; where not declared, the best one seen so far stands in.
    pub reward_max: Option<f64>,
    /// The worst reward there can be; where not declared, the worst one seen so far stands in.
    pub reward_min: Option<f64>,
    /// A reward from here on is a success; where not declared, `reward_max`, or 1.0 without that either.
    pub success_threshold: Option<f64>,
    /// A group whose deviation is at most this counts as having no variance; TRL's `isclose` has the same limit.
    pub zero_std: f64,
    /// A group whose deviation is at most this counts as having little variance.
    pub low_std: f64,
    /// Added to the divisor of an advantage, as TRL does.
    pub advantage_epsilon: f64,
    /// What an advantage is divided by.
    pub advantage_scale: AdvantageScale,
    /// How many rewards are kept; the oldest groups make room, and their number is reported.
    pub keep_rewards: usize,
}

impl Default for RewardSettings {
    fn default() -> Self {
        Self {
            reward_max: None,
            reward_min: None,
            success_threshold: None,
            zero_std: 1e-8,
            low_std: 0.05,
            advantage_epsilon: 1e-4,
            advantage_scale: AdvantageScale::Group,
            // 32 MiB for each column: ten thousand steps of 400 answers.
            keep_rewards: 1 << 22,
        }
    }
}
