//! What counts as the best reward, the worst and a success.

use serde::Serialize;

use super::settings::RewardSettings;

/// Rewards that have passed through single precision differ from the declared level by this part of it.
const ROUNDING: f64 = 1e-6;

/// Where a level comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The user said so.
    Declared,
    /// The most extreme reward seen so far, in or before the window.
    Observed,
    /// Taken because nothing was said.
    Assumed,
}

/// The most extreme rewards seen.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Observed {
    range: Option<(f64, f64)>,
}

impl Observed {
    /// Takes finite rewards into account.
    pub fn include(&mut self, rewards: &[f64]) {
        for reward in rewards.iter().copied().filter(|r| r.is_finite()) {
            let (low, high) = self.range.unwrap_or((reward, reward));
            self.range = Some((low.min(reward), high.max(reward)));
        }
    }
}

/// The levels that groups are judged by.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Levels {
    /// The best reward there can be.
    pub scale_max: Option<f64>,
    /// Where the best reward is from.
    pub scale_max_origin: Origin,
    /// The worst reward there can be.
    pub scale_min: Option<f64>,
    /// Where the worst reward is from.
    pub scale_min_origin: Origin,
    /// A reward from here on is a success.
    pub success_threshold: f64,
    /// Where the threshold is from.
    pub success_threshold_origin: Origin,
}

impl Levels {
    /// What was declared, completed by what was seen.
    pub fn resolve(settings: &RewardSettings, observed: Observed) -> Self {
        let (low, high) = observed.range.unzip();
        let origin = |declared: Option<f64>, otherwise| match declared {
            Some(_) => Origin::Declared,
            None => otherwise,
        };
        let threshold = settings.success_threshold.or(settings.reward_max);
        Self {
            scale_max: settings.reward_max.or(high),
            scale_max_origin: origin(settings.reward_max, Origin::Observed),
            scale_min: settings.reward_min.or(low),
            scale_min_origin: origin(settings.reward_min, Origin::Observed),
            success_threshold: threshold.unwrap_or(1.0),
            success_threshold_origin: origin(threshold, Origin::Assumed),
        }
    }

    /// Whether a reward is a success.
    pub fn is_success(&self, reward: f64) -> bool {
        reaches(reward, self.success_threshold)
    }

    /// Whether a reward is as good as can be.
    ///
    /// As long as one single value has been seen, it may be either end of the scale and is taken for neither.
    pub fn is_best(&self, reward: f64) -> bool {
        self.has_two_ends() && self.scale_max.is_some_and(|max| reaches(reward, max))
    }

    /// Whether a reward is as bad as can be.
    pub fn is_worst(&self, reward: f64) -> bool {
        self.has_two_ends() && self.scale_min.is_some_and(|min| reaches(-reward, -min))
    }

    fn has_two_ends(&self) -> bool {
        self.scale_max != self.scale_min
    }
}

fn reaches(reward: f64, level: f64) -> bool {
    reward >= level - ROUNDING * level.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rewards: &[f64]) -> Observed {
        let mut observed = Observed::default();
        observed.include(rewards);
        observed
    }

    #[test]
    fn what_is_declared_goes_before_what_is_seen() {
        let settings = RewardSettings {
            reward_max: Some(2.0),
            ..RewardSettings::default()
        };
        let levels = Levels::resolve(&settings, seen(&[0.25, 1.0, f64::NAN]));
        assert_eq!(levels.scale_max, Some(2.0));
        assert_eq!(levels.scale_max_origin, Origin::Declared);
        assert_eq!(levels.scale_min, Some(0.25));
        assert_eq!(levels.scale_min_origin, Origin::Observed);
        assert_eq!(levels.success_threshold, 2.0);
        assert!(!levels.is_best(1.0) && levels.is_best(2.0) && levels.is_worst(0.25));
    }

    #[test]
    fn one_value_seen_so_far_is_neither_best_nor_worst() {
        let levels = Levels::resolve(&RewardSettings::default(), seen(&[0.5, 0.5]));
        assert!(!levels.is_best(0.5) && !levels.is_worst(0.5));
    }

    #[test]
    fn single_precision_does_not_lose_a_success() {
        let levels = Levels::resolve(&RewardSettings::default(), Observed::default());
        assert!(levels.is_success(f64::from(0.999_999_94_f32)));
        assert!(!levels.is_success(0.99));
    }
}
