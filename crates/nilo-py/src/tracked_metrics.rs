//! The metrics of one tracker: their values in memory, and how far each has counted its steps.

use std::collections::HashMap;

use crate::key_sets::MOST_NAMES;
use crate::series::Series;

/// Metrics by name.
#[derive(Debug, Default)]
pub(crate) struct TrackedMetrics {
    by_name: HashMap<String, TrackedMetric>,
}

#[derive(Debug, Default)]
struct TrackedMetric {
    series: Series,
    /// The step of the next value for which none is given. Each metric has its own:
    /// what else is logged, and how often, does not move it.
    next_step: i64,
}

impl TrackedMetrics {
    /// The values of a metric that has any.
    pub(crate) fn get(&self, name: &str) -> Option<&Series> {
        let metric = self.by_name.get(name)?;
        (metric.series.len() > 0).then_some(&metric.series)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        let with_values = self.by_name.iter().filter(|(_, m)| m.series.len() > 0);
        with_values.map(|(name, _)| name)
    }

    /// The step of this metric's next value.
    #[inline]
    pub(crate) fn next_step(&self, name: &str) -> i64 {
        self.by_name.get(name).map_or(0, |metric| metric.next_step)
    }

    /// A value of this step.
    #[inline]
    pub(crate) fn push(&mut self, name: &str, value: f64, step: i64) {
        if let Some(metric) = self.count(name, step) {
            metric.series.push(value);
        }
    }

    /// An update of this step had no usable value.
    pub(crate) fn skip(&mut self, name: &str, step: i64) {
        self.count(name, step);
    }

    pub(crate) fn set(&mut self, name: &str, index: usize, value: f64) {
        if let Some(metric) = self.by_name.get_mut(name) {
            metric.series.set(index, value);
        }
    }

    /// Forgets the values; the steps go on.
    pub(crate) fn forget_values(&mut self) {
        for metric in self.by_name.values_mut() {
            metric.series = Series::default();
        }
    }

    /// Another run: the steps begin again.
    pub(crate) fn restart_steps(&mut self) {
        for metric in self.by_name.values_mut() {
            metric.next_step = 0;
        }
    }

    /// `None` is one name too many, which the run says.
    #[inline]
    fn count(&mut self, name: &str, step: i64) -> Option<&mut TrackedMetric> {
        if !self.by_name.contains_key(name) {
            if self.by_name.len() >= MOST_NAMES {
                return None;
            }
            self.by_name
                .insert(name.to_owned(), TrackedMetric::default());
        }
        let metric = self.by_name.get_mut(name)?;
        metric.next_step = step.saturating_add(1);
        Some(metric)
    }
}
