//! Says what the live engine sees in a recording, on a thread of its own, while the recorder goes on undisturbed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use nilo_analysis::alerts::AlertRules;
use nilo_analysis::assessment::{RanOut, Thresholds};
use nilo_analysis::tracking::{Resource, ResourceTracker, ResourceVerdict, RiskChange};
use nilo_answer::oom::ResourceRisk;
use nilo_answer::resource_filter::ResourceFilter;
use nilo_follow::{
    Engine, FIRST_LEAK_SEARCH, FollowSettings, LeakSearch, Observation, Subscriber, Wake,
    WarningChange, Warnings,
};
use nilo_runfile::RunFolder;
use nilo_sample::{Alert, AlertKind};

use super::Reporter;

/// Looks come this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What to look for, and how to say it.
pub(crate) struct MonitorSettings {
    /// Warn by risk, and above this share of a limit.
    pub(crate) threshold_percent: Option<f64>,
    pub(crate) leaks: Option<LeakThreshold>,
    pub(crate) reporter: Reporter,
}

/// Growth worth a word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeakThreshold {
    /// Growth of fewer bytes is left out; `None`: as usual.
    pub(crate) least_bytes: Option<f64>,
}

/// Follows a recording.
pub(crate) struct LiveMonitor {
    plan: MonitorSettings,
    scope: ResourceFilter,
    duration_nanos: Option<u64>,
    enough: Arc<AtomicBool>,
    rules: AlertRules,
    thresholds: Thresholds,
    /// What is warned of at the moment.
    standing: Warnings,
    pub(crate) tracker: ResourceTracker,
    pub(crate) changes: Vec<RiskChange>,
    /// How many warnings were printed.
    pub(crate) warnings: u64,
    /// Leaks as they were told.
    pub(crate) leaks: Vec<Alert>,
}

impl LiveMonitor {
    pub(crate) fn new(
        plan: MonitorSettings,
        scope: ResourceFilter,
        duration_nanos: Option<u64>,
        enough: Arc<AtomicBool>,
    ) -> LiveMonitor {
        let thresholds = Thresholds::from_percent(plan.threshold_percent.unwrap_or(100.0));
        let rules = AlertRules::from_thresholds(&thresholds, plan.leaks.is_some());
        LiveMonitor {
            plan,
            scope,
            duration_nanos,
            enough,
            rules,
            thresholds,
            standing: Warnings::new(thresholds),
            tracker: ResourceTracker::default(),
            changes: Vec::new(),
            warnings: 0,
            leaks: Vec::new(),
        }
    }

    /// Follows the recording to its end; the first wake says that its files are there.
    pub(crate) fn follow(mut self, folder: &RunFolder, wakes: &Receiver<Wake>) -> LiveMonitor {
        if wakes.recv().is_err() {
            return self;
        }
        let description = folder.describe().ok();
        let scope = self.scope.clone();
        let engine = Engine::new(
            folder,
            description.as_ref(),
            FollowSettings {
                rules: self.rules,
                leaks: LeakSearch {
                    after: FIRST_LEAK_SEARCH,
                    least_bytes: self.plan.leaks.and_then(|leaks| leaks.least_bytes),
                    // Whoever watches for leaks wants to hear of growth that may be loading, too.
                    while_loading: true,
                },
                idle: LOOK_EVERY,
                is_wanted: move |resource: &Resource| scope.holds(resource),
            },
        );
        self.tracker = engine.follow(wakes, &mut self);
        self.plan.reporter.clear();
        self
    }

    fn report(&mut self, look: &Observation<'_>) -> io::Result<()> {
        for alert in &look.alerts {
            if alert.kind == AlertKind::MemoryLeak {
                self.plan.reporter.leak(alert)?;
                self.leaks.extend(alert.raised.then(|| alert.clone()));
            } else if self.plan.threshold_percent.is_some() {
                self.on_danger(alert, look.risks)?;
            }
        }
        match look.is_last {
            true => Ok(()),
            false => self.plan.reporter.level(look.risks, self.duration_nanos),
        }
    }

    fn on_danger(&mut self, alert: &Alert, risks: &[ResourceVerdict]) -> io::Result<()> {
        match self
            .standing
            .on_alert(&alert.resource, &alert.resource, alert, risks)
        {
            None => Ok(()),
            Some(WarningChange::Over) => self.plan.reporter.over(alert),
            Some(WarningChange::Raised(raised)) => {
                let (verdict, assessment) = *raised;
                self.warnings += 1;
                let risk = ResourceRisk {
                    verdict,
                    assessment,
                    history: Vec::new(),
                };
                self.plan.reporter.warning(&risk, alert.time_nanos)
            }
        }
    }

    /// Says what ran out while it was watched: one more warning.
    pub(crate) fn say_ran_out(&mut self, ran_out: &RanOut) -> io::Result<()> {
        let mut verdicts = self.tracker.risks();
        verdicts.retain(|verdict| verdict.resource == ran_out.resource);
        let verdict = verdicts.pop();
        let verdict =
            verdict.unwrap_or_else(|| ResourceVerdict::unmeasured(ran_out.resource.clone()));
        let risk = ResourceRisk::now(verdict, &self.thresholds, Some(ran_out));
        self.warnings += 1;
        let at_nanos = ran_out
            .time_nanos
            .unwrap_or(risk.verdict.reading.time_nanos);
        self.plan.reporter.warning(&risk, at_nanos)
    }
}

impl Subscriber for LiveMonitor {
    fn on_look(&mut self, look: &Observation<'_>) {
        self.changes.extend(look.changes.iter().cloned());
        // A pipe that nobody reads is noticed at once, not with the next warning, which may take days.
        if self.report(look).is_err() || !Reporter::is_heard() {
            self.enough.store(true, Ordering::Relaxed);
            self.plan.reporter.fall_silent();
        }
    }
}
