//! What is said of a resource that can run out: its risk level, whether that is a warning, and why.
//!
//! This is the one place that decides it. Text, JSON, exit status, live output, alerts and the Python detectors all ask [`assess`],
//! so they cannot disagree. `ran_out.rs` knows what has run out already, `warning_text.rs` prints a warning.

mod advice;
mod ran_out;
mod warning_text;

pub(crate) use advice::advice;

pub use ran_out::{RanOut, RanOutKind, ran_out, ran_out_without_growth};
pub use warning_text::{WarningText, prediction_in_words};

use crate::tracking::ResourceVerdict;
use advice::cause_of_end;
use nilo_forecast::words::{may_be_loading, recommendations};
use nilo_forecast::{Cause, Forecast, Growth, GrowthKind, RiskLevel};
use nilo_sample::words::bytes_in_words;

/// The threshold, in percent of the limit, of whoever warns by risk and was given none.
pub const OOM_WARNING_PERCENT: f64 = 85.0;
/// From this share of the limit on the next allocation of a usual size fails.
const CRITICAL_SHARE: f64 = 0.95;
/// A prediction with less confidence than this, of a risk that is low, is not told.
const LEAST_CONFIDENCE: f64 = 0.2;

/// A confidence below this is written 0.00: such a time is no prediction, whatever it is about.
const NO_CONFIDENCE: f64 = 0.005;

/// Said of what fills while nobody knows who fills it.
pub(crate) const FILLER_UNKNOWN: &str = "it is not known who fills it";

/// Shares of the limit from which a level is a warning, whatever the forecast says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// High risk from here on.
    pub high: f64,
    /// Critical risk from here on.
    pub critical: f64,
}

impl Thresholds {
    /// What a single threshold in percent means.
    pub fn from_percent(percent: f64) -> Thresholds {
        let high = percent / 100.0;
        Thresholds {
            high,
            critical: high.max(CRITICAL_SHARE),
        }
    }

    /// The risk that a level alone is.
    pub fn level(&self, used_share: f64) -> RiskLevel {
        match used_share {
            share if share >= self.critical => RiskLevel::Critical,
            share if share >= self.high => RiskLevel::High,
            _ => RiskLevel::Low,
        }
    }
}

/// What an assessment rests on.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The resource's name, such as `job memory` or `GPU 0`.
    pub name: &'a str,
    /// Why the forecast says what it says.
    pub reason: &'a str,
    /// Whether it is memory of a GPU.
    pub is_gpu: bool,
    /// Whether its limit was given by hand, so that a level above it means that the limit is wrong.
    pub is_limit_given: bool,
    /// The share of the limit that cannot be given back.
    pub used_share: Option<f64>,
    /// Where it goes.
    pub forecast: &'a Forecast,
    /// It ran out already.
    pub ran_out: Option<&'a RanOut>,
}

/// What is said of a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Assessment {
    /// The resource's name.
    pub name: String,
    /// The worst of what the level, the forecast and the ending say.
    pub level: RiskLevel,
    /// What the level alone says.
    pub usage_level: RiskLevel,
    /// What the forecast alone says.
    pub forecast_level: RiskLevel,
    /// Share of the limit, in percent.
    pub used_percent: Option<f64>,
    /// When it runs out, where that is worth telling.
    pub prediction: Option<Prediction>,
    /// What drives it there.
    pub cause: Option<Cause>,
    /// It ran out already.
    pub ran_out: Option<RanOut>,
    /// Why the level is what it is, in one sentence without a full stop.
    pub reason: String,
    /// What to do about it, the first thing first; nothing where there is neither a warning nor a trend.
    pub recommendations: Vec<&'static str>,
}

/// When a resource runs out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Seconds from now.
    pub seconds: f64,
    /// In four of five cases the end lies after this ...
    pub seconds_low: Option<f64>,
    /// ... and before this.
    pub seconds_high: Option<f64>,
    /// The share of predictions like this that come true.
    pub confidence: f64,
}

impl Assessment {
    /// Whether somebody should be told: what is printed as a warning, counted as one, and ends a command with status 1.
    pub fn is_warning(&self) -> bool {
        is_warning(self.level)
    }
}

/// The risk from which on somebody is warned.
pub fn is_warning(level: RiskLevel) -> bool {
    level >= RiskLevel::High
}

/// The exit status of a command that looks for warnings.
pub fn exit_status<'a>(assessments: impl IntoIterator<Item = &'a Assessment>) -> u8 {
    let mut each = assessments.into_iter();
    u8::from(each.any(Assessment::is_warning))
}

/// Whether a growth is called a leak.
pub fn is_leak(growth: Option<&Growth>) -> bool {
    growth.is_some_and(|growth| growth.kind == GrowthKind::Leak)
}

/// A growth as it is told about a program that may still be loading what it works with: loading looks like a leak and ends.
pub fn growth_while_loading(growth: Growth) -> Growth {
    Growth {
        kind: GrowthKind::Growth,
        ..growth
    }
}

