//! Warnings before memory runs out: the native half of `OOMDetector`.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nilo_analysis::alerts::AlertRules;
use nilo_analysis::assessment::{Assessment, Thresholds};
use nilo_follow::{FollowSettings, LeakSearch, WarningChange, Warnings};
use nilo_forecast::Cause;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::device::{Device, DeviceReading, worst_of_each};
use super::judges::Judges;
use super::monitor::MemoryMonitor;

/// Nobody searches for leaks by these settings.
pub(super) const NO_LEAKS: LeakSearch = LeakSearch {
    after: Duration::ZERO,
    least_bytes: None,
    while_loading: false,
};

/// Watches for memory that runs out.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct OomWatch {
    judges: Judges,
    thresholds: Thresholds,
    warnings: Mutex<Warnings>,
}

/// A device's risk and what limits it.
struct Risk {
    device: Device,
    /// What of it: the process tree and the machine are one device.
    resource: String,
    assessment: Assessment,
    limit_source: String,
}

#[pymethods]
impl OomWatch {
    /// `threshold_percent` of a limit is a warning, whatever the forecast says. With `max_bytes` the program is also held against that.
    #[new]
    #[pyo3(signature = (monitor, threshold_percent, wants_host, max_bytes=None))]
    fn new(
        py: Python<'_>,
        monitor: &Bound<'_, MemoryMonitor>,
        threshold_percent: f64,
        wants_host: bool,
        max_bytes: Option<u64>,
    ) -> PyResult<OomWatch> {
        let thresholds = Thresholds::from_percent(threshold_percent);
        let settings = FollowSettings {
            rules: AlertRules::from_thresholds(&thresholds, false),
            leaks: NO_LEAKS,
            idle: Duration::ZERO,
            is_wanted: (),
        };
        Ok(OomWatch {
            judges: Judges::new(py, monitor.get(), wants_host, settings, max_bytes)?,
            thresholds,
            warnings: Mutex::new(Warnings::new(thresholds)),
        })
    }

    /// Judges what was read since the last look: the device and prediction of each warning that began or became worse, and None for one that is over.
    fn look<'py>(
        &self,
        py: Python<'py>,
        readings: Vec<DeviceReading>,
        step: Option<i64>,
    ) -> PyResult<Vec<(Device, Option<Bound<'py, PyDict>>)>> {
        let turns = self.judges.ask(py, &readings, step, |judge| {
            let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
            let alerts = judge.judge.look(false);
            let risks = judge.judge.risks();
            let mut turns = Vec::new();
            for alert in &alerts {
                let Some(device) = Device::of_named(&alert.resource, risks) else {
                    continue;
                };
                let reason = judge.name_of(&alert.resource);
                match warnings.on_alert(&device.name(), &reason, alert, risks) {
                    None => {}
                    Some(WarningChange::Over) => turns.push((device, None)),
                    Some(WarningChange::Raised(raised)) => {
                        let (verdict, assessment) = *raised;
                        let risk = Risk {
                            device,
                            resource: verdict.resource.to_string(),
                            limit_source: judge.limit_source(&verdict),
                            assessment,
                        };
                        turns.push((device, Some(risk)));
                    }
                }
            }
            turns
        })?;
        let turns = turns.into_iter();
        turns
            .map(|(device, risk)| Ok((device, risk.map(|risk| risk.to_dict(py)).transpose()?)))
            .collect()
    }

    /// The prediction of each of these devices, as it stands.
    fn check<'py>(
        &self,
        py: Python<'py>,
        readings: Vec<DeviceReading>,
        step: Option<i64>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let mut risks = self.judges.ask(py, &readings, step, |judge| {
            let mut worst = worst_of_each(judge.judge.verdicts(), &self.thresholds);
            worst.retain(|(device, verdict, _)| {
                let is_read = readings.iter().any(|it| it.device() == *device);
                is_read && judge.has_limit(verdict)
            });
            let risks = worst.into_iter().map(|(device, verdict, assessment)| Risk {
                device,
                resource: verdict.resource.to_string(),
                assessment,
                limit_source: judge.limit_source(&verdict),
            });
            risks.collect::<Vec<_>>()
        })?;
        // Where nothing is worse, the budget comes before the limits, which are larger.
        risks.sort_by_key(|risk| (risk.device, std::cmp::Reverse(risk.assessment.level)));
        risks.dedup_by_key(|risk| risk.device);
        risks.iter().map(|risk| risk.to_dict(py)).collect()
    }
}

impl Risk {
    /// The fields of an `OOMPrediction`.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let assessment = &self.assessment;
        let prediction = assessment.prediction;
        let recommendations = match assessment.is_warning() {
            true => assessment.recommendations.clone(),
            false => Vec::new(),
        };
        let dict = PyDict::new(py);
        dict.set_item("device_id", self.device)?;
        dict.set_item("resource", &self.resource)?;
        dict.set_item("risk_level", assessment.level.as_str())?;
        dict.set_item("current_usage", assessment.used_percent.unwrap_or(0.0))?;
        dict.set_item("limit_source", &self.limit_source)?;
        dict.set_item("predicted_oom_seconds", prediction.map(|told| told.seconds))?;
        dict.set_item("confidence", prediction.map(|told| told.confidence))?;
        dict.set_item("recommendations", recommendations)?;
        let range = prediction.and_then(|told| told.seconds_low.zip(told.seconds_high));
        dict.set_item("predicted_oom_range", range)?;
        dict.set_item("reason", &assessment.reason)?;
        dict.set_item("cause", assessment.cause.map(Cause::as_str))?;
        dict.set_item("forecast_level", assessment.forecast_level.as_str())?;
        Ok(dict)
    }
}
