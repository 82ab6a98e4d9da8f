//! One loop: what was written since the last look goes to the judge, and what that finds to the subscriber.

use std::sync::mpsc::{Receiver, RecvTimeoutError};

use nilo_analysis::tracking::{Resource, ResourceTracker, ResourceVerdict, RiskChange};
use nilo_runfile::{Follower, RunFolder};
use nilo_sample::{Alert, RunDescription};

use crate::judge::{FollowSettings, Judge};
use crate::schedule::LOOK_EVERY;

/// Who is told.
pub trait Subscriber {
    /// After each look, the last one included.
    fn on_look(&mut self, look: &Observation<'_>);
}

/// What a look found.
#[derive(Debug)]
pub struct Observation<'a> {
    /// Every resource as it stands, without a search for leaks.
    pub risks: &'a [ResourceVerdict],
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

/// Follows one run.
pub struct Engine<F> {
    follower: Follower,
    judge: Judge<F>,
    job_ended: bool,
}

impl<F: Fn(&Resource) -> bool> Engine<F> {
    /// Follows a run whose files may not be there yet. The description is the one with which they begin.
    pub fn new(
        folder: &RunFolder,
        description: Option<&RunDescription>,
        settings: FollowSettings<F>,
    ) -> Engine<F> {
        let tracker = description.map_or_else(ResourceTracker::default, ResourceTracker::new);
        Engine {
            follower: folder.follow(),
            judge: Judge::new(tracker, settings),
            job_ended: false,
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
            let news = self.take_news();
            let alerts = match &news {
                Some(_) => self.judge.look(self.job_ended),
                None => Vec::new(),
            };
            wait = self.judge.wait(news.is_some());
            let changes = news.unwrap_or_default();
            subscriber.on_look(&Observation {
                risks: self.judge.risks(),
                changes,
                alerts,
                is_last,
            });
            if is_last {
                return self.judge.into_tracker();
            }
        }
    }

    /// Reads what was written since the last look, and says which risks changed; `None` when nothing was.
    fn take_news(&mut self) -> Option<Vec<RiskChange>> {
        // A folder that cannot be read just now may be readable at the next look.
        let update = self.follower.poll().ok();
        let update = update.filter(|update| !update.is_empty())?;
        Some(self.judge.take(&update))
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
