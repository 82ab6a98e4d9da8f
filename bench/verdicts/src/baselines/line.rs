//! A least-squares line over a moving window, kept as running sums: a point costs the same however long the window is.

use std::collections::VecDeque;

/// The window and its sums. Values are kept relative to the first, so that the sums lose no digits.
#[derive(Debug, Clone)]
pub(super) struct WindowedFit {
    window_secs: f64,
    points: VecDeque<(f64, f64)>,
    origin: Option<(f64, f64)>,
    time: f64,
    value: f64,
    time_time: f64,
    time_value: f64,
    value_value: f64,
}

/// What the line says at the last point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fit {
    /// On the line, at the last point.
    pub(super) value: f64,
    /// A second.
    pub(super) slope: f64,
    /// Share of the variance that the line explains.
    pub(super) r_squared: f64,
}

/// So many points are a line, however short the window that they fill yet: recordings at 20 Hz last half a minute.
const ENOUGH_POINTS: usize = 200;

impl WindowedFit {
    pub(super) fn new(window_secs: f64) -> Self {
        Self {
            window_secs,
            points: VecDeque::new(),
            origin: None,
            time: 0.0,
            value: 0.0,
            time_time: 0.0,
            time_value: 0.0,
            value_value: 0.0,
        }
    }

    pub(super) fn push(&mut self, seconds: f64, value: f64) {
        let (first_secs, first_value) = *self.origin.get_or_insert((seconds, value));
        let point = (seconds - first_secs, value - first_value);
        self.add(point, 1.0);
        self.points.push_back(point);
        while let Some(&oldest) = self.points.front()
            && oldest.0 < point.0 - self.window_secs
        {
            self.points.pop_front();
            self.add(oldest, -1.0);
        }
    }

    fn add(&mut self, (time, value): (f64, f64), sign: f64) {
        self.time += sign * time;
        self.value += sign * value;
        self.time_time += sign * time * time;
        self.time_value += sign * time * value;
        self.value_value += sign * value * value;
    }

    /// The line, once half of the window or enough points are there.
    pub(super) fn fit(&self) -> Option<Fit> {
        let (first, last) = (self.points.front()?, self.points.back()?);
        let count = self.points.len();
        if count < 3 || (last.0 - first.0 < self.window_secs / 2.0 && count < ENOUGH_POINTS) {
            return None;
        }
        let count = count as f64;
        let spread_time = self.time_time - self.time * self.time / count;
        let spread_both = self.time_value - self.time * self.value / count;
        let spread_value = self.value_value - self.value * self.value / count;
        if spread_time <= 0.0 {
            return None;
        }
        let slope = spread_both / spread_time;
        let value = self.value / count + slope * (last.0 - self.time / count);
        let r_squared = if spread_value > 0.0 {
            slope * spread_both / spread_value
        } else {
            0.0
        };
        Some(Fit {
            value: value + self.origin?.1,
            slope,
            r_squared,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_forgotten_with_its_window() {
        let mut line = WindowedFit::new(60.0);
        for second in 0..500 {
            let time = f64::from(second);
            // Falls for a long time, then rises.
            let value = if second < 400 {
                1e11 - 1e6 * time
            } else {
                2e11 + 5e6 * time
            };
            line.push(time, value);
        }
        let fit = line.fit().unwrap();
        assert!((fit.slope / 5e6 - 1.0).abs() < 1e-6, "{fit:?}");
        assert!(
            (fit.value / (2e11 + 5e6 * 499.0) - 1.0).abs() < 1e-9,
            "{fit:?}"
        );
        assert!(fit.r_squared > 0.999_999);
    }

    #[test]
    fn less_than_half_a_window_of_few_points_is_no_line() {
        let mut line = WindowedFit::new(600.0);
        for second in 0..100 {
            line.push(f64::from(second), f64::from(second));
        }
        assert_eq!(line.fit(), None);
        for hundredth in 0..200 {
            line.push(100.0 + f64::from(hundredth) / 100.0, 100.0);
        }
        assert!(line.fit().is_some());
    }
}
