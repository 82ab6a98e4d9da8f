//! `nilo watch` and the live verbs: the loop around processes that already run, or around the machine where none is named.

use nilo_analysis::EndingEvidence;
use nilo_runfile::{RunFolder, RunWriter, WriterOptions, monotonic_nanos};
use nilo_sample::{Ending, RunDescription};
use nilo_source::Roots;

use crate::RecorderError;
use crate::aftermath::conclude;
use crate::alerts::{AlertSettings, AlertThread};
use crate::command::{run_tick, say_loss};
use crate::live::Observer;
use crate::open_tree::{TreeScope, open_tree};
use crate::pace::Pace;
use crate::reap::Reaper;
use crate::recorder::Recorder;
use crate::signals::{ReceivedSignal, SignalPipe};
use crate::startup_code::release_startup_code;
use crate::surroundings::Surroundings;
use crate::wakeups::ask_for_prompt_wakeups;

/// Whom to watch and how.
pub struct WatchSettings<'a> {
    /// The processes; their descendants are watched too. Without any it is the machine: the host, our own cgroup and the GPUs.
    pub pids: Vec<u32>,
    /// Watch these GPUs, by the driver's index, whoever uses them; `None`: those of the job.
    pub gpus: Option<Vec<u32>>,
    /// The folder of this run, already created.
    pub folder: &'a RunFolder,
    /// Its description so far; completed here.
    pub description: RunDescription,
    /// Time between samples.
    pub interval_nanos: u64,
    /// Read GPUs, and the machine where no process is named, at that interval too; otherwise they are read at a pace of their own.
    pub everything_at_interval: bool,
    /// Stop after this long.
    pub duration_nanos: Option<u64>,
    /// Whom to tell when memory runs short; nobody is told by `None`.
    pub alerts: Option<AlertSettings>,
}

/// Why watching ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEnd {
    /// Every watched process is gone.
    AllGone,
    /// The time was up.
    Duration,
    /// The user said so.
    Interrupted,
    /// Whoever looked on had seen enough.
    Enough,
}

/// How watching ended.
#[derive(Debug)]
pub struct WatchOutcome {
    /// Why.
    pub end: WatchEnd,
    /// The verdict that went into `run.json`.
    pub ending: Ending,
    /// Rows that could not be stored.
    pub dropped: u64,
}

/// Watches processes until they are gone, the time is up, the user interrupts, or the observer has seen enough.
pub fn watch_processes(
    settings: WatchSettings<'_>,
    observer: &mut dyn Observer,
) -> Result<WatchOutcome, RecorderError> {
    watch_in(Roots::default(), settings, observer)
}

/// The same in a machine that may be a captured one.
fn watch_in(
    roots: Roots,
    settings: WatchSettings<'_>,
    observer: &mut dyn Observer,
) -> Result<WatchOutcome, RecorderError> {
    let WatchSettings {
        pids,
        gpus,
        folder,
        mut description,
        interval_nanos,
        everything_at_interval,
        duration_nanos,
        alerts,
    } = settings;
    let alerts = alerts.map(|alerts| AlertThread::prepare(alerts, folder.path()));
    let system = |what| move |source| RecorderError::System { what, source };
    let listened = [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGXFSZ,
        libc::SIGCONT,
    ];
    let signals = SignalPipe::listen(&listened).map_err(system("listen for signals"))?;
    nilo_source::raise_own_fd_limit().ok();
    let mut tree = open_tree(&roots, TreeScope::Others)?;
    for &pid in &pids {
        tree.add_root(pid)?;
    }
    let writer = RunWriter::create(folder.path(), "recorder", WriterOptions::default())?;
    let now = monotonic_nanos();
    let machine = pids.is_empty();
    let first = pids.first().copied().unwrap_or_else(std::process::id);
    let mut surroundings = Surroundings::new(roots, now, first);
    surroundings.choose_gpus(gpus);
    if everything_at_interval {
        surroundings.read_every(interval_nanos);
    }
    if machine {
        surroundings.watch_host_only();
    } else {
        surroundings.watch_named(&pids);
    }
    surroundings.ignore_session(alerts.as_ref().and_then(|alerts| alerts.session()));
    description.started_monotonic_nanos = now;
    description.started_unix_nanos = nilo_runfile::unix_nanos();
    description.root_pids = pids;
    description.limit = surroundings.limit().cloned();
    folder.write_description(&description).ok();
    let alerts = alerts.and_then(|alerts| AlertThread::start(alerts, folder, &description));

    let mut recorder = Recorder::new(tree, writer, surroundings, now, true).waking(alerts.as_ref());
    let mut reaper = Reaper::default();
    let mut pace = Pace::new(now, interval_nanos);
    ask_for_prompt_wakeups(interval_nanos);
    release_startup_code();
    let until = duration_nanos.map(|duration| monotonic_nanos() + duration);
    let mut loss_said = false;
    let end = loop {
        let now = monotonic_nanos();
        if until.is_some_and(|until| now >= until) {
            break WatchEnd::Duration;
        }
        if signals.was_continued() {
            pace.resume(now);
        }
        if pace.wait_nanos(now) == 0 {
            run_tick(&mut recorder, &mut pace, &mut reaper, now, observer, false);
            loss_said = loss_said || say_loss(&recorder, observer);
            if recorder.processes().is_empty() && !machine {
                break WatchEnd::AllGone;
            }
            if observer.has_seen_enough() {
                break WatchEnd::Enough;
            }
        }
        let rest = until.map_or(u64::MAX, |until| until.saturating_sub(monotonic_nanos()));
        let wait = pace.wait_nanos(monotonic_nanos()).min(rest);
        let ends =
            |arrived: &ReceivedSignal| !matches!(arrived.signal, libc::SIGXFSZ | libc::SIGCONT);
        if recorder.sleep(wait, &signals) && signals.take().iter().any(ends) {
            break WatchEnd::Interrupted;
        }
    };
    let end_nanos = monotonic_nanos();
    if end != WatchEnd::AllGone {
        run_tick(
            &mut recorder,
            &mut pace,
            &mut reaper,
            end_nanos,
            observer,
            true,
        );
    }
    let aftermath = EndingEvidence {
        detached: end != WatchEnd::AllGone,
        gone: end == WatchEnd::AllGone,
        time_nanos: Some(end_nanos.saturating_sub(description.started_monotonic_nanos)),
        counters: recorder.surroundings().counters(),
        ..EndingEvidence::default()
    };
    recorder.end(None);
    let dropped = recorder.dropped().0;
    recorder.close();
    if let Some(alerts) = alerts {
        alerts.finish();
    }
    let ending = conclude(folder, description, aftermath);
    Ok(WatchOutcome {
        end,
        ending,
        dropped,
    })
}

#[cfg(test)]
#[path = "attach_tests.rs"]
mod tests;
