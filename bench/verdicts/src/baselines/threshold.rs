//! The rival that most monitors are: an alarm from 90 % on.

use super::rule::Rule;
use crate::predictor::{Prediction, Predictor};
use crate::trace::Point;

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

    fn observe(&mut self, point: &Point) {
        self.now_secs = point.seconds();
        self.share = point
            .limit_bytes
            .map_or(0.0, |limit| point.used_bytes / limit);
    }

    fn judge(&mut self) -> Prediction {
        let high = self.share >= THRESHOLD;
        Prediction {
            confidence: f64::from(u8::from(high)),
            alarm: self.rule.alarm(self.now_secs, high),
            ..Prediction::default()
        }
    }
}
