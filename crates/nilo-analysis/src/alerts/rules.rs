//! What raises an alert.

use nilo_sample::AlertKind;
use thiserror::Error;

use crate::assessment::Thresholds;

/// Thresholds as shares of the limit, and what else is watched for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlertRules {
    /// Job and host memory: the first threshold.
    pub memory_warning: f64,
    /// Job and host memory: the second threshold.
    pub memory_critical: f64,
    /// GPU memory: the first threshold.
    pub gpu_warning: f64,
    /// GPU memory: the second threshold.
    pub gpu_critical: f64,
    /// Whether a leak is worth an alert.
    pub leak: bool,
    /// Whether a forecast of running out is.
    pub oom_risk: bool,
}

impl Default for AlertRules {
    fn default() -> AlertRules {
        AlertRules {
            memory_warning: 0.75,
            memory_critical: 0.9,
            gpu_warning: 0.8,
            gpu_critical: 0.95,
            leak: true,
            oom_risk: true,
        }
    }
}

impl AlertRules {
    /// The share of the limit that raises this kind of alert; none where it is not a level that does.
    pub fn threshold(&self, kind: AlertKind) -> Option<f64> {
        match kind {
            AlertKind::MemoryWarning => Some(self.memory_warning),
            AlertKind::MemoryCritical => Some(self.memory_critical),
            AlertKind::GpuMemoryWarning => Some(self.gpu_warning),
            AlertKind::GpuMemoryCritical => Some(self.gpu_critical),
            AlertKind::MemoryLeak
            | AlertKind::OomRisk
            | AlertKind::GpuOutOfMemory
            | AlertKind::Unknown => None,
        }
    }

    /// For somebody who warns by risk, and above one level of whatever can run out.
    pub fn from_thresholds(thresholds: &Thresholds, leak: bool) -> AlertRules {
        AlertRules {
            memory_warning: thresholds.high,
            memory_critical: thresholds.critical,
            gpu_warning: thresholds.high,
            gpu_critical: thresholds.critical,
            leak,
            oom_risk: true,
        }
    }
}

/// Thresholds that cannot be meant.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum RulesError {
    /// Not a share.
    #[error("{name} = {value} is not a share of the limit, above 0 and at most 1")]
    OutOfRange {
        /// Which threshold.
        name: &'static str,
        /// What it was set to.
        value: f64,
    },
    /// The warning would come after the alarm.
    #[error("{warning_name} = {warning} lies above {critical_name} = {critical}")]
    OutOfOrder {
        /// The first threshold.
        warning_name: &'static str,
        /// What it was set to.
        warning: f64,
        /// The second threshold.
        critical_name: &'static str,
        /// What it was set to.
        critical: f64,
    },
}

impl AlertRules {
    /// Refuses thresholds that cannot be meant.
    pub fn check(&self) -> Result<(), RulesError> {
        let pairs = [
            (
                ("memory_warning", self.memory_warning),
                ("memory_critical", self.memory_critical),
            ),
            (
                ("gpu_warning", self.gpu_warning),
                ("gpu_critical", self.gpu_critical),
            ),
        ];
        for ((warning_name, warning), (critical_name, critical)) in pairs {
            for (name, value) in [(warning_name, warning), (critical_name, critical)] {
                if !(value > 0.0 && value <= 1.0) {
                    return Err(RulesError::OutOfRange { name, value });
                }
            }
            if warning > critical {
                return Err(RulesError::OutOfOrder {
                    warning_name,
                    warning,
                    critical_name,
                    critical,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_sound() {
        assert_eq!(AlertRules::default().check(), Ok(()));
    }

    #[test]
    fn thresholds_outside_the_limit_are_refused() {
        for value in [0.0, -0.5, 1.01, 75.0, f64::NAN, f64::INFINITY] {
            let rules = AlertRules {
                gpu_critical: value,
                ..AlertRules::default()
            };
            let refused = rules.check();
            assert!(
                matches!(
                    refused,
                    Err(RulesError::OutOfRange {
                        name: "gpu_critical",
                        ..
                    })
                ),
                "{value}"
            );
        }
    }

    #[test]
    fn a_warning_above_its_alarm_is_refused() {
        let rules = AlertRules {
            memory_warning: 0.95,
            ..AlertRules::default()
        };
        let sentence = rules.check().unwrap_err().to_string();
        assert_eq!(
            sentence,
            "memory_warning = 0.95 lies above memory_critical = 0.9"
        );
    }
}
