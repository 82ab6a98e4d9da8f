//! `nilo run`: the loop around a command that we started.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Child;
use std::thread;
use std::time::Duration;

use nilo_analysis::EndingEvidence;
use nilo_runfile::{RowSink, RunFolder, RunWriter, WriterOptions, monotonic_nanos};
use nilo_sample::{Ending, Event, ProcessId, RunDescription};
use nilo_source::{Roots, processor_use};

use crate::RecorderError;
use crate::aftermath::conclude;
use crate::alerts::{AlertSettings, AlertThread};
use crate::forward::{Forwarder, forwarded_signals};
use crate::git_check::GitCheck;
use crate::hooks::Hooks;
use crate::launch::prepare;
use crate::live::Observer;
use crate::open_tree::{TreeScope, open_tree};
use crate::pace::Pace;
use crate::provenance::work_tree;
use crate::reap::{Reaped, Reaper};
use crate::recorder::Recorder;
use crate::sentinel::Sentinel;
use crate::signals::SignalPipe;
use crate::startup_code::release_startup_code;
use crate::surroundings::Surroundings;
use crate::wait_for_ends::wait_for_ends;
use crate::wakeups::ask_for_prompt_wakeups;

/// A process that ends within this time of the command is not said to go on.
const ABOUT_TO_END: Duration = Duration::from_millis(200);

/// What to run and how.
pub struct CommandSettings<'a> {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// The folder of this run, already created.
    pub folder: &'a RunFolder,
    /// Its description so far; completed here.
    pub description: RunDescription,
    /// Time between samples.
    pub interval_nanos: u64,
    /// Go on until every process of the tree has ended, daemons included.
    pub wait_for_all: bool,
    /// Whom to tell when memory runs short; nobody is told by `None`.
    pub alerts: Option<AlertSettings>,
    /// Whether Python programs tell of their exceptions by hooks that they load when they start.
    pub hooks: bool,
}

/// How the command ended.
#[derive(Debug)]
pub struct CommandOutcome {
    /// What `nilo run` should exit with: the command's own status, or 128 and the signal.
    pub exit_code: i32,
    /// The signal that the command died of, or that the user sent us after its end.
    pub signal: Option<i32>,
    /// The verdict that went into `run.json`.
    pub ending: Ending,
    /// Rows that could not be stored.
    pub dropped: u64,
}

