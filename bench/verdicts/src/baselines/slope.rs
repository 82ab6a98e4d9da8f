//! The finding of a leak that a statistician would try first: a slope that is not chance.

use crate::predictor::{Predictor, PredictorOutput};
use crate::trace::TracePoint;

/// A leak if the least-squares line over the second half of the readings rises by more than three standard errors.
#[derive(Debug, Clone, Default)]
pub struct Slope {
    points: Vec<(f64, f64)>,
}

const STANDARD_ERRORS: f64 = 3.0;

impl Predictor for Slope {
    fn name(&self) -> &'static str {
        "OLS slope of the second half > 3 s.e."
    }

    fn forecasts(&self) -> bool {
        false
    }

    fn observe(&mut self, point: &TracePoint) {
        self.points.push((point.seconds(), point.used_bytes));
    }

    fn judge(&mut self) -> PredictorOutput {
        PredictorOutput::default()
    }

    fn leak(&mut self) -> Option<bool> {
        let half = &self.points[self.points.len() / 2..];
        let count = half.len() as f64;
        if half.len() < 3 {
            return None;
        }
        let mean = |value: &dyn Fn(&(f64, f64)) -> f64| half.iter().map(value).sum::<f64>() / count;
        let mean_time = mean(&|point| point.0);
        let mean_value = mean(&|point| point.1);
        let spread_time = mean(&|point| (point.0 - mean_time).powi(2));
        let spread_both = mean(&|point| (point.0 - mean_time) * (point.1 - mean_value));
        let slope = spread_both / spread_time;
        let unexplained =
            mean(&|point| (point.1 - mean_value - slope * (point.0 - mean_time)).powi(2));
        let standard_error = (unexplained / spread_time / (count - 2.0)).sqrt();
        Some(slope > STANDARD_ERRORS * standard_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::draw;

    #[test]
    fn a_steady_leak_is_one_and_flat_noise_is_not() {
        let judged = |shape| {
            let mut slope = Slope::default();
            for point in &draw(shape, 3).points {
                slope.observe(point);
            }
            slope.leak()
        };
        assert_eq!(judged(1), Some(true));
        assert_eq!(judged(7), Some(false));
    }
}
