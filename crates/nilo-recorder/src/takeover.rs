//! A run of several ranks is recorded by the one that began it; when that one is gone, another rank goes on.
//!
//! Every rank looks at `run.json` a few times a second: the recording rank has ended its part, or its process is gone.
//! The first to make a file named after it takes its place. A file is made once also where locks do not work.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nilo_analysis::EndingEvidence;
use nilo_runfile::{RunFolder, boot_id};
use nilo_sample::{Ending, Event, ProcessId, ProcessStatus, Recording, RunDescription, RunStatus};
use nilo_source::{Roots, process_id};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::RecorderError;
use crate::aftermath::{conclude, judge_lost, needed, recorder_is_alive};
use crate::live::LiveReading;
use crate::local_ranks::LocalRanks;
use crate::own_process::{LiveFeed, own_recorder, sample_until_stopped, stop_event};
use crate::recorder::Recorder;

/// How often a rank looks whether the recording one is still there.
const LOOK_NANOS: i64 = 200_000_000;

/// The thread of a rank that takes over when nobody records the run any more, until it is stopped.
pub struct StandbyRecorder {
    pid: u32,
    folder: RunFolder,
    stop: Arc<OwnedFd>,
    shared: Arc<Mutex<LiveReading>>,
    with_local_ranks: Arc<AtomicBool>,
    thread: JoinHandle<Option<TakeoverOutcome>>,
}

/// What a rank that took over has to say when it ends.
struct TakeoverOutcome {
    /// How a rank that recorded before it was lost, if one was: so the run ended, whatever the others did then.
    lost: Option<Ending>,
    evidence: EndingEvidence,
}

/// Waits beside the rank that records a run. `on_takeover` is called on the waiting thread when this process takes its place.
pub fn stand_by(
    folder: &RunFolder,
    interval_nanos: u64,
    on_takeover: impl FnOnce() + Send + 'static,
) -> Result<StandbyRecorder, RecorderError> {
    let stop = stop_event()?;
    let shared = Arc::new(Mutex::new(LiveReading::default()));
    let with_local_ranks = Arc::new(AtomicBool::new(false));
    let waiting = WaitingRank {
        folder: folder.clone(),
        interval_nanos,
        stop: Arc::clone(&stop),
        with_local_ranks: Arc::clone(&with_local_ranks),
        live: Arc::clone(&shared),
    };
    let thread = std::thread::Builder::new()
        .name("nilo-standby".to_owned())
        .stack_size(512 << 10)
        .spawn(move || waiting.run(on_takeover))
        .map_err(|source| RecorderError::System {
            what: "start the standby thread",
            source,
        })?;
    Ok(StandbyRecorder {
        pid: std::process::id(),
        folder: folder.clone(),
        stop,
        shared,
        with_local_ranks,
        thread,
    })
}

impl StandbyRecorder {
    /// The latest reading; none as long as another rank records.
    pub fn live(&self) -> Option<LiveReading> {
        let live = self
            .shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        (live.ticks > 0).then_some(live)
    }

    /// Records the ranks of this machine that do not write to the run too, once it records.
    pub fn watch_local_ranks(&self) {
        self.with_local_ranks.store(true, Ordering::Relaxed);
    }

    /// Stops waiting or recording. A rank that took over writes down how the run ended, as far as it knows.
    /// In a forked child it does nothing.
    pub fn stop(self, status: ProcessStatus) {
        if std::process::id() != self.pid {
            return;
        }
        rustix::io::write(&self.stop, &1u64.to_ne_bytes()).ok();
        let Ok(Some(outcome)) = self.thread.join() else {
            return;
        };
        let Ok(mut description) = self.folder.describe() else {
            return;
        };
        let mut evidence = outcome.evidence;
        match outcome.lost {
            Some(lost) => {
                let time_nanos = evidence.time_nanos.unwrap_or(lost.time_nanos);
                description.ending = Some(Ending { time_nanos, ..lost });
                self.folder.write_description(&description).ok();
            }
            None => {
                evidence.exit_code = status.exit_code;
                evidence.signal = status.signal;
                conclude(&self.folder, description, evidence);
            }
        }
    }
}

