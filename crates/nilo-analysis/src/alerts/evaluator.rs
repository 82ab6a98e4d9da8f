//! Every alarm of a run: verdicts go in, alerts come out.

use std::collections::BTreeMap;

use nilo_sample::{Alert, AlertKind, Severity};

use super::latch::{AlarmState, Latch, LatchChange};
use super::rules::AlertRules;
use super::wording::{AlertReason, cleared, raised};
use crate::assessment::{Thresholds, is_leak};
use crate::tracking::{Resource, ResourceVerdict};
use nilo_forecast::{Cause, Growth, Reading, RiskLevel};

/// The risk at each of the two thresholds, and how serious its alert is.
const STEPS: [(RiskLevel, Severity); 2] = [
    (RiskLevel::High, Severity::Warning),
    (RiskLevel::Critical, Severity::Critical),
];
/// A level is calm this far below its threshold.
const CALM_BELOW: f64 = 0.03;
/// So many looks in a row must find a leak: the first may rest on the end of a warm-up.
const LEAK_LOOKS: u32 = 3;

/// How serious the alert of a risk is.
fn severity_of(level: RiskLevel) -> Severity {
    let mut steps = STEPS.into_iter().rev();
    let reached = steps.find(|(from, _)| level >= *from);
    reached.map_or(Severity::Warning, |(_, severity)| severity)
}

/// The least risk of which an alert of this severity tells.
pub fn risk_of(severity: Severity) -> RiskLevel {
    let known = STEPS.into_iter().find(|(_, known)| *known == severity);
    known.map_or(RiskLevel::High, |(level, _)| level)
}

/// Turns verdicts into alerts: each is raised once and cleared once.
#[derive(Debug, Clone, Default)]
pub struct AlertEvaluator {
    rules: AlertRules,
    latches: BTreeMap<(Resource, AlertKind), Latch>,
    /// A risk that was raised and has become critical is told once more.
    critical_risks: BTreeMap<Resource, Latch>,
    leak_looks: BTreeMap<Resource, u32>,
}

impl AlertEvaluator {
    /// Watches by these rules.
    pub fn new(rules: AlertRules) -> AlertEvaluator {
        AlertEvaluator {
            rules,
            ..AlertEvaluator::default()
        }
    }

    /// Looks at levels and risks. Their growth need not be known: see [`crate::tracking::ResourceTracker::risks`].
    pub fn look(&mut self, risks: &[ResourceVerdict]) -> Vec<Alert> {
        let mut alerts = Vec::new();
        for risk in risks {
            self.look_at_level(risk, &mut alerts);
            if self.rules.oom_risk {
                self.look_at_risk(risk, &mut alerts);
            }
        }
        alerts
    }

    /// Looks at levels alone: of a run that is over nothing is to be expected.
    pub fn look_at_levels(&mut self, risks: &[ResourceVerdict]) -> Vec<Alert> {
        let mut alerts = Vec::new();
        for risk in risks {
            self.look_at_level(risk, &mut alerts);
        }
        alerts.retain(|alert| alert.raised);
        alerts
    }

    /// Looks for leaks, which shows over tens of seconds at the earliest and costs more.
    pub fn look_for_leaks(&mut self, verdicts: &[ResourceVerdict]) -> Vec<Alert> {
        let mut alerts = Vec::new();
        if !self.rules.leak {
            return alerts;
        }
        let torch_counts = verdicts
            .iter()
            .any(|verdict| matches!(verdict.resource, Resource::Torch { .. }));
        for verdict in verdicts {
            // The machine's view of this job is the job's own, and the driver's view of PyTorch is PyTorch's.
            let told_elsewhere = match verdict.resource {
                Resource::Host => true,
                Resource::Gpu { .. } => torch_counts,
                _ => false,
            };
            if !told_elsewhere {
                self.look_at_growth(verdict, &mut alerts);
            }
        }
        alerts
    }

