//! The rival that most monitors are: an alarm from 90 % on.

use super::rule::Rule;
use crate::predictor::{Predictor, PredictorOutput};
use crate::trace::TracePoint;

/// Alarm while usage is at or above 90 % of the limit. Says nothing about time.
#[derive(Debug, Clone, Default)]
pub struct Threshold {
    now_secs: f64,
    share: f64,
    rule: Rule,
}

const THRESHOLD: f64 = 0.9;

impl Predictor for Threshold {
    fn name(&self) -> &'static str {
        "threshold 90 %"
    }

    fn observe(&mut self, point: &TracePoint) {
        self.now_secs = point.seconds();
        self.share = point
            .limit_bytes
            .map_or(0.0, |limit| point.used_bytes / limit);
    }

    fn judge(&mut self) -> PredictorOutput {
        let high = self.share >= THRESHOLD;
        PredictorOutput {
            confidence: f64::from(u8::from(high)),
            alarm: self.rule.alarm(self.now_secs, high),
            ..PredictorOutput::default()
        }
    }
}
