//! One metric in memory: its values, and what can be said about them.
//!
//! Definitions: statistics are over the finite values; NaN and infinities are counted beside them.
//! `std` divides by n (as numpy does by default); percentiles interpolate linearly between the two nearest values (likewise).

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Values in the order of their arrival.
#[derive(Debug, Default, Clone)]
pub(crate) struct Series {
    values: Vec<f64>,
}

impl Series {
    #[inline]
    pub(crate) fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn set(&mut self, index: usize, value: f64) {
        if let Some(place) = self.values.get_mut(index) {
            *place = value;
        }
    }

    /// The last `window` values, or all.
    pub(crate) fn last(&self, window: Option<usize>) -> &[f64] {
        let from = window.map_or(0, |window| self.values.len().saturating_sub(window));
        &self.values[from..]
    }
}

/// What a stretch of values amounts to.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeriesStatistics {
    pub(crate) count: usize,
    pub(crate) mean: f64,
    pub(crate) std: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) nan_count: usize,
    pub(crate) inf_count: usize,
    sorted: Vec<f64>,
}

impl SeriesStatistics {
    pub(crate) fn of(values: &[f64]) -> SeriesStatistics {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let nan_count = values.iter().filter(|value| value.is_nan()).count();
        let (mean, std) = mean_and_std(&sorted);
        SeriesStatistics {
            count: values.len(),
            mean,
            std,
            min: sorted.first().copied().unwrap_or(f64::NAN),
            max: sorted.last().copied().unwrap_or(f64::NAN),
            nan_count,
            inf_count: values.len() - nan_count - sorted.len(),
            sorted,
        }
    }

    /// The value below which a share of the others lie.
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let Some(last) = self.sorted.len().checked_sub(1) else {
            return f64::NAN;
        };
        let position = share * last as f64;
        let below = self.sorted[position.floor() as usize];
        let above = self.sorted[position.ceil() as usize];
        below + (above - below) * position.fract()
    }
}

/// The finite ones among values.
pub(crate) fn finite(values: &[f64]) -> Vec<f64> {
    values.iter().copied().filter(|v| v.is_finite()).collect()
}

/// Mean and standard deviation of finite values; NaN without values.
pub(crate) fn mean_and_std(values: &[f64]) -> (f64, f64) {
    let (mean, std) = nilo_analysis::statistics::mean_and_std(values);
    (mean.unwrap_or(f64::NAN), std.unwrap_or(f64::NAN))
}

/// The summary as Python sees it; `unit` is put behind the names of quantities, as in `mean_sec`.
pub(crate) fn summary_dict<'py>(
    py: Python<'py>,
    statistics: &SeriesStatistics,
    unit: &str,
    shares: &[(&str, f64)],
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("count", statistics.count)?;
    let quantities = [
        ("mean", statistics.mean),
        ("std", statistics.std),
        ("min", statistics.min),
        ("max", statistics.max),
    ];
    for (name, value) in quantities {
        dict.set_item(format!("{name}{unit}"), value)?;
    }
    for (name, share) in shares {
        dict.set_item(format!("{name}{unit}"), statistics.percentile(*share))?;
    }
    Ok(dict)
}

/// Count, mean, std, min, max, p50, p95, p99 of any numbers, with NaN and infinities counted apart.
#[pyfunction]
pub(crate) fn describe<'py>(py: Python<'py>, values: Vec<f64>) -> PyResult<Bound<'py, PyDict>> {
    metric_summary(py, &SeriesStatistics::of(&values))
}

/// The summary of a metric.
pub(crate) fn metric_summary<'py>(
    py: Python<'py>,
    statistics: &SeriesStatistics,
) -> PyResult<Bound<'py, PyDict>> {
    let shares = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];
    let dict = summary_dict(py, statistics, "", &shares)?;
    dict.set_item("nan_count", statistics.nan_count)?;
    dict.set_item("inf_count", statistics.inf_count)?;
    Ok(dict)
}
