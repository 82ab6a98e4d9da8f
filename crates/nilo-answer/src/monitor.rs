//! What `nilo monitor` and `nilo oom --monitor` answer: one event a line while they run, and an end.

use nilo_analysis::findings::MemoryHolder;
use nilo_sample::Alert;
use nilo_sample::units::to_secs;
use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnosis::Diagnosis;
use crate::growths::{GrowthFindings, ResourceGrowth};
use crate::leak::LeakResource;
use crate::oom::{OomResource, ResourceRisk};
use crate::profile::ProfileAnswer;

/// A line of `nilo monitor` and `nilo oom --monitor` (`nilo.monitor/1`); `secs` counts from the start.
#[derive(Debug, Clone, JsonSchema, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum MonitorEvent {
    /// The levels of everything that is monitored, every few seconds.
    Level {
        /// When.
        secs: f64,
        /// The worst first.
        resources: Vec<OomResource>,
    },
    /// A warning begins or gets worse, or something has run out.
    Warning {
        /// When.
        secs: f64,
        /// What is warned of.
        #[serde(flatten)]
        resource: Box<OomResource>,
    },
    /// A warning is over.
    Over(AlertEvent),
    /// A leak was found.
    Leak(AlertEvent),
    /// A leak goes on no more.
    LeakOver(AlertEvent),
    /// The last line.
    End(Box<MonitorEnd>),
}

/// An alert at its time.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct AlertEvent {
    /// When.
    pub secs: f64,
    /// What is raised or cleared.
    #[serde(flatten)]
    pub alert: Alert,
}

/// What it came to.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct MonitorEnd {
    /// How long was monitored.
    pub secs: f64,
    /// How many warnings there were.
    pub warnings: u64,
    /// Whether the processes have ended.
    pub ended: bool,
    /// Whether memory ran out meanwhile.
    pub oom_killed: bool,
    /// The folder of the run that was recorded.
    pub run: Option<String>,
    /// What only `nilo monitor` looks for.
    #[serde(flatten)]
    pub further: Option<MonitorFindings>,
}

/// What `nilo monitor` finds beside warnings.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct MonitorFindings {
    /// How many leaks; `null` where the time was too short to tell.
    pub leaks: Option<u64>,
    /// What leaks at the end.
    pub leaking: Vec<LeakResource>,
    /// The processes that hold the growth of the job's memory.
    pub grown_in: Vec<MemoryHolder>,
    /// Leaks that were found on the way and are over.
    pub leaks_over: Vec<Alert>,
    /// The profile, where one was asked for.
    pub profile: Option<ProfileAnswer>,
}

/// What was found of leaks in a time of monitoring.
#[derive(Debug, Default)]
pub struct MonitoredLeaks {
    /// What leaks at the end, as `nilo leak` would say.
    pub leaks: GrowthFindings,
    /// What was told on the way and is over.
    pub over: Vec<Alert>,
    /// Whether there was too little time to find any.
    pub too_short: bool,
}

impl MonitorEvent {
    /// The levels at a time.
    pub fn level(risks: &[ResourceRisk], now_nanos: u64) -> MonitorEvent {
        let each = risks.iter();
        MonitorEvent::Level {
            secs: to_secs(now_nanos),
            resources: each.map(|risk| OomResource::of(risk, now_nanos)).collect(),
        }
    }

    /// A warning at a time.
    pub fn warning(risk: &ResourceRisk, now_nanos: u64) -> MonitorEvent {
        MonitorEvent::Warning {
            secs: to_secs(now_nanos),
            resource: Box::new(OomResource::of(risk, now_nanos)),
        }
    }

    /// A warning is over.
    pub fn over(alert: &Alert) -> MonitorEvent {
        MonitorEvent::Over(AlertEvent::of(alert))
    }

    /// A leak was found, or is over.
    pub fn leak(alert: &Alert) -> MonitorEvent {
        let event = AlertEvent::of(alert);
        match alert.raised {
            true => MonitorEvent::Leak(event),
            false => MonitorEvent::LeakOver(event),
        }
    }
}