/// Runs a command and records its tree until it ends.
pub fn run_command(
    settings: CommandSettings<'_>,
    observer: &mut dyn Observer,
) -> Result<CommandOutcome, RecorderError> {
    let CommandSettings {
        command,
        folder,
        mut description,
        interval_nanos,
        wait_for_all,
        alerts,
        hooks,
    } = settings;
    let alerts = alerts.map(|alerts| AlertThread::prepare(alerts, folder.path()));
    let provenance = description.provenance.as_ref();
    let git = provenance.and_then(|provenance| provenance.git.as_ref());
    let mut git_check = git.and_then(|_| GitCheck::prepare(&work_tree()?));
    let sentinel = Sentinel::start();
    let helper = sentinel.as_ref().map(Sentinel::pid);
    let system = |what| move |source| RecorderError::System { what, source };
    let roots = Roots::default();
    let mut tree = open_tree(&roots, TreeScope::OthersAndOrphans)?;
    let writer = RunWriter::create(folder.path(), "recorder", WriterOptions::default())?;
    let mut reaper = Reaper::new();

    let run_dir = std::path::absolute(folder.path()).unwrap_or_else(|_| folder.path().to_owned());
    let hooks = hooks.then(|| Hooks::create(&run_dir, std::env::var_os("PYTHONPATH")));
    let (mut hooks, no_hooks) = match hooks.transpose() {
        Ok(hooks) => (hooks, None),
        Err(error) => (None, Some(error)),
    };
    let waiting = prepare(&command, &run_dir, hooks.as_ref())?;
    let mut listened = forwarded_signals();
    // A limit on file sizes must cost samples, not the recorder: the write fails, and that is handled.
    listened.extend([libc::SIGCHLD, libc::SIGXFSZ, libc::SIGCONT]);
    let signals = match SignalPipe::listen_even_if_ignored(&listened) {
        Ok(signals) => signals,
        Err(error) => {
            waiting.cancel();
            return Err(system("listen for signals")(error));
        }
    };
    // Whatever may take its time comes before the command: a short one is over before a file is renamed on a busy disk.
    let child_pid = waiting.pid();
    let now = monotonic_nanos();
    nilo_source::raise_own_fd_limit().ok();
    let mut surroundings =
        signals.keep_from_new_threads(|| Surroundings::new(roots, now, child_pid));
    surroundings.add_helper(helper);
    surroundings.ignore_session(alerts.as_ref().and_then(|alerts| alerts.session()));
    surroundings.ignore_session(git_check.as_ref().map(GitCheck::session));
    description.root_pids = vec![child_pid];
    description.limit = surroundings.limit().cloned();
    // The file's time axis begins at the start of the command, so the description is written again.
    description.started_monotonic_nanos = monotonic_nanos();
    description.started_unix_nanos = nilo_runfile::unix_nanos();
    folder.write_description(&description).ok();
    tree.expect_first_root();
    let child = waiting.begin()?;
    // A command that has already ended is a zombie without memory; its end is still ours to report.
    tree.add_first_root(child_pid).ok();
    let started = description.started_monotonic_nanos;
    let mut recorder =
        Recorder::new(tree, writer, surroundings, started, false).of_command(child_pid);
    let begun = monotonic_nanos();
    let mut pace = Pace::new(begun, interval_nanos);
    run_tick(
        &mut recorder,
        &mut pace,
        &mut reaper,
        begun,
        observer,
        false,
    );
    if let Some(check) = &mut git_check {
        check.begin();
    }
    let alerts = signals.keep_from_new_threads(|| {
        alerts.and_then(|alerts| AlertThread::start(alerts, folder, &description))
    });
    let mut recorder = recorder.waking(alerts.as_ref());
    if let Some(error) = no_hooks {
        recorder.event(&Event::Blind {
            text: format!(
                "exceptions of Python programs, as their hooks cannot be set up: {error}"
            ),
        });
    }
    ask_for_prompt_wakeups(interval_nanos);
    release_startup_code();
    let mut rewriting = None;
    let ended = sample_until_end(
        &mut Loop {
            recorder: &mut recorder,
            pace: &mut pace,
            reaper: &mut reaper,
            signals: &signals,
            forwarder: Forwarder::new(sentinel, &child),
            hooks: &mut hooks,
            git_check: &mut git_check,
            on_git_answer: &mut |dirty| {
                set_dirty(&mut description, dirty);
                let (folder, described) = (folder.clone(), description.clone());
                let rewrite = move || folder.write_description(&described).is_ok();
                let started =
                    signals.keep_from_new_threads(|| thread::Builder::new().spawn(rewrite));
                rewriting = started.ok();
            },
        },
        &child,
        wait_for_all,
        observer,
    );
    // What arrived up to here was meant for the command.
    signals.take();
    let end_nanos = monotonic_nanos();
    if !recorder.has_level() {
        recorder.event(&Event::Blind {
            text: "memory over time, as the command ended before its first sample; the peak is what the kernel counted".to_owned(),
        });
    }
    let left_running = still_running(&mut recorder, &mut reaper);
    if let Some(hooks) = hooks {
        hooks.finish(folder, recorder.writer(), !left_running.is_empty());
    }
    // Also in the run file: its room is reserved, while a full disk may refuse to take `run.json` again.
    recorder.end(Some(ended.command));
    let CommandEnd {
        command: Reaped {
            exit_code, signal, ..
        },
        interrupted_by,
    } = ended;
    let aftermath = EndingEvidence {
        exit_code,
        signal,
        time_nanos: Some(end_nanos.saturating_sub(description.started_monotonic_nanos)),
        counters: recorder.surroundings().counters(),
        left_running,
        ..EndingEvidence::default()
    };
    if let Some(limit) = recorder.limit() {
        description.limit.get_or_insert_with(|| limit.clone());
    }
    let dropped = recorder.dropped().0;
    recorder.close();
    if let Some(alerts) = alerts {
        alerts.finish();
    }
    if let Some(rewriting) = rewriting {
        rewriting.join().ok();
    }
    if let Some(dirty) = git_check.and_then(GitCheck::finish) {
        set_dirty(&mut description, dirty);
    }
    let ending = conclude(folder, description, aftermath);
    let exit_code = match (exit_code, signal) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    let mut late = signals.take().into_iter().map(|arrived| arrived.signal);
    let late = late.find(|signal| is_meant_for_us(&signals, *signal));
    Ok(CommandOutcome {
        exit_code,
        signal: signal.or(interrupted_by).or(late),
        ending,
        dropped,
    })
}

