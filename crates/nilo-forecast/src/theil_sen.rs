//! A straight line that outliers cannot bend: the median of the slopes between all pairs of points (Theil and Sen).
//!
//! Kendall's tau comes with it for free: how far the pairs agree on the direction, from −1 to 1.

/// A line through points, and how sure its slope is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FittedLine {
    /// Rise per unit of x.
    pub(crate) slope: f64,
    /// The slope's 80 % interval by Kendall's statistic.
    pub(crate) slope_low: f64,
    pub(crate) slope_high: f64,
    /// Value at x = 0.
    pub(crate) intercept: f64,
    /// Agreement on the direction.
    pub(crate) tau: f64,
    /// Typical distance of a point from the line: the median absolute one, scaled to a standard deviation.
    pub(crate) scatter: f64,
}

impl FittedLine {
    /// The line's height at `x`.
    pub(crate) fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// Room to work in, kept between fits so that a fit allocates nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workspace {
    slopes: Vec<f64>,
    rests: Vec<f64>,
}

/// The normal quantile of a two-sided 80 % interval.
const Z80: f64 = 1.2816;
/// Median absolute deviation to standard deviation, for normal noise.
const MAD_TO_SIGMA: f64 = 1.4826;

impl Workspace {
    /// Fits a line; `None` with fewer than three points. `x` ascends strictly.
    pub(crate) fn fit(&mut self, x: &[f64], y: &[f64]) -> Option<FittedLine> {
        let points = x.len().min(y.len());
        if points < 3 {
            return None;
        }
        self.slopes.clear();
        let mut agreement = 0.0;
        for i in 0..points {
            for j in i + 1..points {
                let rise = y[j] - y[i];
                agreement += f64::from(i8::from(rise > 0.0) - i8::from(rise < 0.0));
                self.slopes.push(rise / (x[j] - x[i]));
            }
        }
        let pairs = self.slopes.len();
        let n = points as f64;
        let width = Z80 * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
        let low = ((pairs as f64 - width) / 2.0).max(0.0) as usize;
        let high = (((pairs as f64 + width) / 2.0) as usize).min(pairs - 1);
        let slope = select(&mut self.slopes, pairs / 2);
        let slope_low = select(&mut self.slopes[..=pairs / 2], low.min(pairs / 2));
        let slope_high = select(
            &mut self.slopes[pairs / 2..],
            high.max(pairs / 2) - pairs / 2,
        );
        let intercept = self.median((0..points).map(|i| y[i] - slope * x[i]));
        let scatter = self.median((0..points).map(|i| (y[i] - intercept - slope * x[i]).abs()));
        Some(FittedLine {
            slope,
            slope_low,
            slope_high,
            intercept,
            tau: agreement / pairs as f64,
            scatter: scatter * MAD_TO_SIGMA,
        })
    }

    /// The median of some values; 0 for none.
    pub(crate) fn median(&mut self, values: impl Iterator<Item = f64>) -> f64 {
        self.rests.clear();
        self.rests.extend(values);
        if self.rests.is_empty() {
            return 0.0;
        }
        let middle = self.rests.len() / 2;
        select(&mut self.rests, middle)
    }
}

/// The value that would stand at `rank` if the values were sorted; leaves them partly sorted around it.
fn select(values: &mut [f64], rank: usize) -> f64 {
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(y: &[f64]) -> FittedLine {
        let x: Vec<f64> = (0..y.len()).map(|i| i as f64).collect();
        Workspace::default().fit(&x, y).unwrap()
    }

    #[test]
    fn an_exact_line_is_found_exactly() {
        let found = line(&[1.0, 3.0, 5.0, 7.0, 9.0]);
        assert_eq!((found.slope, found.intercept, found.tau), (2.0, 1.0, 1.0));
        assert_eq!(
            (found.slope_low, found.slope_high, found.scatter),
            (2.0, 2.0, 0.0)
        );
    }

    #[test]
    fn a_quarter_of_wild_points_does_not_bend_it() {
        let y: Vec<f64> = (0..40)
            .map(|i| if i % 4 == 1 { 1e6 } else { f64::from(i) })
            .collect();
        assert!((line(&y).slope - 1.0).abs() < 0.2);
    }

    #[test]
    fn a_constant_has_neither_slope_nor_direction() {
        let found = line(&[5.0; 12]);
        assert_eq!((found.slope, found.tau), (0.0, 0.0));
    }

    #[test]
    fn the_interval_holds_the_slope() {
        let y = [0.0, 1.5, 1.6, 3.4, 3.9, 5.2, 5.8, 7.3];
        let found = line(&y);
        assert!(found.slope_low <= found.slope && found.slope <= found.slope_high);
        assert!(found.slope_low < found.slope_high);
    }

    #[test]
    fn two_points_are_no_line() {
        assert!(Workspace::default().fit(&[0.0, 1.0], &[0.0, 1.0]).is_none());
    }
}
