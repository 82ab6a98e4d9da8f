//! Growth that does not end: the native half of `LeakDetector`.

use std::collections::BTreeMap;
use std::time::Duration;

use nilo_analysis::alerts::AlertRules;
use nilo_analysis::assessment::growth_while_loading;
use nilo_analysis::tracking::{Resource, ResourceTracker, advised_leak};
use nilo_follow::{FIRST_LEAK_SEARCH, FollowSettings, LeakSearch};
use nilo_forecast::Growth;
use nilo_sample::AlertKind;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::device::{Device, DeviceReading};
use super::monitor::{MemoryMonitor, OwnJudge, SharedJudge};

/// Watches for leaks, from its beginning on.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct LeakWatch {
    judge: SharedJudge,
}

#[pymethods]
impl LeakWatch {
    /// Growth is not called a leak for `warm_up_secs`, unless training makes steps.
    #[new]
    fn new(
        py: Python<'_>,
        monitor: &Bound<'_, MemoryMonitor>,
        warm_up_secs: f64,
        wants_host: bool,
    ) -> PyResult<LeakWatch> {
        let settings = FollowSettings {
            rules: AlertRules {
                oom_risk: false,
                ..AlertRules::default()
            },
            leaks: LeakSearch {
                after: FIRST_LEAK_SEARCH,
                least_bytes: None,
                while_loading: false,
            },
            idle: Duration::ZERO,
            is_wanted: (),
        };
        let begin = |known: &ResourceTracker| {
            let mut tracker = known.restarted();
            tracker.set_loading_secs(warm_up_secs);
            tracker
        };
        let judge = monitor.get().judge(py, wants_host, settings, begin)?;
        Ok(LeakWatch { judge })
    }

    /// Forgets what was before.
    fn restart(&self, py: Python<'_>) -> PyResult<()> {
        self.judge.ask(py, &[], None, |judge| judge.judge.restart())
    }

    /// Judges what was read since the last look: the device and sentence of each leak that was found, and None for one that is over.
    fn look(
        &self,
        py: Python<'_>,
        readings: Vec<DeviceReading>,
        step: Option<i64>,
    ) -> PyResult<Vec<(Device, Option<String>)>> {
        self.judge.ask(py, &readings, step, |judge| {
            let alerts = judge.judge.look(false).into_iter();
            let leaks = alerts.filter(|alert| alert.kind == AlertKind::MemoryLeak);
            let leaks = leaks.filter_map(|alert| {
                let device = Device::of_named(&alert.resource, judge.judge.risks())?;
                Some((device, alert.raised.then_some(alert.text)))
            });
            leaks.collect()
        })
    }

    /// The growth of each device that has any: `kind` (growth, leak), `bytes_per_sec`, `lasted_secs`.
    fn growth<'py>(
        &self,
        py: Python<'py>,
        readings: Vec<DeviceReading>,
        step: Option<i64>,
    ) -> PyResult<Vec<(Device, Bound<'py, PyDict>)>> {
        let growths = self
            .judge
            .ask(py, &readings, step, |judge| growths(judge))?;
        let growths = growths.into_iter();
        growths
            .map(|(device, growth)| {
                let dict = PyDict::new(py);
                dict.set_item("kind", growth.kind.as_str())?;
                dict.set_item("bytes_per_sec", growth.bytes_per_sec)?;
                dict.set_item("lasted_secs", growth.lasted_secs)?;
                Ok((device, dict))
            })
            .collect()
    }

    /// The leak that advice is given on, as for a recorded run: bytes a second, of what, whether it is shared memory, and whether it is so early that it may be loading.
    fn leak_of_program(
        &self,
        py: Python<'_>,
        readings: Vec<DeviceReading>,
        step: Option<i64>,
    ) -> PyResult<Option<(f64, String, bool, bool)>> {
        let leak = self.judge.ask(py, &readings, step, |judge| {
            advised_leak(&judge.judge.verdicts())
        })?;
        Ok(leak.map(|leak| {
            let resource = leak.resource.to_string();
            let (is_shared, is_early) = (leak.is_in_shared_memory, leak.may_be_loading);
            (leak.bytes_per_second, resource, is_shared, is_early)
        }))
    }
}

/// PyTorch's part of a GPU is the program's own, so its growth is told before that of the whole.
fn growths(judge: &OwnJudge) -> BTreeMap<Device, Growth> {
    let mut found = BTreeMap::new();
    for verdict in judge.judge.verdicts() {
        let (Some(device), Some(growth)) = (Device::of(&verdict.resource), verdict.growth) else {
            continue;
        };
        // The user said how long the program warms up; nobody is told of a leak before.
        let growth = match verdict.growth_may_be_loading() {
            true => growth_while_loading(growth),
            false => growth,
        };
        match verdict.resource {
            Resource::Host | Resource::Gpu { .. } => {
                found.entry(device).or_insert(growth);
            }
            _ => {
                found.insert(device, growth);
            }
        }
    }
    found
}
