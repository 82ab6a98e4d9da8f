//! One loop: what was written since the last look goes to the tracker, its verdicts to the alert rules, and all of it to the subscriber.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nilo_analysis::alerts::{AlertEvaluator, AlertRules};
use nilo_analysis::tracking::{Resource, ResourceTracker, RiskChange, Verdict};
use nilo_runfile::{Follower, RunFolder};
use nilo_sample::{Alert, RunDescription};

use crate::schedule::{LOOK_EVERY, Schedule};

/// Who is told.
pub trait Subscriber {
    /// After each look, the last one included.
    fn on_look(&mut self, look: &Look<'_>);
}

/// What a look found.
#[derive(Debug)]
pub struct Look<'a> {
    /// Every resource as it stands, without a search for leaks.
    pub risks: &'a [Verdict],
    /// Risks that became another since the last look.
    pub changes: Vec<RiskChange>,
    /// Alerts that were raised or cleared.
    pub alerts: Vec<Alert>,
    /// Nothing comes after it.
    pub is_last: bool,
}

/// What the engine is told from outside. When the sender is gone, watching is over while the job may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Something was written that cannot wait for the next look.
    Look,
    /// The job has ended: from here on what was reached is told, what would have come is not.
    JobEnded,
    /// Everything is written: the last look.
    LastLook,
}

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
    /// The first search comes after this time.
    pub after: Duration,
    /// Growth of fewer bytes is left out; `None`: as usual.
    pub least_bytes: Option<f64>,
    /// Growth counts, too, where the program may still be loading what it works with.
    pub while_loading: bool,
}

/// Follows one run.
pub struct Engine<F> {
    settings: FollowSettings<F>,
    follower: Follower,
    tracker: ResourceTracker,
    evaluator: AlertEvaluator,
    schedule: Schedule,
    risks: Vec<Verdict>,
    job_ended: bool,
}

impl<F: Fn(&Resource) -> bool> Engine<F> {
    /// Follows a run whose files may not be there yet. The description is the one with which they begin.
    pub fn new(
        folder: &RunFolder,
        description: Option<&RunDescription>,
        settings: FollowSettings<F>,
    ) -> Engine<F> {
        Engine {
            follower: folder.follow(),
            tracker: description.map_or_else(ResourceTracker::default, ResourceTracker::new),
            evaluator: AlertEvaluator::new(settings.rules),
            schedule: Schedule::new(Instant::now(), settings.idle, settings.leaks.after),
            risks: Vec::new(),
            job_ended: false,
            settings,
        }
    }

    /// Follows the run until the job or watching ends; gives back what it knows by then.
    pub fn follow(
        mut self,
        wakes: &Receiver<Wake>,
        subscriber: &mut impl Subscriber,
    ) -> ResourceTracker {
        let mut wait = LOOK_EVERY;
        loop {
            let woken = wakes.recv_timeout(wait);
            self.job_ended |= woken == Ok(Wake::JobEnded);
            let is_last = matches!(
                woken,
                Ok(Wake::LastLook) | Err(RecvTimeoutError::Disconnected)
            );
            let (has_news, changes) = self.take_news();
            let alerts = match has_news {
                true => self.evaluate(),
                false => Vec::new(),
            };
            wait = self.schedule.wait(has_news, &self.risks);
            subscriber.on_look(&Look {
                risks: &self.risks,
                changes,
                alerts,
                is_last,
            });
            if is_last {
                return self.tracker;
            }
        }
    }

    /// Reads what was written since the last look.
    fn take_news(&mut self) -> (bool, Vec<RiskChange>) {
        // A folder that cannot be read just now may be readable at the next look.
        let update = self.follower.poll().ok();
        let Some(update) = update.filter(|update| !update.is_empty()) else {
            return (false, Vec::new());
        };
        let changes = self.tracker.take(&update.tables, &update.events);
        self.risks = self.tracker.risks();
        self.risks
            .retain(|risk| (self.settings.is_wanted)(&risk.resource));
        (true, changes)
    }

    fn evaluate(&mut self) -> Vec<Alert> {
        if self.job_ended {
            return self.evaluator.look_at_levels(&self.risks);
        }
        let mut alerts = self.evaluator.look(&self.risks);
        if self.schedule.leaks_are_due(Instant::now()) && self.settings.rules.leak {
            alerts.extend(self.evaluate_leaks());
        }
        alerts
    }

    fn evaluate_leaks(&mut self) -> Vec<Alert> {
        let search = self.settings.leaks;
        let mut verdicts = self.tracker.verdicts(search.least_bytes);
        verdicts.retain(|verdict| (self.settings.is_wanted)(&verdict.resource));
        if search.while_loading {
            for verdict in &mut verdicts {
                verdict.may_be_loading = false;
            }
        }
        self.evaluator.look_for_leaks(&verdicts)
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
