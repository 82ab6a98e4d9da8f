//! Where a level goes, in one word: increasing, decreasing or stable.
//!
//! A description of the time that was watched, for reports; what it means for the limit is the forecast's to say.

use schemars::JsonSchema;
use serde::Serialize;

use super::theil_sen::Workspace;

/// The level is looked at so many times, evenly over the time watched.
const LOOKS: usize = 60;
/// Fewer readings have no trend.
const LEAST_READINGS: usize = 5;
/// A change of less than this share of the level is none.
const LEAST_CHANGE_RATIO: f64 = 0.02;

/// The direction of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LevelTrend {
    /// It rises.
    Increasing,
    /// It falls.
    Decreasing,
    /// It does neither.
    Stable,
}

impl LevelTrend {
    /// As it is written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            LevelTrend::Increasing => "increasing",
            LevelTrend::Decreasing => "decreasing",
            LevelTrend::Stable => "stable",
        }
    }
}

/// The direction of a level that was read at ascending times and held its value in between, until `end`; `None` when it was read too seldom.
///
/// `readings` says how often it was read where only changes are kept.
pub fn level_trend(times: &[f64], values: &[f64], end: f64, readings: u64) -> Option<LevelTrend> {
    let begin = *times.first()?;
    if readings < LEAST_READINGS as u64 || end <= begin {
        return None;
    }
    let mut looks = Vec::with_capacity(LOOKS);
    let mut levels = Vec::with_capacity(LOOKS);
    for look in 0..LOOKS {
        let time = begin + (end - begin) * look as f64 / (LOOKS - 1) as f64;
        let before = times.partition_point(|known| *known <= time);
        let known = values.get(..before.min(values.len()))?.iter().rev();
        if let Some(level) = known.copied().find(|level| level.is_finite()) {
            looks.push(time - begin);
            levels.push(level);
        }
    }
    let mut workspace = Workspace::default();
    let line = workspace.fit(&looks, &levels)?;
    let usual = workspace.median(levels.iter().map(|level| level.abs()));
    let least = LEAST_CHANGE_RATIO * usual;
    let length = end - begin;
    Some(match line {
        line if line.slope_low > 0.0 && line.slope * length > least => LevelTrend::Increasing,
        line if line.slope_high < 0.0 && -line.slope * length > least => LevelTrend::Decreasing,
        _ => LevelTrend::Stable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trend(level: impl Fn(f64) -> f64) -> Option<LevelTrend> {
        let times: Vec<f64> = (0..200).map(|i| f64::from(i) * 0.1).collect();
        let values: Vec<f64> = times.iter().map(|time| level(*time)).collect();
        level_trend(&times, &values, 19.9, 200)
    }

    #[test]
    fn each_direction_has_its_word() {
        assert_eq!(trend(|t| 100.0 + t), Some(LevelTrend::Increasing));
        assert_eq!(trend(|t| 100.0 - t), Some(LevelTrend::Decreasing));
        assert_eq!(trend(|_| 100.0), Some(LevelTrend::Stable));
    }

    #[test]
    fn small_drifts_and_waves_are_stable() {
        assert_eq!(trend(|t| 100.0 + 0.05 * t), Some(LevelTrend::Stable));
        assert_eq!(
            trend(|t| 100.0 + 20.0 * (t * 2.0).sin()),
            Some(LevelTrend::Stable)
        );
    }

    #[test]
    fn a_level_whose_changes_alone_are_kept_holds_in_between() {
        let still = level_trend(&[0.0], &[100.0], 20.0, 200);
        assert_eq!(still, Some(LevelTrend::Stable));
        let stairs = level_trend(&[0.0, 5.0, 10.0, 15.0], &[1.0, 2.0, 3.0, 4.0], 20.0, 200);
        assert_eq!(stairs, Some(LevelTrend::Increasing));
    }

    #[test]
    fn too_few_readings_have_none() {
        assert_eq!(level_trend(&[], &[], 1.0, 0), None);
        assert_eq!(level_trend(&[0.0, 1.0], &[1.0, 9.0], 1.0, 2), None);
        assert_eq!(level_trend(&[1.0], &[1.0], 1.0, 9), None);
        assert_eq!(level_trend(&[0.0], &[f64::NAN], 1.0, 9), None);
        assert_eq!(level_trend(&[0.0], &[], 1.0, 9), None);
    }
}
