//! The rivals that extrapolate a straight line, as Prometheus' `predict_linear` does.

use super::line::WindowedFit;
use super::rule::Rule;
use crate::predictor::{HORIZON_SECS, Predictor, PredictorOutput};
use crate::trace::TracePoint;

/// When a least-squares line through the last window meets the limit.
#[derive(Debug, Clone)]
pub struct Linear {
    name: &'static str,
    line: WindowedFit,
    least_share: f64,
    least_r_squared: f64,
    rule: Rule,
    now_secs: f64,
    used: f64,
    limit: Option<f64>,
}

impl Linear {
    /// Over this window, without further conditions.
    pub fn new(name: &'static str, window_secs: f64) -> Self {
        Self {
            name,
            line: WindowedFit::new(window_secs),
            least_share: 0.0,
            least_r_squared: 0.0,
            rule: Rule::default(),
            now_secs: 0.0,
            used: 0.0,
            limit: None,
        }
    }

    /// Only while more than this share of the limit is in use.
    pub fn above(mut self, share: f64) -> Self {
        self.least_share = share;
        self
    }

    /// Only while the line explains this share of the variance.
    pub fn explaining(mut self, r_squared: f64) -> Self {
        self.least_r_squared = r_squared;
        self
    }

    /// Only after the condition has held for this time.
    pub fn pending(mut self, seconds: f64) -> Self {
        self.rule = Rule::pending(seconds);
        self
    }

    fn seconds_to_limit(&self) -> Option<f64> {
        let limit = self.limit?;
        let fit = self.line.fit()?;
        if self.used <= self.least_share * limit || fit.r_squared < self.least_r_squared {
            return None;
        }
        (fit.slope > 0.0).then(|| ((limit - fit.value) / fit.slope).max(0.0))
    }
}

impl Predictor for Linear {
    fn name(&self) -> &'static str {
        self.name
    }

    fn observe(&mut self, point: &TracePoint) {
        self.now_secs = point.seconds();
        self.used = point.used_bytes;
        self.limit = point.limit_bytes;
        self.line.push(self.now_secs, point.used_bytes);
    }

    fn judge(&mut self) -> PredictorOutput {
        let seconds = self.seconds_to_limit();
        let soon = seconds.is_some_and(|seconds| seconds <= HORIZON_SECS);
        PredictorOutput {
            seconds,
            confidence: f64::from(u8::from(soon)),
            alarm: self.rule.alarm(self.now_secs, soon),
            ..PredictorOutput::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(mut predictor: Linear, level: impl Fn(f64) -> f64, seconds: u32) -> PredictorOutput {
        let mut last = PredictorOutput::default();
        for second in 0..=seconds {
            predictor.observe(&TracePoint {
                time_nanos: u64::from(second) * 1_000_000_000,
                used_bytes: level(f64::from(second)),
                limit_bytes: Some(100.0),
                ..TracePoint::default()
            });
            if second % 10 == 0 {
                last = predictor.judge();
            }
        }
        last
    }

    #[test]
    fn a_straight_leak_is_foretold_to_the_second() {
        let prediction = fed(Linear::new("", 60.0), |seconds| 20.0 + 0.1 * seconds, 400);
        assert!((prediction.seconds.unwrap() - 400.0).abs() < 1e-6);
        assert!(prediction.alarm);
    }

    #[test]
    fn conditions_hold_the_alarm_back() {
        let level = |seconds: f64| 20.0 + 0.1 * seconds;
        assert!(!fed(Linear::new("", 60.0).above(0.61), level, 400).alarm);
        assert!(fed(Linear::new("", 60.0).above(0.57), level, 400).alarm);
        assert!(!fed(Linear::new("", 60.0).pending(300.0), level, 400).alarm);
        let noisy = |seconds: f64| 80.0 + 10.0 * (seconds % 2.0) + 0.02 * seconds;
        assert!(!fed(Linear::new("", 60.0).explaining(0.8), noisy, 400).alarm);
    }
}
