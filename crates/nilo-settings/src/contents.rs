//! What may stand in a settings file.

use std::path::PathBuf;

use nilo_recorder::alerts::{AlertRules, RulesError, check_webhook, signal_number};
use nilo_sample::units::{parse_duration, to_secs};
use serde::Deserialize;
use thiserror::Error;

/// The time between samples where nobody asked for another.
pub const DEFAULT_INTERVAL_NANOS: u64 = 100_000_000;
/// The shortest interval: below it the reading itself is what one would see.
const SHORTEST_NANOS: u64 = 1_000_000;
const LONGEST_NANOS: u64 = 3_600_000_000_000;

/// What may stand in `[alerts]`, for a hint.
pub const KNOWN_ALERTS: &str = "known in [alerts]: memory_warning = 0.75, memory_critical = 0.9, gpu_warning = 0.8, gpu_critical = 0.95, leak = true, oom_risk = true, on_alert = \"CMD\", webhook = \"https://...\", signal = \"USR1\", quiet = true";

/// What a user or a project may set.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Folder that holds the runs, relative to the settings file.
    pub dir: Option<PathBuf>,
    /// Time between samples, as after `--interval`.
    pub interval: Option<Interval>,
    /// Print neither live line nor summary.
    pub quiet: Option<bool>,
    /// Record command lines as they are, tokens and passwords included.
    pub keep_secrets: Option<bool>,
    /// Let others read the run folders, as the umask allows.
    pub shared: Option<bool>,
    /// Whether Python programs below `nilo run` load the hooks.
    pub hooks: Option<bool>,
    /// What to alert of, and whom.
    #[serde(default)]
    pub alerts: AlertTable,
}

/// `[alerts]`
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertTable {
    /// Share of the memory limit that is a warning.
    pub memory_warning: Option<f64>,
    /// Share of the memory limit that is critical.
    pub memory_critical: Option<f64>,
    /// The same for GPUs.
    pub gpu_warning: Option<f64>,
    /// The same for GPUs.
    pub gpu_critical: Option<f64>,
    /// Whether leaks are alerts.
    pub leak: Option<bool>,
    /// Whether forecasts are alerts.
    pub oom_risk: Option<bool>,
    /// A shell command for each alert.
    pub on_alert: Option<String>,
    /// An address that gets each alert.
    pub webhook: Option<String>,
    /// A signal that the job gets with each alert.
    pub signal: Option<String>,
    /// Print no line for an alert.
    pub quiet: Option<bool>,
}

/// `interval = 0.1` or `interval = "100ms"`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected seconds such as 0.1, or text such as \"100ms\""
)]
pub enum Interval {
    /// A number of seconds.
    Seconds(f64),
    /// With a unit.
    Text(String),
}

/// An interval as it is typed: seconds, or with a unit.
pub fn parse_interval(text: &str) -> Result<u64, String> {
    if text.trim_start().starts_with('-') {
        return Err("an interval cannot be negative; use 1 ms to 1 h".to_owned());
    }
    let nanos = parse_duration(text).map_err(|error| error.to_string())?;
    if (SHORTEST_NANOS..=LONGEST_NANOS).contains(&nanos) {
        Ok(nanos)
    } else {
        Err(format!("{} s is not between 1 ms and 1 h", to_secs(nanos)))
    }
}

/// A setting that cannot be meant so.
#[derive(Debug, PartialEq)]
pub(crate) struct WrongSetting {
    /// The table that it stands in; none for the file itself.
    pub(crate) table: Option<&'static str>,
    /// Its name.
    pub(crate) key: &'static str,
    /// A sentence, its name included.
    pub(crate) what: String,
}

/// A variable of the environment that has to say yes or no, and says neither.
#[derive(Debug, Error)]
#[error("{variable} is {text:?}; it must be 1 or 0")]
pub struct UnknownWord {
    variable: &'static str,
    text: String,
}

