//! A program that records itself: a thread of the job samples the job's own process tree.
//!
//! It touches nothing of the program's: no signals, no child reaping, no limits of its own.
//! After a fork the thread is in the parent only, and the child leaves the recording alone.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nilo_analysis::EndingEvidence;
use nilo_runfile::{RunFolder, RunWriter, WriterOptions, monotonic_nanos};
use nilo_sample::{Ending, ProcessStatus, RunDescription};
use nilo_source::{Roots, own_rank};
use rustix::event::{EventfdFlags, eventfd};

use crate::RecorderError;
use crate::aftermath::conclude;
use crate::command::run_tick;
use crate::live::{LiveReading, Observer};
use crate::local_ranks::LocalRanks;
use crate::open_tree::{TreeScope, open_tree};
use crate::own_cost::OwnCost;
use crate::pace::Pace;
use crate::reap::Reaper;
use crate::recorder::Recorder;
use crate::surroundings::Surroundings;
use crate::wakeups::ask_for_prompt_wakeups;

/// How long a program waits for its first sample, should something hold that up.
const FIRST_SAMPLE: Duration = Duration::from_secs(1);

/// The thread that records this process, until it is stopped.
pub struct OwnRecorder {
    pid: u32,
    folder: RunFolder,
    description: RunDescription,
    stop: Arc<OwnedFd>,
    shared: Arc<Mutex<LiveReading>>,
    with_local_ranks: Arc<AtomicBool>,
    thread: JoinHandle<EndingEvidence>,
}

/// Hands the latest reading to whoever asks, from another thread.
pub(crate) struct LiveFeed<F> {
    live: Arc<Mutex<LiveReading>>,
    on_tick: F,
    /// Who waits for the first reading.
    first: Option<SyncSender<()>>,
}

impl<F> LiveFeed<F> {
    pub(crate) fn new(live: &Arc<Mutex<LiveReading>>, on_tick: F) -> LiveFeed<F> {
        LiveFeed {
            live: Arc::clone(live),
            on_tick,
            first: None,
        }
    }
}

impl<F: FnMut(&LiveReading)> Observer for LiveFeed<F> {
    fn on_tick(&mut self, live: &LiveReading) {
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = live.clone();
        (self.on_tick)(live);
        if let Some(first) = self.first.take() {
            first.try_send(()).ok();
        }
    }

    fn on_notice(&mut self, _text: &str) {
        // The user's program owns the screen; what was lost is counted in the run.
    }
}

/// Records this process and its descendants into a folder that was made for it, every `interval_nanos`.
///
/// It returns with the first sample: what the program holds now may be gone by the time that a new thread gets the processor.
/// `on_tick` is called on the sampling thread after each reading and must be quick.
pub fn record_own_process(
    folder: &RunFolder,
    mut description: RunDescription,
    interval_nanos: u64,
    on_tick: impl FnMut(&LiveReading) + Send + 'static,
) -> Result<OwnRecorder, RecorderError> {
    let pid = std::process::id();
    let started = description.started_monotonic_nanos;
    let recorder = own_recorder(folder, started)?;
    description.root_pids = vec![pid];
    description.interval_nanos = interval_nanos;
    description.limit = recorder.limit().cloned();
    folder.write_description(&description).ok();
    let stop = stop_event()?;
    let shared = Arc::new(Mutex::new(LiveReading::default()));
    let mut observer = LiveFeed::new(&shared, on_tick);
    let (sampled, first_sample) = sync_channel(1);
    observer.first = Some(sampled);
    let stopped = Arc::clone(&stop);
    let with_local_ranks = Arc::new(AtomicBool::new(false));
    let ranks = own_rank().map(|_| LocalRanks::new(folder, &with_local_ranks));
    let thread = std::thread::Builder::new()
        .name("nilo-recorder".to_owned())
        .stack_size(512 << 10)
        .spawn(move || {
            let run = (interval_nanos, started);
            sample_until_stopped(recorder, run, ranks, &stopped, &mut observer)
        })
        .map_err(|source| RecorderError::System {
            what: "start the sampling thread",
            source,
        })?;
    first_sample.recv_timeout(FIRST_SAMPLE).ok();
    Ok(OwnRecorder {
        pid,
        folder: folder.clone(),
        description,
        stop,
        shared,
        with_local_ranks,
        thread,
    })
}