/// The thread's part.
struct WaitingRank {
    folder: RunFolder,
    interval_nanos: u64,
    stop: Arc<OwnedFd>,
    with_local_ranks: Arc<AtomicBool>,
    live: Arc<Mutex<LiveReading>>,
}

impl WaitingRank {
    fn run(self, on_takeover: impl FnOnce()) -> Option<TakeoverOutcome> {
        loop {
            let told = self.folder.describe().ok()?;
            // Another machine's processes cannot be looked at, and its curve is none of this machine's.
            if told.boot_id != boot_id() {
                return None;
            }
            let is_free = told.ending.is_some() || !recorder_is_alive(&told);
            if is_free && claim_place_of(&self.folder, &told) {
                on_takeover();
                return self.record(told);
            }
            if self.is_stopped_after_a_while() {
                return None;
            }
        }
    }

    /// Records until it is stopped.
    fn record(&self, mut description: RunDescription) -> Option<TakeoverOutcome> {
        let started = description.started_monotonic_nanos;
        let mut recorder = own_recorder(&self.folder, started).ok()?;
        let before = self.folder.load_where(&needed).ok();
        let told = description.ending.take();
        let lost = match (told, &before) {
            (None, Some(before)) => Some(judge_lost(before)),
            (told, _) => {
                told.filter(|ending| !matches!(ending.status, RunStatus::Exited | RunStatus::Ended))
            }
        };
        let pid = std::process::id();
        description.recorder_pid = pid;
        let own = process_id(&Roots::default(), pid);
        description.recorder_start_ticks = own.map_or(0, |id| id.start_ticks);
        description.root_pids.push(pid);
        description.interval_nanos = self.interval_nanos;
        self.folder.write_description(&description).ok();
        if let Some(before) = &before {
            write_ends(&mut recorder, before);
        }
        let ranks = LocalRanks::new(&self.folder, &self.with_local_ranks);
        let mut observer = LiveFeed::new(&self.live, |_: &LiveReading| {});
        let run = (self.interval_nanos, started);
        let evidence = sample_until_stopped(recorder, run, Some(ranks), &self.stop, &mut observer);
        Some(TakeoverOutcome { lost, evidence })
    }

    /// Waits until the next look, or until it is told to stop.
    fn is_stopped_after_a_while(&self) -> bool {
        let mut fds = [PollFd::new(&*self.stop, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK_NANOS,
        };
        poll(&mut fds, Some(&timeout)).ok();
        rustix::io::read(&*self.stop, &mut [0u8; 8]).is_ok()
    }
}

/// Adds the ends of processes that ended while nobody looked, the rank that recorded until then among them.
fn write_ends(recorder: &mut Recorder, before: &Recording) {
    let mut left = BTreeSet::new();
    for timed in &before.events {
        match &timed.event {
            Event::ProcessStarted { id, .. } => drop(left.insert(*id)),
            Event::ProcessEnded { id, .. } => drop(left.remove(id)),
            _ => {}
        }
    }
    let is_gone = |id: &ProcessId| process_id(&Roots::default(), id.pid).ok() != Some(*id);
    for id in left.into_iter().filter(is_gone) {
        recorder.event(&Event::ProcessEnded {
            id,
            peak_rss_bytes: None,
            exit_code: None,
            signal: None,
        });
    }
}

/// Whether this process is the one that follows the recorder which a description names.
fn claim_place_of(folder: &RunFolder, told: &RunDescription) -> bool {
    let (pid, ticks) = (told.recorder_pid, told.recorder_start_ticks);
    let path = folder.path().join(format!(".successor-of-{pid}-{ticks}"));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).is_ok()
}
