//! Alerts by the rules of `nilo run`: the native half of `Alerts`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nilo_analysis::alerts::{AlertRules, risk_of};
use nilo_analysis::tracking::ResourceVerdict;
use nilo_follow::FollowSettings;
use nilo_forecast::Cause;
use nilo_sample::{Alert, AlertKind, Severity};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::device::{Device, DeviceReading};
use super::judges::Judges;
use super::monitor::{MemoryMonitor, OwnJudge};
use super::oom_watch::NO_LEAKS;

/// Watches levels and risks.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct AlertWatch {
    judges: Judges,
    rules: AlertRules,
    standing: Mutex<BTreeMap<(Device, AlertKind), ActiveAlert>>,
}

/// An alert about a device that is not over.
#[derive(Debug, Default)]
struct ActiveAlert {
    /// The resources of the device that it stands for.
    resources: BTreeSet<String>,
    /// As it was told last.
    severity: Option<Severity>,
}

/// Type, device and dictionary of an alert; without a dictionary it is over.
type TypedAlert<'py> = (&'static str, Device, Option<Bound<'py, PyDict>>);

/// What is told.
struct AlertChange {
    device: Device,
    kind: AlertKind,
    told: Option<AlertDetails>,
}

struct AlertDetails {
    alert: Alert,
    limit_source: String,
    cause: Option<Cause>,
}

#[pymethods]
impl AlertWatch {
    /// Thresholds in percent, of host memory and of GPUs. With `max_bytes` the program is also held against that.
    #[new]
    #[pyo3(signature = (monitor, host_percents, gpu_percents, wants_host, max_bytes=None))]
    fn new(
        py: Python<'_>,
        monitor: &Bound<'_, MemoryMonitor>,
        host_percents: (f64, f64),
        gpu_percents: (f64, f64),
        wants_host: bool,
        max_bytes: Option<u64>,
    ) -> PyResult<AlertWatch> {
        let rules = AlertRules {
            memory_warning: host_percents.0 / 100.0,
            memory_critical: host_percents.1 / 100.0,
            gpu_warning: gpu_percents.0 / 100.0,
            gpu_critical: gpu_percents.1 / 100.0,
            leak: false,
            oom_risk: true,
        };
        let settings = FollowSettings {
            rules,
            leaks: NO_LEAKS,
            idle: Duration::ZERO,
            is_wanted: (),
        };
        Ok(AlertWatch {
            judges: Judges::new(py, monitor.get(), wants_host, settings, max_bytes)?,
            rules,
            standing: Mutex::default(),
        })
    }

    /// Judges what was read since the last look: type, device and dictionary of each alert that was raised, and None for one that is over.
    fn look<'py>(
        &self,
        py: Python<'py>,
        readings: Vec<DeviceReading>,
        step: Option<i64>,
    ) -> PyResult<Vec<TypedAlert<'py>>> {
        let turns = self.judges.ask(py, &readings, step, |judge| {
            let alerts = judge.judge.look(false);
            let risks = judge.judge.risks();
            let mut turns = Vec::new();
            for alert in alerts {
                let named = |risk: &&ResourceVerdict| risk.resource.to_string() == alert.resource;
                let Some(risk) = risks.iter().find(named) else {
                    continue;
                };
                let Some(device) = Device::of(&risk.resource) else {
                    continue;
                };
                turns.extend(
                    self.turn(device, judge, &alert)
                        .map(|is_raised| AlertChange {
                            device,
                            kind: alert.kind,
                            told: is_raised.then(|| AlertDetails {
                                limit_source: judge.limit_source(risk),
                                cause: risk.forecast.cause,
                                alert,
                            }),
                        }),
                );
            }
            turns
        })?;
        let turns = turns.into_iter();
        turns
            .map(|turn| {
                let dict = turn.told.as_ref().map(|told| self.to_dict(py, told));
                Ok((type_of(turn.kind), turn.device, dict.transpose()?))
            })
            .collect()
    }
}

impl AlertWatch {
    /// Whether a device's alert is raised or over by this: several of its resources may be the reason.
    fn turn(&self, device: Device, judge: &OwnJudge, alert: &Alert) -> Option<bool> {
        let name = judge.name_of(&alert.resource);
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let standing = standing.entry((device, alert.kind)).or_default();
        if !alert.raised {
            standing.resources.remove(&name);
            let is_over = standing.resources.is_empty();
            return is_over.then(|| {
                standing.severity = None;
                false
            });
        }
        standing.resources.insert(name);
        let is_worse = Some(alert.severity) > standing.severity;
        is_worse.then(|| {
            standing.severity = Some(alert.severity);
            true
        })
    }

    fn to_dict<'py>(&self, py: Python<'py>, told: &AlertDetails) -> PyResult<Bound<'py, PyDict>> {
        let alert = &told.alert;
        let dict = PyDict::new(py);
        dict.set_item("message", &alert.text)?;
        dict.set_item("current_usage", alert.used_percent)?;
        dict.set_item("limit", &told.limit_source)?;
        if let Some(share) = self.rules.threshold(alert.kind) {
            dict.set_item("threshold", 100.0 * share)?;
            return Ok(dict);
        }
        dict.set_item("risk_level", risk_of(alert.severity).as_str())?;
        dict.set_item("predicted_oom_seconds", alert.seconds_left)?;
        let range = alert.seconds_left_low.zip(alert.seconds_left_high);
        dict.set_item("predicted_oom_range", range)?;
        dict.set_item("confidence", alert.confidence)?;
        dict.set_item("cause", told.cause.map(Cause::as_str))?;
        dict.set_item("recommendations", &alert.recommendations)?;
        Ok(dict)
    }
}

/// As programs know it.
fn type_of(kind: AlertKind) -> &'static str {
    match kind {
        AlertKind::MemoryWarning => "warning_memory",
        AlertKind::MemoryCritical => "critical_memory",
        AlertKind::GpuMemoryWarning => "gpu_warning_memory",
        AlertKind::GpuMemoryCritical => "gpu_critical_memory",
        AlertKind::MemoryLeak => "memory_leak",
        AlertKind::OomRisk => "oom_risk",
        AlertKind::GpuOutOfMemory => "gpu_out_of_memory",
        AlertKind::Unknown => "unknown",
    }
}
