//! The simplest finding of a leak: more at the end than at the beginning.

use crate::predictor::{Predictor, PredictorOutput};
use crate::trace::TracePoint;

/// A leak if the last reading is more than a tenth above the first.
#[derive(Debug, Clone, Default)]
pub struct FirstToLastGrowth {
    first_bytes: Option<f64>,
    last_bytes: f64,
}

const GROWN: f64 = 1.1;

impl Predictor for FirstToLastGrowth {
    fn name(&self) -> &'static str {
        "last > first + 10 %"
    }

    fn forecasts(&self) -> bool {
        false
    }

    fn observe(&mut self, point: &TracePoint) {
        self.first_bytes.get_or_insert(point.used_bytes);
        self.last_bytes = point.used_bytes;
    }

    fn judge(&mut self) -> PredictorOutput {
        PredictorOutput::default()
    }

    fn leak(&mut self) -> Option<bool> {
        Some(self.last_bytes > GROWN * self.first_bytes?)
    }
}