/// The processes that go on after the command. Those that are about to end are not among them: helpers of a program,
/// such as the resource tracker of Python's `multiprocessing`, see its end and follow.
fn still_running(recorder: &mut Recorder, reaper: &mut Reaper) -> Vec<u32> {
    let left: Vec<ProcessId> = recorder
        .processes()
        .iter()
        .map(|process| process.id)
        .collect();
    let pids: Vec<u32> = left.iter().map(|id| id.pid).collect();
    let roots = Roots::default();
    let used = |pid: u32| processor_use(&roots, pid);
    let before: BTreeMap<u32, Duration> = pids
        .iter()
        .filter_map(|pid| Some((*pid, used(*pid)?.cpu_time)))
        .collect();
    // On a busy machine a helper may not get the processor in that time: what counts is what it had of it.
    let is_held_up = |pid: u32| {
        let had = |now: Duration| now.saturating_sub(before.get(&pid).copied().unwrap_or(now));
        used(pid).is_some_and(|now| now.has_work && had(now.cpu_time) < ABOUT_TO_END)
    };
    let running = wait_for_ends(&pids, ABOUT_TO_END, &is_held_up);
    reaper.collect();
    for id in left.iter().filter(|id| !running.contains(&id.pid)) {
        let reaped = reaper.take(id.pid);
        recorder.event(&Event::ProcessEnded {
            id: *id,
            peak_rss_bytes: None,
            exit_code: reaped.and_then(|reaped| reaped.exit_code),
            signal: reaped.and_then(|reaped| reaped.signal),
        });
    }
    running
}

fn set_dirty(description: &mut RunDescription, dirty: bool) {
    let provenance = description.provenance.as_mut();
    if let Some(git) = provenance.and_then(|provenance| provenance.git.as_mut()) {
        git.dirty = Some(dirty);
    }
}

struct Loop<'a> {
    recorder: &'a mut Recorder,
    pace: &'a mut Pace,
    reaper: &'a mut Reaper,
    signals: &'a SignalPipe,
    forwarder: Forwarder,
    hooks: &'a mut Option<Hooks>,
    /// Until it has answered.
    git_check: &'a mut Option<GitCheck>,
    /// Must not wait for the disk: it is called between two samples.
    on_git_answer: &'a mut dyn FnMut(bool),
}

/// How the loop ended.
struct CommandEnd {
    command: Reaped,
    /// The signal that ended our wait for the daemons of a command that has ended.
    interrupted_by: Option<i32>,
}

