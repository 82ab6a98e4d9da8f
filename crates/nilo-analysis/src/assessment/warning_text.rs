//! The block that is printed for a warning. Scripts know it: its first words and its keys do not change.

use std::fmt::Write;

use nilo_sample::words::duration_between_in_words;

use super::{Assessment, Prediction};
use nilo_forecast::{Cause, RiskLevel};

/// What the block says.
#[derive(Debug, Clone, PartialEq)]
pub struct WarningText<'a> {
    /// The resource.
    pub name: &'a str,
    /// Its risk.
    pub level: RiskLevel,
    /// Share of its limit, in percent.
    pub used_percent: Option<f64>,
    /// Seconds until it runs out.
    pub seconds: Option<f64>,
    /// How sure that is.
    pub confidence: Option<f64>,
    /// Stands where a time would stand.
    pub without_time: &'a str,
    /// What to do.
    pub recommendations: &'a [&'a str],
    /// Why.
    pub reason: &'a str,
}

impl WarningText<'_> {
    /// The block, without a line break at its end.
    pub fn to_text(&self) -> String {
        let mut text = format!("[WARNING] OOM Warning: {}", self.name);
        let mut line = |key: &str, value: &str| {
            // Writing into a text cannot fail.
            write!(text, "\n   {key}: {value}").ok();
        };
        line("Risk Level", self.level.as_str());
        if let Some(percent) = self.used_percent {
            line("Current Usage", &format!("{percent:.1}%"));
        }
        match self.seconds {
            Some(secs) => line("Predicted OOM Time", &format!("{secs:.1}seconds later")),
            None => line("Predicted OOM Time", self.without_time),
        }
        if let Some(confidence) = self.confidence {
            line("Confidence", &format!("{confidence:.2}"));
        }
        for advice in self.recommendations {
            line("Recommendation", advice);
        }
        if !self.reason.is_empty() {
            line("Reason", self.reason);
        }
        text
    }
}

impl Assessment {
    /// The block for this assessment; `clean` takes out of names and reasons what does not belong on a line.
    pub fn warning_text(&self, clean: impl Fn(&str) -> String) -> String {
        let left = self.prediction.as_ref().map(prediction_in_words);
        let reason = clean(&match left {
            Some(left) => format!("{}; full {left}", self.reason),
            None => self.reason.clone(),
        });
        WarningText {
            name: &clean(&self.name),
            level: self.level,
            used_percent: self.used_percent,
            seconds: self.prediction.map(|prediction| prediction.seconds),
            confidence: self.prediction.map(|prediction| prediction.confidence),
            without_time: match (&self.ran_out, self.cause) {
                (Some(_), _) => "it has run out",
                (None, Some(Cause::AboveLimit)) => "not known",
                (None, _) => "not in sight",
            },
            recommendations: &self.recommendations,
            reason: &reason,
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
