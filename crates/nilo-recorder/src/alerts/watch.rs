//! The thread on which the live engine follows the run, and its subscriber, which sees that everybody is told.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use nilo_analysis::tracking::Resource;
use nilo_follow::{
    Engine, FIRST_LEAK_SEARCH, FollowSettings, LeakSearch, Observation, Subscriber, Wake,
};
use nilo_runfile::{RunFolder, append_event, append_event_at};
use nilo_sample::{Alert, Event, RunDescription};

use super::AlertSettings;
use super::alert_waker::AlertWaker;
use super::callback::{AlertNotice, AlertNotifier};
use super::delivery::{AlertDelivery, Destinations, LONGEST_FINISH, count_undelivered};
use super::message::message;
use super::signal::SignalTargets;

/// Looks come this often while nothing is near a limit or on its way there.
const IDLE: Duration = Duration::from_secs(2);
/// A look is under way for at most this long.
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// At the end, whoever listens gets this long to hear everything.
const LAST_WORD: Duration = Duration::from_secs(2);
/// Said when there is no process that delivers alerts, or none that answers.
const NOBODY_DELIVERS: &str = "the process that delivers alerts does not respond";

/// What was prepared before the job started.
pub(crate) struct AlertPreparation {
    settings: AlertSettings,
    delivery: Option<AlertDelivery>,
    trouble: Option<String>,
    run_dir: PathBuf,
}

/// Alerts of a run, from its start to its end.
pub(crate) struct AlertThread {
    wakes: Sender<Wake>,
    ended: Receiver<()>,
}

impl AlertPreparation {
    /// The session of the process that delivers alerts.
    pub(crate) fn session(&self) -> Option<u32> {
        self.delivery.as_ref().map(AlertDelivery::session)
    }
}

impl AlertThread {
    /// To be called before the recorder has threads and the job: see [`AlertDelivery::start`].
    pub(crate) fn prepare(settings: AlertSettings, run_dir: &Path) -> AlertPreparation {
        let run_dir = std::path::absolute(run_dir).unwrap_or_else(|_| run_dir.to_owned());
        let (mut delivery, mut trouble) = (None, None);
        if settings.command.is_some() || settings.webhook.is_some() {
            let started = AlertDelivery::start(Destinations {
                command: settings.command.clone(),
                webhook: settings.webhook.clone(),
                run_dir: run_dir.clone(),
            });
            match started {
                Ok(started) => delivery = Some(started),
                Err(error) => {
                    trouble = Some(format!(
                        "alerts will not be delivered: could not start a process for them: {error}"
                    ));
                }
            }
        }
        AlertPreparation {
            settings,
            delivery,
            trouble,
            run_dir,
        }
    }

    /// Starts watching. The description is the one with which the run file begins, and its root processes must not have been waited for.
    pub(crate) fn start(
        preparation: AlertPreparation,
        folder: &RunFolder,
        description: &RunDescription,
    ) -> Option<AlertThread> {
        let AlertPreparation {
            settings,
            delivery,
            trouble,
            run_dir,
        } = preparation;
        let signal = settings.signal;
        let signal = signal.and_then(|number| SignalTargets::open(number, &description.root_pids));
        let engine = Engine::new(
            folder,
            Some(description),
            FollowSettings {
                rules: settings.rules,
                leaks: LeakSearch {
                    after: FIRST_LEAK_SEARCH,
                    least_bytes: None,
                    while_loading: false,
                },
                idle: IDLE,
                is_wanted: |_: &Resource| true,
            },
        );
        let mut monitor = AlertMonitor {
            description: description.clone(),
            run_dir,
            delivery,
            signal,
            teller: settings.callback.and_then(AlertNotifier::start),
            said: BTreeSet::new(),
        };
        let (wakes, heard) = channel();
        let (ending, ended) = channel();
        let watch = move || {
            let _ending: Sender<()> = ending;
            monitor.said_once(trouble);
            engine.follow(&heard, &mut monitor);
            monitor.finish();
        };
        let thread = thread::Builder::new().name("nilo-alerts".to_owned());
        thread.spawn(watch).ok()?;
        Some(AlertThread { wakes, ended })
    }

    /// For the sampling loop.
    pub(crate) fn waker(&self) -> AlertWaker {
        AlertWaker::new(self.wakes.clone())
    }

    /// Takes a last look at what was written, and lets what is under way arrive, within bounds.
    pub(crate) fn finish(self) {
        self.wakes.send(Wake::JobEnded).ok();
        self.wakes.send(Wake::LastLook).ok();
        let longest = LONGEST_LOOK + LONGEST_FINISH + LAST_WORD;
        self.ended.recv_timeout(longest).ok();
    }
}

/// Sees that everybody is told.
struct AlertMonitor {
    description: RunDescription,
    run_dir: PathBuf,
    delivery: Option<AlertDelivery>,
    signal: Option<SignalTargets>,
    teller: Option<AlertNotifier>,
    /// Trouble that was told already.
    said: BTreeSet<String>,
}

impl Subscriber for AlertMonitor {
    fn on_look(&mut self, look: &Observation<'_>) {
        for alert in &look.alerts {
            self.tell(alert.clone());
        }
        let reports = self.delivery.as_ref().map(AlertDelivery::reports);
        for report in reports.into_iter().flatten() {
            self.said_once(Some(report));
        }
    }
}

impl AlertMonitor {
    fn tell(&mut self, alert: Alert) {
        if alert.raised
            && let Some(signal) = &self.signal
        {
            signal.send();
        }
        let time_nanos = self.description.started_monotonic_nanos + alert.time_nanos;
        let event = Event::Alert(Box::new(alert.clone()));
        if let Err(error) = append_event_at(&self.run_dir, time_nanos, &event) {
            self.said_once(Some(format!("an alert could not be recorded: {error}")));
        }
        if let Some(delivery) = &self.delivery {
            let run_dir = self.run_dir.to_string_lossy();
            if !delivery.send(&message(&self.description, &run_dir, &alert)) {
                count_undelivered(&self.run_dir, 1, NOBODY_DELIVERS.to_owned());
                self.said_once(Some(NOBODY_DELIVERS.to_owned()));
            }
        }
        if let Some(teller) = &mut self.teller {
            teller.tell(AlertNotice::Alert(Box::new(alert)));
        }
    }

    fn said_once(&mut self, trouble: Option<String>) {
        if let Some(text) = trouble
            && let Some(teller) = &mut self.teller
            && self.said.insert(text.clone())
        {
            teller.tell(AlertNotice::Trouble(text));
        }
    }

    fn finish(mut self) {
        if let Some(delivery) = self.delivery.take() {
            for report in delivery.finish() {
                self.said_once(Some(report));
            }
        }
        if let Some(teller) = self.teller.take() {
            let unheard = teller.finish(LAST_WORD);
            if unheard > 0 {
                let text = format!(
                    "{unheard} alerts were not shown: standard error or the callback was blocked"
                );
                append_event(&self.run_dir, &Event::Blind { text }).ok();
            }
        }
    }
}