/// Decides what is said of a resource.
pub fn assess(evidence: &Evidence<'_>, thresholds: &Thresholds) -> Assessment {
    let forecast = evidence.forecast;
    // A resource that was read a moment ago has a limit and no forecast yet.
    let forecast = &Forecast {
        used_share: evidence.used_share.or(forecast.used_share),
        ..*forecast
    };
    let is_above_limit = forecast.cause == Some(Cause::AboveLimit);
    let usage_level = match evidence.used_share.map(|share| thresholds.level(share)) {
        // It goes on above its limit, so the limit is not where it ends.
        Some(RiskLevel::Critical) if is_above_limit => RiskLevel::High,
        level => level.unwrap_or_default(),
    };
    let ending_level = match evidence.ran_out {
        Some(_) => RiskLevel::Critical,
        None => RiskLevel::Low,
    };
    let prediction = forecast
        .seconds
        .filter(|_| is_time_told(forecast) && evidence.ran_out.is_none());
    let wrong_limit = is_above_limit && evidence.is_limit_given;
    let cause = match evidence.ran_out {
        Some(ran_out) => cause_of_end(ran_out, forecast.cause),
        None => forecast.cause,
    };
    let level = usage_level.max(forecast.level).max(ending_level);
    // What nobody is told of needs nothing to be done.
    let is_told = is_warning(level) || cause.is_some() && is_worth_telling(forecast);
    Assessment {
        name: evidence.name.to_owned(),
        level,
        usage_level,
        forecast_level: forecast.level,
        // The last sample of what ran out shows a process that was being taken apart.
        used_percent: evidence
            .ran_out
            .and_then(RanOut::used_share)
            .or(evidence.used_share)
            .map(|share| 100.0 * share),
        prediction: prediction.map(|seconds| Prediction {
            seconds,
            seconds_low: forecast.seconds_low,
            seconds_high: forecast.seconds_high,
            confidence: forecast.confidence,
        }),
        cause,
        ran_out: evidence.ran_out.cloned(),
        reason: match evidence.ran_out {
            Some(ran_out) => ran_out.to_string(),
            None if wrong_limit => WRONG_LIMIT.to_owned(),
            None => reasons(evidence, forecast, thresholds, usage_level),
        },
        recommendations: match wrong_limit || !is_told {
            true => Vec::new(),
            false => recommendations(cause, evidence.is_gpu),
        },
    }
}

/// Whether anybody would bet on the forecast.
fn is_worth_telling(forecast: &Forecast) -> bool {
    let is_certain = matches!(forecast.cause, Some(Cause::AboveLimit | Cause::Leak));
    is_certain || forecast.level > RiskLevel::Low || forecast.confidence >= LEAST_CONFIDENCE
}

/// Whether the time of a forecast is told, here and wherever else it is evidence.
pub(crate) fn is_time_told(forecast: &Forecast) -> bool {
    is_worth_telling(forecast) && forecast.confidence >= NO_CONFIDENCE
}

const WRONG_LIMIT: &str =
    "the recording is above the limit that was given: check --limit and --unit";

fn reasons(
    evidence: &Evidence<'_>,
    forecast: &Forecast,
    thresholds: &Thresholds,
    usage_level: RiskLevel,
) -> String {
    let share = evidence.used_share.filter(|_| is_warning(usage_level));
    let full = share.map(|share| {
        let (percent, threshold) = (100.0 * share, 100.0 * thresholds.high);
        format!(
            "{percent:.1}% is above the threshold of {}%",
            short(threshold)
        )
    });
    match (full, forecast.cause.filter(|_| is_worth_telling(forecast))) {
        (Some(full), None) => full,
        (Some(full), Some(_)) => format!("{full}; {}", evidence.reason),
        (None, _) => evidence.reason.to_owned(),
    }
}

/// `85` or `85.5`.
fn short(number: f64) -> String {
    let rounded = (number * 1e6).round() / 1e6;
    rounded.to_string()
}

/// As [`assess`], of a resource of a recording.
pub fn assess_verdict(
    verdict: &ResourceVerdict,
    thresholds: &Thresholds,
    ran_out: Option<&RanOut>,
) -> Assessment {
    let reason = verdict.reason_in_words();
    let evidence = Evidence {
        name: &verdict.resource.to_string(),
        reason: &reason,
        is_gpu: verdict.resource.is_gpu(),
        is_limit_given: verdict.is_limit_given,
        used_share: verdict.reading.used_share(),
        forecast: &verdict.forecast,
        ran_out: ran_out.filter(|ran_out| ran_out.resource == verdict.resource),
    };
    let mut assessment = assess(&evidence, thresholds);
    if !assessment.recommendations.is_empty() {
        assessment.recommendations = advice(verdict, assessment.cause, evidence.ran_out);
    }
    let is_forecast = assessment.prediction.is_some();
    if is_forecast && verdict.may_be_loading && !assessment.is_warning() {
        let loading = may_be_loading(verdict.reading.step.is_some());
        assessment.reason = format!("{}; {loading}", assessment.reason);
    }
    if evidence.ran_out.is_none() && verdict.is_filler_unknown() {
        assessment.reason = format!("{}; {FILLER_UNKNOWN}", assessment.reason);
    }
    let reading = &verdict.reading;
    let of_shared = reading.job_bytes.filter(|_| reading.is_shared);
    if let Some(own) = of_shared.filter(|_| ran_out.is_none() && assessment.is_warning()) {
        let own = bytes_in_words(own);
        let reason = &assessment.reason;
        assessment.reason = format!("{reason}; its processes hold {own} of what its cgroup does");
    }
    assessment
}

#[cfg(test)]
#[path = "assessment_tests.rs"]
mod tests;