impl AlertEvent {
    fn of(alert: &Alert) -> AlertEvent {
        AlertEvent {
            secs: to_secs(alert.time_nanos),
            alert: alert.clone(),
        }
    }
}

impl MonitorEnd {
    /// 1 where there was a warning or a leak, or memory ran out.
    pub fn exit_status(&self) -> u8 {
        let further = self.further.as_ref();
        let leaks = further.and_then(|further| further.leaks).unwrap_or(0);
        u8::from(self.warnings > 0 || leaks > 0 || self.oom_killed)
    }
}

impl MonitoredLeaks {
    /// What leaks at the end of a diagnosis, and what was told of leaks on the way.
    pub fn of(diagnosis: &Diagnosis, told: Vec<Alert>, least_bytes: Option<f64>) -> MonitoredLeaks {
        let mut leaks = GrowthFindings::of(diagnosis, least_bytes);
        let too_short = leaks.is_too_short();
        leaks.each.retain(ResourceGrowth::is_leak);
        let goes_on = |alert: &Alert| {
            let mut each = leaks.each.iter();
            each.any(|grown| grown.verdict.resource.to_string() == alert.resource)
        };
        let over = told.into_iter().filter(|alert| !goes_on(alert)).collect();
        MonitoredLeaks {
            leaks,
            over,
            too_short,
        }
    }

    /// How many; nothing found in a time in which nothing can be found is no answer.
    pub fn count(&self) -> Option<u64> {
        let count = self.leaks.each.len() + self.over.len();
        (count > 0 || !self.too_short).then_some(count as u64)
    }

    /// As JSON has it.
    pub fn findings(&self, profile: Option<ProfileAnswer>) -> MonitorFindings {
        MonitorFindings {
            leaks: self.count(),
            leaking: self.leaks.each.iter().map(LeakResource::of).collect(),
            grown_in: self.leaks.holders.clone(),
            leaks_over: self.over.clone(),
            profile,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(warnings: u64, leaks: Option<u64>, oom_killed: bool) -> MonitorEnd {
        let found = MonitoredLeaks::default();
        MonitorEnd {
            secs: 1.0,
            warnings,
            ended: false,
            oom_killed,
            run: None,
            further: Some(MonitorFindings {
                leaks,
                ..found.findings(None)
            }),
        }
    }

    #[test]
    fn whatever_was_found_gives_the_status() {
        assert_eq!(end(0, None, false).exit_status(), 0);
        assert_eq!(end(0, Some(0), false).exit_status(), 0);
        assert_eq!(end(1, None, false).exit_status(), 1);
        assert_eq!(end(0, Some(1), false).exit_status(), 1);
        assert_eq!(end(0, None, true).exit_status(), 1);
    }

    #[test]
    fn no_leak_in_too_short_a_time_is_no_answer() {
        let found = |too_short| MonitoredLeaks {
            too_short,
            ..MonitoredLeaks::default()
        };
        assert_eq!(found(true).count(), None);
        assert_eq!(found(false).count(), Some(0));
    }

    #[test]
    fn what_only_monitor_looks_for_is_absent_elsewhere() {
        let mut end = end(0, None, false);
        let keys = |end: &MonitorEnd| {
            let event = MonitorEvent::End(Box::new(end.clone()));
            let json = serde_json::to_value(event).unwrap();
            let object = json.as_object().unwrap();
            object.keys().cloned().collect::<Vec<String>>()
        };
        assert_eq!(
            keys(&end),
            [
                "ended",
                "event",
                "grown_in",
                "leaking",
                "leaks",
                "leaks_over",
                "oom_killed",
                "profile",
                "run",
                "secs",
                "warnings"
            ]
        );
        end.further = None;
        assert_eq!(
            keys(&end),
            ["ended", "event", "oom_killed", "run", "secs", "warnings"]
        );
    }
}
