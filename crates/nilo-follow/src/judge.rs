//! What was recorded goes in; risks, their changes and alerts come out. It asks nobody for the rows: the engine brings those of a run's files, a program that watches itself brings its own.

use std::time::{Duration, Instant};

use nilo_analysis::alerts::{AlertEvaluator, AlertRules, GpuFailureAlerts};
use nilo_analysis::tracking::{Resource, ResourceTracker, ResourceVerdict, RiskChange};
use nilo_forecast::Reading;
use nilo_runfile::Update;
use nilo_sample::Alert;

use crate::schedule::Schedule;

/// What to follow a run for.
#[derive(Debug, Clone, Copy)]
pub struct FollowSettings<F> {
    /// When to alert.
    pub rules: AlertRules,
    /// How leaks are searched for; `rules` says whether they are.
    pub leaks: LeakSearch,
    /// The time between looks while nothing is near a limit.
    pub idle: Duration,
    /// Which resources it is about.
    pub is_wanted: F,
}

/// How leaks are searched for.
#[derive(Debug, Clone, Copy)]
pub struct LeakSearch {
    /// The first search comes after this time, usually [`crate::FIRST_LEAK_SEARCH`].
    pub after: Duration,
    /// Growth of fewer bytes is left out; `None`: as usual.
    pub least_bytes: Option<f64>,
    /// Growth counts, too, where the program may still be loading what it works with.
    pub while_loading: bool,
}

/// Judges one run for one subscriber.
pub struct Judge<F> {
    settings: FollowSettings<F>,
    tracker: ResourceTracker,
    evaluator: AlertEvaluator,
    schedule: Schedule,
    risks: Vec<ResourceVerdict>,
    gpu_failures: GpuFailureAlerts,
    /// Alerts of events, which the next look tells.
    of_events: Vec<Alert>,
}

impl<F: Fn(&Resource) -> bool> Judge<F> {
    /// Judges what the tracker is given from here on.
    pub fn new(tracker: ResourceTracker, settings: FollowSettings<F>) -> Judge<F> {
        Judge {
            tracker,
            evaluator: AlertEvaluator::new(settings.rules),
            schedule: Schedule::new(Instant::now(), settings.idle, settings.leaks.after),
            risks: Vec::new(),
            gpu_failures: GpuFailureAlerts::default(),
            of_events: Vec::new(),
            settings,
        }
    }

    /// Forgets what was before: trends and alerts begin here.
    pub fn restart(&mut self) {
        self.tracker = self.tracker.restarted();
        self.evaluator = AlertEvaluator::new(self.settings.rules);
        let after = self.settings.leaks.after;
        self.schedule = Schedule::new(Instant::now(), self.settings.idle, after);
    }

    /// Takes in what was recorded since the last call, and says which risks changed.
    pub fn take(&mut self, update: &Update) -> Vec<RiskChange> {
        let failures = self.gpu_failures.take(&update.events).into_iter();
        let wanted = failures.filter(|(resource, _)| (self.settings.is_wanted)(resource));
        self.of_events.extend(wanted.map(|(_, alert)| alert));
        self.tracker.take(&update.tables, &update.events)
    }

    /// Takes in a reading that comes from no table, and says whether the risk changed.
    pub fn observe(&mut self, resource: Resource, reading: Reading) -> Option<RiskChange> {
        self.tracker.observe(resource, reading)
    }

    /// Judges what was taken in since the last look. Of a job that has ended nothing is to be expected.
    pub fn look(&mut self, job_ended: bool) -> Vec<Alert> {
        self.risks = self.tracker.risks();
        self.risks
            .retain(|risk| (self.settings.is_wanted)(&risk.resource));
        let mut alerts = std::mem::take(&mut self.of_events);
        if job_ended {
            alerts.extend(self.evaluator.look_at_levels(&self.risks));
            return alerts;
        }
        alerts.extend(self.evaluator.look(&self.risks));
        if self.schedule.leaks_are_due(Instant::now()) && self.settings.rules.leak {
            alerts.extend(self.look_for_leaks());
        }
        alerts
    }

    fn look_for_leaks(&mut self) -> Vec<Alert> {
        let search = self.settings.leaks;
        let mut verdicts = self.verdicts();
        if search.while_loading {
            for verdict in &mut verdicts {
                verdict.may_be_loading = false;
            }
        }
        self.evaluator.look_for_leaks(&verdicts)
    }

    /// Every resource that it is about as it stands, growth included. It costs more than a look.
    pub fn verdicts(&self) -> Vec<ResourceVerdict> {
        let mut verdicts = self.tracker.verdicts(self.settings.leaks.least_bytes);
        verdicts.retain(|verdict| (self.settings.is_wanted)(&verdict.resource));
        verdicts
    }

    /// Every resource as the last look found it, without a search for leaks.
    pub fn risks(&self) -> &[ResourceVerdict] {
        &self.risks
    }

    /// How long to wait for the next look.
    pub(crate) fn wait(&self, has_news: bool) -> Duration {
        self.schedule.wait(has_news, &self.risks)
    }

    /// What it knows.
    pub fn tracker(&self) -> &ResourceTracker {
        &self.tracker
    }

    /// What it knows at the end.
    pub fn into_tracker(self) -> ResourceTracker {
        self.tracker
    }
}
