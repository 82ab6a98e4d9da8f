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
    /// Possible within half an hour, or not sure.
    Moderate,
    /// Likely within ten minutes.
    High,
    /// Likely within two minutes.
    Critical,
}

impl RiskLevel {
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