fn sample_until_end(
    parts: &mut Loop<'_>,
    child: &Child,
    wait_for_all: bool,
    observer: &mut dyn Observer,
) -> CommandEnd {
    let child_pid = child.id();
    let mut ended: Option<Reaped> = None;
    let mut loss_said = false;
    loop {
        let now = monotonic_nanos();
        if parts.signals.was_continued() {
            parts.pace.resume(now);
        }
        if parts.pace.wait_nanos(now) == 0 {
            tick(parts, now, observer, false);
            if let Some(hooks) = parts.hooks {
                hooks.poll(parts.recorder.writer());
                let processes = parts.recorder.processes().iter();
                if let Some(blind) = hooks.blind_to(processes.map(|process| &process.info)) {
                    parts.recorder.event(&blind);
                }
            }
            loss_said = loss_said || say_loss(parts.recorder, observer);
            if let Some(answer) = parts.git_check.as_ref().and_then(GitCheck::answer) {
                *parts.git_check = None;
                answer.map(&mut parts.on_git_answer);
            }
        }
        let now = monotonic_nanos();
        let wait = parts.pace.wait_nanos(now);
        let wait = parts
            .forwarder
            .wait_nanos(now)
            .map_or(wait, |due| wait.min(due));
        let signalled = parts.recorder.sleep(wait, parts.signals);
        let now = monotonic_nanos();
        let arrived = if signalled {
            parts.signals.take()
        } else {
            Vec::new()
        };
        let mut interrupted_by = None;
        for arrived in arrived {
            // A tick may have found that the command has ended, or the signal before this one: this one is not for it then.
            ended = ended.or_else(|| parts.reaper.get(child_pid));
            match arrived.signal {
                libc::SIGCHLD => {
                    parts.reaper.collect();
                }
                libc::SIGXFSZ | libc::SIGCONT => {}
                _ if ended.is_none() => parts.forwarder.take(arrived, now),
                signal if is_meant_for_us(parts.signals, signal) => interrupted_by = Some(signal),
                _ => {}
            }
        }
        if ended.is_none() {
            ended = parts.reaper.get(child_pid);
        }
        match ended {
            None => parts.forwarder.forward_due(now),
            Some(_) => parts.forwarder.forget(),
        }
        if let Some(ended) = ended
            && (!wait_for_all || interrupted_by.is_some() || parts.reaper.all_ended())
        {
            finish(parts, ended, observer);
            return CommandEnd {
                command: ended,
                interrupted_by,
            };
        }
    }
}

/// Whether a signal ends us where there is no command any more that it could be for.
fn is_meant_for_us(signals: &SignalPipe, signal: i32) -> bool {
    let ends = matches!(
        signal,
        libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM
    );
    ends && !signals.was_ignored(signal)
}

/// The last sample.
fn finish(parts: &mut Loop<'_>, ended: Reaped, observer: &mut dyn Observer) {
    parts.recorder.job_ended();
    let now = monotonic_nanos();
    tick(parts, now, observer, true);
    let largest = ended.max_rss_bytes.max(parts.reaper.largest_rss_bytes());
    parts.recorder.final_mark(now, largest);
}

fn tick(parts: &mut Loop<'_>, now: u64, observer: &mut dyn Observer, last: bool) {
    run_tick(
        parts.recorder,
        parts.pace,
        parts.reaper,
        now,
        observer,
        last,
    );
}

/// One tick of either loop, with the change of pace that may follow it.
pub(crate) fn run_tick<W: RowSink>(
    recorder: &mut Recorder<W>,
    pace: &mut Pace,
    reaper: &mut Reaper,
    now: u64,
    observer: &mut dyn Observer,
    last: bool,
) {
    if !last {
        pace.arrive(now);
    }
    recorder.tick(now, pace, reaper, last);
    // Before the first process is seen and after the last has ended there is no reading to show.
    if recorder.has_reading() {
        observer.on_tick(recorder.live());
        observer.on_processes(&mut recorder.processes().iter().map(|process| process.id.pid));
    }
    if last {
        return;
    }
    let done = monotonic_nanos();
    if let Some(change) = pace.finish(done, done - now) {
        let secs = nilo_sample::units::to_secs(change.interval_nanos);
        observer.on_notice(&format!("now sampling every {secs} s: {}", change.reason));
        recorder.event(&Event::Interval {
            nanos: change.interval_nanos,
            reason: change.reason,
        });
    }
}

/// Tells the user once that samples are being lost.
pub(crate) fn say_loss(recorder: &Recorder, observer: &mut dyn Observer) -> bool {
    let (dropped, reason) = recorder.dropped();
    if dropped > 0 {
        let reason = reason.unwrap_or("the run folder cannot be written");
        observer.on_notice(&format!(
            "samples are being lost: {reason}; the command continues"
        ));
    }
    dropped > 0
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
