//! What a forecast says.

use schemars::JsonSchema;
use serde::Serialize;

/// How near the end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RiskLevel {
    /// Nothing points to it.
    #[default]
    Low,
    /// Possible within half an hour, or not sure yet: its confidence is below that of every alarm.
    Moderate,
    /// Likely within ten minutes: an alarm.
    High,
    /// Likely within two minutes: an alarm.
    Critical,
}

impl RiskLevel {
    /// All of them, the least first.
    pub const ALL: [RiskLevel; 4] = [
        RiskLevel::Low,
        RiskLevel::Moderate,
        RiskLevel::High,
        RiskLevel::Critical,
    ];

    /// The one that is written so.
    pub fn from_name(name: &str) -> Option<RiskLevel> {
        let mut all = RiskLevel::ALL.into_iter();
        all.find(|level| level.as_str() == name)
    }

    /// As it is written in JSON and in warnings.
    pub fn as_str(self) -> &'static str {
        match self {
            RiskLevel::Low => "low",
            RiskLevel::Moderate => "moderate",
            RiskLevel::High => "high",
            RiskLevel::Critical => "critical",
        }
    }
}

/// What drives the level towards the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// What is held grows.
    Growth,
    /// It grows steadily and gives nothing back.
    Leak,
    /// It grows in worker processes, which may give it back at the end of an epoch.
    Workers,
    /// The base grows slowly, and recurring heights above it will not fit.
    Peaks,
    /// It rises in steps, and one of the next will not fit.
    Stairs,
    /// The allocator's reserve grows although what is allocated does not.
    Fragmentation,
    /// Memory moves to swap, which fills.
    Swap,
    /// The machine fills, and not through this job.
    Neighbour,
    /// It is above the limit already, so the limit is not where the end is.
    AboveLimit,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 9] = [
        Cause::Growth,
        Cause::Leak,
        Cause::Workers,
        Cause::Peaks,
        Cause::Stairs,
        Cause::Fragmentation,
        Cause::Swap,
        Cause::Neighbour,
        Cause::AboveLimit,
    ];

    /// As it is written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Growth => "growth",
            Cause::Leak => "leak",
            Cause::Workers => "workers",
            Cause::Peaks => "peaks",
            Cause::Stairs => "stairs",
            Cause::Fragmentation => "fragmentation",
            Cause::Swap => "swap",
            Cause::Neighbour => "neighbour",
            Cause::AboveLimit => "above-limit",
        }
    }

    /// The one that is written so.
    pub fn from_name(name: &str) -> Option<Cause> {
        let mut all = Cause::ALL.into_iter();
        all.find(|cause| cause.as_str() == name)
    }
}

/// The projection of one resource at one time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Forecast {
    /// How near the end is.
    pub level: RiskLevel,
    /// Share of the limit that cannot be given back; absent without a limit.
    pub used_share: Option<f64>,
    /// Seconds until it runs out; absent when nothing points to it.
    pub seconds: Option<f64>,
    /// The true time lies above this ...
    pub seconds_low: Option<f64>,
    /// ... and below this in four of five cases.
    pub seconds_high: Option<f64>,
    /// How likely it runs out within ten minutes if `seconds` says so, and at that time otherwise: the share of cases like this in which it came so.
    pub confidence: f64,
    /// What drives it.
    pub cause: Option<Cause>,
    /// Bytes a second that it grows by.
    pub bytes_per_sec: Option<f64>,
    /// For how long it has grown like this.
    pub lasted_secs: Option<f64>,
    /// Height above the base that comes again and again.
    pub peak_height_bytes: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GrowthKind;

    #[test]
    fn words_are_those_of_the_json() {
        fn json(value: impl Serialize) -> String {
            let text = serde_json::to_string(&value).unwrap();
            text.trim_matches('"').to_owned()
        }
        for level in RiskLevel::ALL {
            assert_eq!(level.as_str(), json(level));
            assert_eq!(RiskLevel::from_name(level.as_str()), Some(level));
        }
        for cause in Cause::ALL {
            assert_eq!(cause.as_str(), json(cause));
            assert_eq!(Cause::from_name(cause.as_str()), Some(cause));
        }
        for kind in [GrowthKind::Growth, GrowthKind::Leak] {
            assert_eq!(kind.as_str(), json(kind));
        }
        assert_eq!(Cause::from_name("unknown"), None);
    }
}
