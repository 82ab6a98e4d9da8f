//! What the command decides by default, for the detectors in Python: there is one judge.

use nilo_analysis::alerts::AlertRules;
use nilo_analysis::assessment::OOM_WARNING_PERCENT;
use nilo_analysis::profile::GpuTotals;
use pyo3::prelude::*;

/// A warning and a critical percentage.
type Percents = (f64, f64);

/// Percentages of the limit: from where `nilo oom` warns, and from where the alerts of `nilo run` do, of host and GPU memory.
#[pyfunction]
pub(crate) fn default_percents() -> (f64, Percents, Percents) {
    let rules = AlertRules::default();
    let percents = |warning: f64, critical: f64| (percent(warning), percent(critical));
    (
        OOM_WARNING_PERCENT,
        percents(rules.memory_warning, rules.memory_critical),
        percents(rules.gpu_warning, rules.gpu_critical),
    )
}

/// A share as people write it; the shares have two places.
fn percent(share: f64) -> f64 {
    (share * 100.0).round()
}

/// All GPUs together, from the bytes used and in all of each: how many, their memory in units of 2^30 bytes, and percent of it used.
#[pyfunction]
pub(crate) fn gpu_totals(levels: Vec<(u64, u64)>) -> (usize, f64, f64) {
    let totals = GpuTotals::of(levels);
    (
        totals.total_devices,
        totals.total_memory_gb,
        totals.overall_utilization,
    )
}
