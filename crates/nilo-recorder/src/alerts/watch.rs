//! The thread that follows the run file, asks the evaluator, and sees that everybody is told.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nilo_analysis::alerts::AlertEvaluator;
use nilo_analysis::tracking::{ResourceTracker, Verdict};
use nilo_forecast::RiskLevel;
use nilo_runfile::{Follower, RunFolder, append_event, append_event_at};
use nilo_sample::{Alert, Event, RunDescription};

use super::AlertSettings;
use super::callback::{AlertNews, Teller};
use super::delivery::{AlertDelivery, Destinations, LONGEST_FINISH, count_undelivered};
use super::message::message;
use super::nudge::{Nudge, Word};
use super::signal::SignalTargets;

/// Looks come this often ...
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// ... and this often while nothing is written, or nothing is near a limit or on its way there.
const LOOK_RARELY: Duration = Duration::from_secs(2);
/// Below this share of the limit a level is not near it.
const NEAR_SHARE: f64 = 0.5;
/// Leaks are looked for this often: they show over tens of seconds, and searching costs more than looking.
const LEAKS_EVERY: Duration = Duration::from_secs(10);
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
pub(crate) struct AlertWatch {
    words: Sender<Word>,
    ended: Receiver<()>,
}

impl AlertPreparation {
    /// The session of the process that delivers alerts.
    pub(crate) fn session(&self) -> Option<u32> {
        self.delivery.as_ref().map(AlertDelivery::session)
    }
}

impl AlertWatch {
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
    ) -> Option<AlertWatch> {
        let AlertPreparation {
            settings,
            delivery,
            trouble,
            run_dir,
        } = preparation;
        let signal = settings.signal;
        let signal = signal.and_then(|number| SignalTargets::open(number, &description.root_pids));
        let mut monitor = AlertMonitor {
            follower: folder.follow(),
            tracker: ResourceTracker::new(description),
            evaluator: AlertEvaluator::new(settings.rules),
            description: description.clone(),
            run_dir,
            delivery,
            signal,
            teller: settings.callback.and_then(Teller::start),
            said: BTreeSet::new(),
        };
        let (words, heard) = channel();
        let (ending, ended) = channel();
        let watch = move || {
            let _ending: Sender<()> = ending;
            monitor.said_once(trouble);
            monitor.watch(&heard);
            monitor.finish();
        };
        let thread = thread::Builder::new().name("nilo-alerts".to_owned());
        thread.spawn(watch).ok()?;
        Some(AlertWatch { words, ended })
    }

    /// For the sampling loop.
    pub(crate) fn nudge(&self) -> Nudge {
        Nudge::new(self.words.clone())
    }

    /// Takes a last look at what was written, and lets what is under way arrive, within bounds.
    pub(crate) fn finish(self) {
        self.words.send(Word::Stop).ok();
        let longest = LOOK_EVERY + LONGEST_FINISH + LAST_WORD;
        self.ended.recv_timeout(longest).ok();
    }
}

struct AlertMonitor {
    follower: Follower,
    tracker: ResourceTracker,
    evaluator: AlertEvaluator,
    description: RunDescription,
    run_dir: PathBuf,
    delivery: Option<AlertDelivery>,
    signal: Option<SignalTargets>,
    teller: Option<Teller>,
    /// Trouble that was told already.
    said: BTreeSet<String>,
}

impl AlertMonitor {
    fn watch(&mut self, words: &Receiver<Word>) {
        let mut wait = LOOK_EVERY;
        let mut next_leaks = Instant::now() + LEAKS_EVERY;
        loop {
            match words.recv_timeout(wait) {
                Ok(Word::Look) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Word::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.look_back();
                    return;
                }
            }
            let search = Instant::now() >= next_leaks;
            if search {
                next_leaks = Instant::now() + LEAKS_EVERY;
            }
            wait = self.look(search);
            for report in self
                .delivery
                .as_ref()
                .map_or(Vec::new(), AlertDelivery::reports)
            {
                self.said_once(Some(report));
            }
        }
    }

    /// Looks at what was written since the last time; gives the time to the next look.
    fn look(&mut self, search_leaks: bool) -> Duration {
        // A folder that cannot be read just now may be readable at the next look.
        let Ok(update) = self.follower.poll() else {
            return LOOK_RARELY;
        };
        if update.is_empty() {
            return LOOK_RARELY;
        }
        self.tracker.take(&update.tables, &update.events);
        let risks = self.tracker.risks();
        let mut alerts = self.evaluator.look(&risks);
        if search_leaks {
            let verdicts = self.tracker.verdicts(None);
            alerts.extend(self.evaluator.look_for_leaks(&verdicts));
        }
        for alert in alerts {
            self.tell(alert);
        }
        if risks.iter().any(is_near) {
            LOOK_EVERY
        } else {
            LOOK_RARELY
        }
    }

    /// The last look: what was reached is told, what would have come is not, because the job is over.
    fn look_back(&mut self) {
        if let Ok(update) = self.follower.poll() {
            self.tracker.take(&update.tables, &update.events);
            let risks = self.tracker.risks();
            for alert in self.evaluator.look_at_levels(&risks) {
                self.tell(alert);
            }
        }
    }

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
            teller.tell(AlertNews::Alert(Box::new(alert)));
        }
    }

    fn said_once(&mut self, trouble: Option<String>) {
        if let Some(text) = trouble
            && let Some(teller) = &mut self.teller
            && self.said.insert(text.clone())
        {
            teller.tell(AlertNews::Trouble(text));
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

fn is_near(risk: &Verdict) -> bool {
    let share = risk
        .reading
        .limit_bytes
        .map_or(0.0, |limit| risk.reading.used_bytes / limit.max(1.0));
    share >= NEAR_SHARE || risk.forecast.level > RiskLevel::Low
}