/// Makes the recorder of this process and its descendants.
pub(crate) fn own_recorder(
    folder: &RunFolder,
    started_nanos: u64,
) -> Result<Recorder, RecorderError> {
    let pid = std::process::id();
    let roots = Roots::default();
    let mut tree = open_tree(&roots, TreeScope::WithOurselves)?;
    tree.add_root(pid)?;
    let writer = RunWriter::create(folder.path(), "recorder", WriterOptions::default())?;
    let surroundings = Surroundings::new(roots, monotonic_nanos(), pid);
    let recorder = Recorder::new(tree, writer, surroundings, started_nanos, true);
    Ok(recorder.costing(OwnCost::Thread))
}

/// Wakes a thread that is to stop.
pub(crate) fn stop_event() -> Result<Arc<OwnedFd>, RecorderError> {
    let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    stop.map(Arc::new).map_err(|error| RecorderError::System {
        what: "make an event descriptor",
        source: error.into(),
    })
}

impl OwnRecorder {
    /// The latest reading.
    pub fn live(&self) -> LiveReading {
        self.shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Records the ranks of this machine that do not write to the run too: all of them belong to one training.
    pub fn watch_local_ranks(&self) {
        self.with_local_ranks.store(true, Ordering::Relaxed);
    }

    /// Another description, which it writes at the end.
    pub fn redescribe(&mut self, change: impl FnOnce(&mut RunDescription)) {
        change(&mut self.description);
        self.folder.write_description(&self.description).ok();
    }

    /// Takes a last reading, ends the recording and writes down how the program ended, as far as it knows itself.
    /// In a forked child it does nothing.
    pub fn stop(self, status: ProcessStatus) -> Option<Ending> {
        if std::process::id() != self.pid {
            return None;
        }
        rustix::io::write(&self.stop, &1u64.to_ne_bytes()).ok();
        let mut aftermath = self.thread.join().unwrap_or_default();
        aftermath.exit_code = status.exit_code;
        aftermath.signal = status.signal;
        Some(conclude(&self.folder, self.description, aftermath))
    }
}

pub(crate) fn sample_until_stopped(
    mut recorder: Recorder,
    (interval_nanos, started_nanos): (u64, u64),
    mut ranks: Option<LocalRanks>,
    stop: &OwnedFd,
    observer: &mut dyn Observer,
) -> EndingEvidence {
    let mut pace = Pace::new(monotonic_nanos(), interval_nanos);
    let mut reaper = Reaper::default();
    ask_for_prompt_wakeups(interval_nanos);
    loop {
        let now = monotonic_nanos();
        if pace.wait_nanos(now) == 0 {
            if let Some(ranks) = &mut ranks {
                ranks.add_to(&mut recorder, now);
            }
            run_tick(&mut recorder, &mut pace, &mut reaper, now, observer, false);
        }
        let wait = pace.wait_nanos(monotonic_nanos());
        recorder.sleep(wait, stop);
        // The counter says so even when a poll was interrupted.
        if rustix::io::read(stop, &mut [0u8; 8]).is_ok() {
            break;
        }
    }
    let end_nanos = monotonic_nanos();
    run_tick(
        &mut recorder,
        &mut pace,
        &mut reaper,
        end_nanos,
        observer,
        true,
    );
    recorder.end(None);
    let aftermath = EndingEvidence {
        gone: true,
        time_nanos: Some(end_nanos.saturating_sub(started_nanos)),
        counters: recorder.surroundings().counters(),
        ..EndingEvidence::default()
    };
    recorder.close();
    aftermath
}
