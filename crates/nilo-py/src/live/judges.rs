//! The judges of one watch: that of the limits in force, and that of a budget that the program set for itself.

use nilo_follow::FollowSettings;
use pyo3::prelude::*;

use super::device::DeviceReading;
use super::monitor::{MemoryMonitor, OwnJudge, SharedJudge};

/// Everybody who judges memory for one watch, by the same rules. A budget is judged beside the limits: its process tree may be one of several programs in a cgroup,
/// and whichever comes first is told.
pub(crate) struct Judges {
    in_force: SharedJudge,
    budget: Option<SharedJudge>,
}

impl Judges {
    /// Without `budget_bytes`, or where the host is not asked about, the limits in force alone.
    pub(crate) fn new(
        py: Python<'_>,
        monitor: &MemoryMonitor,
        wants_host: bool,
        settings: FollowSettings<()>,
        budget_bytes: Option<u64>,
    ) -> PyResult<Judges> {
        let budget_bytes = budget_bytes.filter(|_| wants_host);
        let budget = budget_bytes.map(|bytes| monitor.budget_judge(py, settings, bytes));
        Ok(Judges {
            in_force: monitor.judge(py, wants_host, settings, Clone::clone)?,
            budget: budget.transpose()?,
        })
    }

    /// Takes in what was read of GPUs, then asks each; the budget's answers come first.
    pub(crate) fn ask<T: Send>(
        &self,
        py: Python<'_>,
        readings: &[DeviceReading],
        step: Option<i64>,
        question: impl Fn(&mut OwnJudge) -> Vec<T> + Send + Sync,
    ) -> PyResult<Vec<T>> {
        let mut answers = match &self.budget {
            Some(budget) => budget.ask(py, &[], step, &question)?,
            None => Vec::new(),
        };
        answers.extend(self.in_force.ask(py, readings, step, &question)?);
        Ok(answers)
    }
}
