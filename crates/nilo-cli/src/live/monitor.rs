//! The thread that follows the recording and says what it sees, while the recorder goes on undisturbed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nilo_analysis::alerts::{AlertEvaluator, AlertRules};
use nilo_analysis::assessment::{RanOut, Thresholds, assess_verdict};
use nilo_analysis::tracking::{ResourceTracker, RiskChange, Verdict};
use nilo_forecast::RiskLevel;
use nilo_runfile::{Follower, RunFolder};
use nilo_sample::{Alert, AlertKind};

use super::{Reporter, ResourceFilter};
use crate::commands::oom::Danger;

/// Looks come this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Leaks are looked for this often: they show over tens of seconds, and searching costs more than looking.
const LEAKS_EVERY: Duration = Duration::from_secs(10);
/// The first time just after the leak finder has seen enough.
const FIRST_LEAKS: Duration = Duration::from_secs(11);

/// What to look for, and how to say it.
pub(crate) struct Plan {
    /// Warn by risk, and above this share of a limit.
    pub(crate) threshold_percent: Option<f64>,
    pub(crate) leaks: Option<Leaks>,
    pub(crate) reporter: Reporter,
}

/// Growth worth a word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaks {
    /// Growth of fewer bytes is left out; `None`: as usual.
    pub(crate) least_bytes: Option<f64>,
}

/// What the recorder says to the monitor; when it hangs up, it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The run file has begun.
    Recording,
}

/// A warning that stands.
#[derive(Debug, Default)]
struct Standing {
    reasons: BTreeSet<AlertKind>,
    /// The level that was told last.
    level: RiskLevel,
}

/// Follows a recording.
pub(crate) struct LiveMonitor {
    plan: Plan,
    scope: ResourceFilter,
    duration_nanos: Option<u64>,
    enough: Arc<AtomicBool>,
    evaluator: AlertEvaluator,
    thresholds: Thresholds,
    /// What is warned of at the moment, by the resource's name.
    standing: BTreeMap<String, Standing>,
    pub(crate) tracker: ResourceTracker,
    pub(crate) changes: Vec<RiskChange>,
    /// How many warnings were printed.
    pub(crate) warnings: u64,
    /// Leaks as they were told.
    pub(crate) leaks: Vec<Alert>,
}

impl LiveMonitor {
    pub(crate) fn new(
        plan: Plan,
        scope: ResourceFilter,
        duration_nanos: Option<u64>,
        enough: Arc<AtomicBool>,
    ) -> LiveMonitor {
        let thresholds = Thresholds::from_percent(plan.threshold_percent.unwrap_or(100.0));
        let rules = AlertRules {
            memory_warning: thresholds.high,
            memory_critical: thresholds.critical,
            gpu_warning: thresholds.high,
            gpu_critical: thresholds.critical,
            leak: plan.leaks.is_some(),
            oom_risk: true,
        };
        LiveMonitor {
            plan,
            scope,
            duration_nanos,
            enough,
            evaluator: AlertEvaluator::new(rules),
            thresholds,
            standing: BTreeMap::new(),
            tracker: ResourceTracker::default(),
            changes: Vec::new(),
            warnings: 0,
            leaks: Vec::new(),
        }
    }

    /// Follows the recording to its end.
    pub(crate) fn follow(mut self, folder: &RunFolder, signals: &Receiver<Signal>) -> LiveMonitor {
        if signals.recv().is_err() {
            return self;
        }
        if let Ok(description) = folder.describe() {
            self.tracker = ResourceTracker::new(&description);
        }
        let mut follower = folder.follow();
        let mut next_leaks = Instant::now() + FIRST_LEAKS;
        loop {
            let last = signals.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Disconnected);
            let search = Instant::now() >= next_leaks;
            if search {
                next_leaks = Instant::now() + LEAKS_EVERY;
            }
            // A pipe that nobody reads is noticed at once, not with the next warning, which may take days.
            if self.look(&mut follower, search, last).is_err() || !Reporter::is_heard() {
                self.enough.store(true, Ordering::Relaxed);
                self.plan.reporter.fall_silent();
            }
            if last {
                self.plan.reporter.clear();
                return self;
            }
        }
    }

    fn look(&mut self, follower: &mut Follower, search: bool, last: bool) -> io::Result<()> {
        // A folder that cannot be read just now may be readable at the next look.
        if let Ok(update) = follower.poll() {
            let changes = self.tracker.take(&update.tables, &update.events);
            self.changes.extend(changes);
        }
        let mut risks = self.tracker.risks();
        risks.retain(|risk| self.scope.holds(&risk.resource));
        if self.plan.threshold_percent.is_some() {
            for alert in self.evaluator.look(&risks) {
                self.on_danger(&alert, &risks)?;
            }
        }
        if let Some(rule) = self.plan.leaks.filter(|_| search) {
            let mut verdicts = self.tracker.verdicts(rule.least_bytes);
            verdicts.retain(|verdict| self.scope.holds(&verdict.resource));
            // Whoever watches for leaks wants to hear of growth that may be loading, too.
            for verdict in &mut verdicts {
                verdict.may_be_loading = false;
            }
            for alert in self.evaluator.look_for_leaks(&verdicts) {
                self.plan.reporter.leak(&alert)?;
                if alert.raised {
                    self.leaks.push(alert);
                }
            }
        }
        match last {
            true => Ok(()),
            false => self.plan.reporter.level(&risks, self.duration_nanos),
        }
    }

    /// A resource is warned of when its first reason appears, and again when its risk gets worse; it is over when the last reason is gone.
    fn on_danger(&mut self, alert: &Alert, risks: &[Verdict]) -> io::Result<()> {
        let standing = self.standing.entry(alert.resource.clone()).or_default();
        if !alert.raised {
            standing.reasons.remove(&alert.kind);
            return match standing.reasons.is_empty() {
                true => {
                    standing.level = RiskLevel::Low;
                    self.plan.reporter.over(alert)
                }
                false => Ok(()),
            };
        }
        standing.reasons.insert(alert.kind);
        let named = |risk: &&Verdict| risk.resource.to_string() == alert.resource;
        let Some(risk) = risks.iter().find(named) else {
            return Ok(());
        };
        let assessment = assess_verdict(risk, &self.thresholds, None);
        if assessment.level <= standing.level || !assessment.is_warning() {
            return Ok(());
        }
        standing.level = assessment.level;
        self.warnings += 1;
        let danger = Danger {
            verdict: risk.clone(),
            assessment,
            history: Vec::new(),
        };
        self.plan.reporter.warning(&danger, alert.time_nanos)
    }

    /// Says what ran out while it was watched: one more warning.
    pub(crate) fn say_ran_out(&mut self, ran_out: &RanOut) -> io::Result<()> {
        let mut verdicts = self.tracker.risks();
        verdicts.retain(|verdict| verdict.resource == ran_out.resource);
        let verdict = verdicts.pop();
        let verdict = verdict.unwrap_or_else(|| Verdict::unmeasured(ran_out.resource.clone()));
        let danger = Danger {
            assessment: assess_verdict(&verdict, &self.thresholds, Some(ran_out)),
            verdict,
            history: Vec::new(),
        };
        self.warnings += 1;
        self.plan.reporter.warning(&danger, ran_out.time_nanos)
    }
}