/// What a word says. The hooks in a job know the same words for no.
fn yes_or_no(text: &str) -> Option<bool> {
    match text {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

impl Settings {
    /// Refuses what cannot be meant so.
    pub(crate) fn check(&self) -> Result<(), WrongSetting> {
        self.interval_nanos().map_err(|error| WrongSetting {
            table: None,
            key: "interval",
            what: format!("interval: {error}"),
        })?;
        self.alerts.check().map_err(|(key, error)| WrongSetting {
            table: Some("alerts"),
            key,
            what: format!("[alerts] {error}"),
        })
    }

    /// Whether Python programs load the hooks: the user says it by `NILO_HOOKS`, and otherwise here.
    pub fn wants_hooks(&self) -> Result<bool, UnknownWord> {
        let said = std::env::var_os("NILO_HOOKS").unwrap_or_default();
        let said = said.to_string_lossy();
        match &*said {
            "" => Ok(self.hooks.unwrap_or(true)),
            text => yes_or_no(text).ok_or_else(|| UnknownWord {
                variable: "NILO_HOOKS",
                text: text.to_owned(),
            }),
        }
    }

    /// Whether neither live line nor summary is wanted.
    pub fn is_quiet(&self) -> bool {
        self.quiet.unwrap_or(false)
    }

    /// The interval in nanoseconds.
    pub fn interval_nanos(&self) -> Result<Option<u64>, String> {
        match &self.interval {
            Some(Interval::Seconds(seconds)) => parse_interval(&seconds.to_string()).map(Some),
            Some(Interval::Text(text)) => parse_interval(text).map(Some),
            None => Ok(None),
        }
    }

    /// These settings, and `others` where they say nothing.
    pub(crate) fn or(self, others: Settings) -> Settings {
        let (own, other) = (self.alerts, others.alerts);
        Settings {
            dir: self.dir.or(others.dir),
            interval: self.interval.or(others.interval),
            quiet: self.quiet.or(others.quiet),
            keep_secrets: self.keep_secrets.or(others.keep_secrets),
            shared: self.shared.or(others.shared),
            hooks: self.hooks.or(others.hooks),
            alerts: AlertTable {
                memory_warning: own.memory_warning.or(other.memory_warning),
                memory_critical: own.memory_critical.or(other.memory_critical),
                gpu_warning: own.gpu_warning.or(other.gpu_warning),
                gpu_critical: own.gpu_critical.or(other.gpu_critical),
                leak: own.leak.or(other.leak),
                oom_risk: own.oom_risk.or(other.oom_risk),
                on_alert: own.on_alert.or(other.on_alert),
                webhook: own.webhook.or(other.webhook),
                signal: own.signal.or(other.signal),
                quiet: own.quiet.or(other.quiet),
            },
        }
    }

    /// The settings here that need an approval, with their values: they run, tell, end, write or disclose something.
    pub fn needing_approval(&self) -> Vec<(&'static str, String)> {
        let alerts = &self.alerts;
        let text = |value: &Option<String>| value.as_ref().map(|text| format!("{text:?}"));
        let dir = self.dir.as_ref().map(|dir| format!("{dir:?}"));
        let flag = |value: Option<bool>| value.filter(|value| *value).map(|_| "true".to_owned());
        let all = [
            ("dir", dir),
            ("keep_secrets", flag(self.keep_secrets)),
            ("shared", flag(self.shared)),
            ("on_alert", text(&alerts.on_alert)),
            ("webhook", text(&alerts.webhook)),
            ("signal", text(&alerts.signal)),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// The settings here that need no approval.
    pub(crate) fn without_approval(self) -> Settings {
        Settings {
            dir: None,
            keep_secrets: None,
            shared: None,
            alerts: AlertTable {
                on_alert: None,
                webhook: None,
                signal: None,
                ..self.alerts
            },
            ..self
        }
    }
}

impl AlertTable {
    /// What raises an alert.
    pub fn rules(&self) -> AlertRules {
        let usual = AlertRules::default();
        AlertRules {
            memory_warning: self.memory_warning.unwrap_or(usual.memory_warning),
            memory_critical: self.memory_critical.unwrap_or(usual.memory_critical),
            gpu_warning: self.gpu_warning.unwrap_or(usual.gpu_warning),
            gpu_critical: self.gpu_critical.unwrap_or(usual.gpu_critical),
            leak: self.leak.unwrap_or(usual.leak),
            oom_risk: self.oom_risk.unwrap_or(usual.oom_risk),
        }
    }

    /// The name of the setting that is wrong, and what is wrong with it.
    fn check(&self) -> Result<(), (&'static str, String)> {
        self.rules().check().map_err(|error| {
            let key = match error {
                RulesError::OutOfRange { name, .. } => name,
                // The one that stands here: the other may be the default.
                RulesError::OutOfOrder {
                    warning_name,
                    critical_name,
                    ..
                } => match (warning_name, self.memory_warning, self.gpu_warning) {
                    ("memory_warning", None, _) | ("gpu_warning", _, None) => critical_name,
                    _ => warning_name,
                },
            };
            (key, error.to_string())
        })?;
        if let Some(name) = &self.signal
            && signal_number(name).is_none()
        {
            return Err(("signal", format!("signal: no signal is called {name:?}")));
        }
        if let Some(address) = &self.webhook {
            check_webhook(address).map_err(|error| ("webhook", format!("webhook: {error}")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_cannot_work_are_refused() {
        for text in ["0", "-1", "0.0001", "2h", "x", ""] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
        assert_eq!(parse_interval("0.001"), Ok(1_000_000));
        assert_eq!(parse_interval("5m"), Ok(300_000_000_000));
    }
}