    /// Thresholds are for what is full when it is full. A caching allocator that holds all of its GPU is at rest.
    fn look_at_level(&mut self, risk: &ResourceVerdict, alerts: &mut Vec<Alert>) {
        let kinds = match risk.resource {
            Resource::Job
            | Resource::Host
            | Resource::AddressSpace
            | Resource::DataSize
            | Resource::Cgroup { .. } => [AlertKind::MemoryWarning, AlertKind::MemoryCritical],
            Resource::Gpu { .. } => [AlertKind::GpuMemoryWarning, AlertKind::GpuMemoryCritical],
            Resource::Process { .. }
            | Resource::SharedMemory
            | Resource::UnnamedGpu
            | Resource::Torch { .. }
            | Resource::Track { .. } => return,
        };
        let Some(limit) = risk.reading.limit() else {
            return;
        };
        let share = risk.reading.needed_bytes() / limit;
        let [Some(high), Some(critical)] = kinds.map(|kind| self.rules.threshold(kind)) else {
            return;
        };
        let level = Thresholds { high, critical }.level(share);
        let thresholds = kinds.into_iter().zip([high, critical]);
        for ((kind, threshold), (alarm, severity)) in thresholds.zip(STEPS) {
            let sign = match share {
                _ if level >= alarm => AlarmState::Alarm,
                share if share < threshold - CALM_BELOW => AlarmState::Calm,
                _ => AlarmState::Between,
            };
            let reason = AlertReason::Level(threshold);
            self.turn(kind, severity, risk, sign, &reason, alerts);
        }
    }

    fn look_at_risk(&mut self, risk: &ResourceVerdict, alerts: &mut Vec<Alert>) {
        let level = risk.forecast.level;
        let is_above = risk.forecast.cause == Some(Cause::AboveLimit);
        let sign = |alarm: RiskLevel| match level {
            // Nothing is left to predict: the level has its own alert.
            _ if is_above => AlarmState::Between,
            level if level >= alarm => AlarmState::Alarm,
            RiskLevel::Low => AlarmState::Calm,
            _ => AlarmState::Between,
        };
        let severity = severity_of(level);
        let before = alerts.len();
        let reason = AlertReason::Risk;
        let kind = AlertKind::OomRisk;
        self.turn(kind, severity, risk, sign(RiskLevel::High), &reason, alerts);
        let time_nanos = risk.reading.time_nanos;
        let latch = self
            .critical_risks
            .entry(risk.resource.clone())
            .or_default();
        let worse = latch.look(time_nanos, sign(RiskLevel::Critical)) == Some(LatchChange::Raised);
        if worse && alerts.len() == before {
            alerts.push(raised(kind, severity, risk, &reason));
        }
    }

    fn look_at_growth(&mut self, verdict: &ResourceVerdict, alerts: &mut Vec<Alert>) {
        let leak = verdict
            .growth
            .filter(|growth| is_leak(Some(growth)) && !verdict.growth_may_be_loading());
        // Growth that stands still just now may be over: nobody is told of it before it goes on.
        let goes_on = |growth: Growth| growth.paused_secs == 0.0 || !verdict.odd_peers.is_empty();
        let looks = self.leak_looks.entry(verdict.resource.clone()).or_default();
        *looks = match leak {
            Some(growth) if goes_on(growth) => *looks + 1,
            Some(_) => *looks,
            None => 0,
        };
        let (kind, severity) = (AlertKind::MemoryLeak, Severity::Warning);
        match leak {
            Some(growth) => {
                let sign = if *looks >= LEAK_LOOKS && goes_on(growth) {
                    AlarmState::Alarm
                } else {
                    AlarmState::Between
                };
                self.turn(
                    kind,
                    severity,
                    verdict,
                    sign,
                    &AlertReason::Leak(&growth),
                    alerts,
                );
            }
            None => self.turn(
                kind,
                severity,
                verdict,
                AlarmState::Calm,
                &AlertReason::Level(1.0),
                alerts,
            ),
        }
    }

    fn turn(
        &mut self,
        kind: AlertKind,
        severity: Severity,
        verdict: &ResourceVerdict,
        sign: AlarmState,
        reason: &AlertReason<'_>,
        alerts: &mut Vec<Alert>,
    ) {
        let (resource, reading): (&Resource, &Reading) = (&verdict.resource, &verdict.reading);
        let time_nanos = reading.time_nanos;
        let latch = self.latches.entry((resource.clone(), kind)).or_default();
        alerts.extend(latch.look(time_nanos, sign).map(|turn| match turn {
            LatchChange::Raised => raised(kind, severity, verdict, reason),
            LatchChange::Cleared => cleared(kind, resource, time_nanos, reading),
        }));
    }
}
