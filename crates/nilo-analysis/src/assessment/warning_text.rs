//! The block that is printed for a warning, and in calmer words for a risk that is none. Scripts know it: its first words and its keys do not change.

use std::fmt::Write;

use nilo_sample::words::duration_between_in_words;

use super::{Assessment, Prediction, is_warning};
use nilo_forecast::{Cause, RiskLevel};

/// From here on there is no room for anything, and "none" would sound as if all were well.
const FULL_PERCENT: f64 = 99.0;

/// What the block says.
#[derive(Debug, Clone, PartialEq)]
pub struct WarningText<'a> {
    /// The resource.
    pub name: &'a str,
    /// Its risk.
    pub level: RiskLevel,
    /// Share of its limit, in percent.
    pub used_percent: Option<f64>,
    /// When it runs out.
    pub prediction: Option<Prediction>,
    /// How sure that is, where somebody has said it.
    pub confidence: Option<f64>,
    /// What drives it there.
    pub cause: Option<Cause>,
    /// Whether it did run out.
    pub has_run_out: bool,
    /// What to do.
    pub recommendations: &'a [&'a str],
    /// Why.
    pub reason: &'a str,
}

impl WarningText<'_> {
    /// The block, without a line break at its end.
    pub fn to_text(&self) -> String {
        let label = match is_warning(self.level) {
            true => "[WARNING] OOM Warning",
            false => "OOM Risk",
        };
        let mut text = format!("{label}: {}", self.name);
        let mut line = |key: &str, value: &str| {
            // Writing into a text cannot fail.
            write!(text, "\n   {key}: {value}").ok();
        };
        line("Risk Level", self.level.as_str());
        if let Some(percent) = self.used_percent {
            line("Current Usage", &format!("{percent:.1}%"));
        }
        let time = match (&self.prediction, self.has_run_out, self.cause) {
            (Some(told), ..) => format!("{:.1}seconds later", told.seconds),
            (None, true, _) => "it has run out".to_owned(),
            (None, false, Some(Cause::AboveLimit)) => "not known".to_owned(),
            (None, false, _) if self.used_percent.is_some_and(|it| it >= FULL_PERCENT) => {
                "not known".to_owned()
            }
            (None, false, _) => "none".to_owned(),
        };
        line("Predicted OOM Time", &time);
        if let Some(confidence) = self.confidence {
            line("Confidence", &format!("{confidence:.2}"));
        }
        for advice in self.recommendations {
            line("Recommendation", advice);
        }
        let left = self.prediction.as_ref().map(prediction_in_words);
        match left {
            _ if self.reason.is_empty() => {}
            Some(left) => line("Reason", &format!("{}; full {left}", self.reason)),
            None => line("Reason", self.reason),
        }
        text
    }
}

impl Assessment {
    /// The block for this assessment; `clean` takes out of names and reasons what does not belong on a line.
    pub fn warning_text(&self, clean: impl Fn(&str) -> String) -> String {
        WarningText {
            name: &clean(&self.name),
            level: self.level,
            used_percent: self.used_percent,
            prediction: self.prediction,
            confidence: self.prediction.map(|told| told.confidence),
            cause: self.cause,
            has_run_out: self.ran_out.is_some(),
            recommendations: &self.recommendations,
            reason: &clean(&self.reason),
        }
        .to_text()
    }
}

/// `in 8 minutes (6–11)`
pub fn prediction_in_words(prediction: &Prediction) -> String {
    let secs = prediction.seconds;
    let low = prediction.seconds_low.unwrap_or(secs);
    let high = prediction.seconds_high.unwrap_or(secs);
    format!("in {}", duration_between_in_words(secs, low, high))
}
