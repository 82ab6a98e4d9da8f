//! What the classes of one process share of a run: its stream, values still on a device, what was lost, who ends it.
//!
//! Locking: a lock here is never held while Python code may run, because Python code may wait for another thread that waits for the lock.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nilo_recorder::{OwnRecorder, StandbyRecorder};
use nilo_runfile::{RunFolder, monotonic_nanos};
use nilo_sample::{Ending, ProcessStatus, RunDescription, RunId, RunStatus};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::flatten::FlatValues;
use crate::key_sets::{InvalidName, LONGEST_NAME, MOST_NAMES};
use crate::pending::{Pending, PendingQueue};
use crate::quick_row::QuickRowBuffer;
use crate::rank_end::RankEnd;
use crate::stream::{RowStep, Stream};
use crate::termination::EndsBySigterm;
use crate::trouble::report;

/// The group of what `Run.log` stores.
pub(crate) const METRICS: &str = "metrics";

/// Where points go.
pub(crate) enum Sink {
    Open(Box<Stream>),
    /// Recording is switched off, or over: points vanish.
    Nowhere,
}

/// What became of a row on the quick way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuickOutcome {
    Stored,
    /// Not stored, and counted: it is not to be tried again.
    Lost,
    /// It needs the long way.
    NeedsCare,
}

/// What the owner of a run has to do at its end.
pub(crate) struct Ownership {
    pub(crate) pid: u32,
    pub(crate) folder: RunFolder,
    pub(crate) description: RunDescription,
    pub(crate) recorder: Option<OwnRecorder>,
    /// The end that a SIGTERM would be.
    pub(crate) by_sigterm: Option<EndsBySigterm>,
}

/// A rank that records the run when the one that did so is gone.
pub(crate) struct Standby {
    pub(crate) recorder: StandbyRecorder,
    /// The end that a SIGTERM would be once it records.
    pub(crate) by_sigterm: Arc<Mutex<Option<EndsBySigterm>>>,
}

/// How a process's part of a run ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunEnd {
    Told(ProcessStatus),
    /// Ctrl-C, of which the program may not have died: no failure that the other ranks have to know of.
    Interrupted(ProcessStatus),
}

/// What this process has to do when its part of a run ends.
pub(crate) struct RunRole {
    owned: Option<Ownership>,
    standby: Option<Standby>,
    rank: Option<RankEnd>,
}

impl RunRole {
    /// Whether there is anything to do.
    pub(crate) fn has_end(&self) -> bool {
        self.owned.is_some() || self.standby.is_some() || self.rank.is_some()
    }

    pub(crate) fn end(self, end: RunEnd) {
        let (RunEnd::Told(status) | RunEnd::Interrupted(status)) = end;
        if let Some(owned) = self.owned {
            owned.end(status);
        }
        if let Some(standby) = self.standby {
            standby.recorder.stop(status);
            drop(lock(&standby.by_sigterm).take());
        }
        if let Some(rank) = self.rank {
            rank.end(match end {
                RunEnd::Told(status) => status,
                RunEnd::Interrupted(_) => ProcessStatus::default(),
            });
        }
    }
}

/// Writes down how a run ended that this process began or recorded, and ended with that exit code before.
pub(crate) fn correct_end(path: &Path, exit_code_before: i32, status: ProcessStatus) {
    let Ok(folder) = RunFolder::open(path) else {
        return;
    };
    let Ok(mut description) = folder.describe() else {
        return;
    };
    let is_ours = description.recorder_pid == std::process::id();
    if let Some(ending) = description.ending.as_mut().filter(|ending| {
        is_ours && ending.status == RunStatus::Exited && ending.exit_code == Some(exit_code_before)
    }) {
        ending.status = status.run_status();
        (ending.exit_code, ending.signal) = (status.exit_code, status.signal);
        folder.write_description(&description).ok();
    }
}

/// The state that the classes of one process share.
pub(crate) struct SharedRun {
    pub(crate) path: Option<PathBuf>,
    /// Nothing is stored because it could not be, not because recording is switched off.
    pub(crate) is_lost: bool,
    pub(crate) sink: Mutex<Sink>,
    pub(crate) pending: Mutex<PendingQueue>,
    /// Whether anything is pending: looked at in every call, where a lock would cost.
    pub(crate) has_pending: AtomicBool,
    pub(crate) is_finished: AtomicBool,
    /// Calls whose values could not be stored.
    pub(crate) lost_calls: AtomicU64,
    pub(crate) owned: Mutex<Option<Ownership>>,
    pub(crate) standby: Mutex<Option<Standby>>,
    /// What a rank has to do at its end.
    pub(crate) rank_end: Mutex<Option<RankEnd>>,
    /// The numbers of the trackers that write to this run.
    pub(crate) trackers: Mutex<BTreeSet<u32>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedRun {
    /// The high-water mark of this process, if it has written to the run: a forked one that never did has nothing to tell.
    pub(crate) fn tell_high_water(&self) {
        if let Sink::Open(stream) = &mut *lock(&self.sink)
            && !stream.is_foreign()
        {
            stream.tell_high_water();
        }
    }

    /// Does something with the stream of this process; `None` when there is no run to write to.
    #[inline]
    pub(crate) fn with_stream<T>(&self, work: impl FnOnce(&mut Stream) -> T) -> Option<T> {
        let mut sink = lock(&self.sink);
        if let Sink::Open(stream) = &mut *sink {
            if stream.is_foreign() {
                // A run folder that takes no second stream loses the child's points, not the child.
                **stream = stream.reopen().ok()?;
                self.lost_calls.store(0, Ordering::Relaxed);
            }
            return Some(work(stream));
        }
        None
    }

    /// Hands over what is to be done at the end, once.
    pub(crate) fn take_part(&self) -> RunRole {
        RunRole {
            owned: lock(&self.owned).take(),
            standby: lock(&self.standby).take(),
            rank: lock(&self.rank_end).take(),
        }
    }

    /// A number for a tracker: the lowest that no other has.
    pub(crate) fn take_tracker(&self) -> u32 {
        let mut taken = lock(&self.trackers);
        let free = (0..).find(|number| !taken.contains(number)).unwrap_or(0);
        taken.insert(free);
        free
    }

    /// The tracker of this number is gone.
    pub(crate) fn give_back_tracker(&self, number: u32) {
        lock(&self.trackers).remove(&number);
    }

    /// Stores something; a call that loses any of it, or finds no run to write to any more, is counted once.
    #[inline]
    pub(crate) fn store<T>(&self, work: impl FnOnce(&mut Stream) -> T) -> Option<T> {
        let outcome = self.with_stream(|stream| {
            let before = stream.dropped().0;
            let outcome = work(stream);
            let is_lost = stream.dropped().0 > before;
            (outcome, is_lost.then(|| 1 + stream.take_lost_with_folder()))
        });
        let (outcome, lost) = match outcome {
            Some((outcome, lost)) => (Some(outcome), lost),
            None => (None, Some(1)),
        };
        if let Some(lost) = lost {
            self.count_lost_calls(lost);
        }
        outcome
    }

    #[cold]
    fn count_lost_calls(&self, calls: u64) {
        if self.is_stored() || self.is_lost {
            self.lost_calls.fetch_add(calls, Ordering::Relaxed);
        }
    }

    /// Whether points go anywhere at all.
    pub(crate) fn is_stored(&self) -> bool {
        self.path.is_some()
    }

    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished.load(Ordering::Relaxed)
    }

    /// Stores what has arrived from devices.
    #[inline]
    pub(crate) fn settle(&self, py: Python<'_>, wait: bool) -> PyResult<()> {
        if !self.has_pending.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.settle_pending(py, wait)
    }

    #[cold]
    fn settle_pending(&self, py: Python<'_>, wait: bool) -> PyResult<()> {
        let mut queue = std::mem::take(&mut *lock(&self.pending));
        let arrived = queue.take_arrived(py, wait);
        let mut outcome = Ok(());
        for pending in arrived {
            match pending.number.value(py) {
                Ok(value) => {
                    self.store(|stream| {
                        let name = [pending.name.clone()];
                        // Asked for by name: a name too many is as good as refused.
                        if stream.key_sets(&pending.group).admit(&name[0]).is_ok() {
                            let Pending {
                                group,
                                time_nanos,
                                step,
                                ..
                            } = &pending;
                            stream.append_named(group, *time_nanos, *step, &name, &[value]);
                        }
                    });
                }
                Err(error) => {
                    outcome = report(
                        py,
                        &format!(
                            "the value of {:?} could not be read from its device: {error}",
                            pending.name
                        ),
                    );
                }
            }
        }
        // Values logged by other threads in between are younger.
        let mut pending = lock(&self.pending);
        let younger = std::mem::replace(&mut *pending, queue);
        pending.append(younger);
        self.has_pending
            .store(!pending.is_empty(), Ordering::Relaxed);
        outcome
    }

    /// Stores a flat dictionary of plain numbers whose keys were seen before.
    #[inline]
    pub(crate) fn log_quickly(
        &self,
        group: &str,
        dict: &Bound<'_, PyDict>,
        step: RowStep,
    ) -> QuickOutcome {
        if self.path.is_none() {
            // Recording is switched off, or the user was told that it is impossible.
            self.count_lost_calls(1);
            return QuickOutcome::Stored;
        }
        let mut room = QuickRowBuffer::new();
        let Some(row) = room.fill(dict) else {
            return QuickOutcome::NeedsCare;
        };
        let stored = self.with_stream(|stream| {
            let table = stream.key_sets(group).find(row.addresses)?;
            // A step that goes back is worth a warning, which the long way gives.
            if stream.goes_back(table, step.given()) {
                return None;
            }
            let step = stream.resolve_step(step);
            Some(match stream.append(table, Some(step), row.values) {
                true => Ok(()),
                false => Err(1 + stream.take_lost_with_folder()),
            })
        });
        match stored.flatten() {
            Some(Ok(())) => QuickOutcome::Stored,
            Some(Err(lost)) => {
                self.count_lost_calls(lost);
                QuickOutcome::Lost
            }
            None => QuickOutcome::NeedsCare,
        }
    }

    /// What is due after a row that took the quick way, stored or lost.
    #[inline]
    pub(crate) fn after_quick_row(&self, py: Python<'_>, quick: QuickOutcome) -> PyResult<()> {
        if quick == QuickOutcome::Lost {
            self.say_loss(py)?;
        }
        self.settle(py, false)
    }

    /// Stores what one call found in any dictionary: one row, or one for each step where its metrics count apart.
    #[cold]
    pub(crate) fn log_found(
        &self,
        py: Python<'_>,
        group: &str,
        rows: Vec<(RowStep, FlatValues)>,
    ) -> PyResult<()> {
        if self.is_finished() {
            self.count_lost_calls(1);
            return report(
                py,
                "log: the run is finished; values logged after its end are not stored",
            );
        }
        let time_nanos = monotonic_nanos();
        let (mut refused, mut unusable) = (Vec::new(), Vec::new());
        let (mut absent, mut repeated) = (Vec::new(), Vec::new());
        let mut restart = None;
        let outcome = self.store(|stream| {
            let lost_before = stream.dropped().0;
            let mut on_device = Vec::new();
            for (row_step, found) in rows {
                let refused_before = refused.len();
                let (mut names, mut values) = (Vec::new(), Vec::new());
                for (name, value) in found.numbers {
                    match stream.key_sets(group).admit(&name) {
                        Ok(()) => {
                            names.push(name);
                            values.push(value);
                        }
                        Err(refusal) => refused.push((name, refusal)),
                    }
                }
                unusable.extend(found.unusable);
                absent.extend(found.absent);
                repeated.extend(found.repeated);
                if names.is_empty() && found.on_device.is_empty() && row_step.is_counted() {
                    // Nothing to store is no step.
                    continue;
                }
                let step = Some(stream.resolve_step(row_step));
                let table = stream.append_named(group, time_nanos, step, &names, &values);
                let went_back = table.and_then(|table| stream.note_step(table, row_step.given()));
                restart = restart.or(went_back);
                if let (Some(table), Some(keys)) = (table, found.keys)
                    && refused.len() == refused_before
                {
                    stream.key_sets(group).remember(keys, table);
                }
                on_device.extend(found.on_device.into_iter().map(|value| (step, value)));
            }
            let is_lost = stream.dropped().0 > lost_before;
            (on_device, is_lost, stream.is_losing())
        });
        let Some((on_device, is_lost, is_losing)) = outcome else {
            return Ok(());
        };
        if !is_lost && !refused.is_empty() {
            self.count_lost_calls(1);
        }
        for (step, (name, number)) in on_device {
            self.has_pending.store(true, Ordering::Relaxed);
            lock(&self.pending).push(Pending {
                group: group.to_owned(),
                name,
                time_nanos,
                step,
                number,
            });
        }
        for (name, refusal) in refused {
            report(py, &explain(&name, &refusal))?;
        }
        if let Some((before, now)) = restart {
            report(
                py,
                &format!(
                    "log: the step went back from {before} to {now}; every point is kept, but steps repeat. Pass a step that keeps counting, such as epoch * len(loader) + step"
                ),
            )?;
        }
        for name in absent {
            let text = format!("log: {name:?} is None; only scalars are stored");
            report(py, &text)?;
        }
        for name in repeated {
            let text = format!(
                "log: {name:?} appears twice in one call; only the last value is stored. A dictionary \"a\" that has \"b\" is the metric \"a/b\": give one of them another name"
            );
            report(py, &text)?;
        }
        for (name, what) in unusable {
            report(
                py,
                &format!("log: {name:?} is {what}; only scalars are stored"),
            )?;
        }
        if is_losing {
            self.say_loss(py)?;
        }
        self.settle(py, false)
    }

    #[cold]
    pub(crate) fn say_loss(&self, py: Python<'_>) -> PyResult<()> {
        let reason = self.with_stream(|stream| {
            let reason = stream.dropped().1.map(str::to_owned);
            (reason.unwrap_or_default(), stream.has_lost_its_folder())
        });
        let (reason, is_deleted) = reason.unwrap_or_default();
        if is_deleted {
            return self.say_deleted(py);
        }
        report(
            py,
            &format!(
                "points are being lost: {reason}; training continues, and the number of lost points is stored in the run"
            ),
        )
    }
}

/// What a process of a run is told whose folder is gone.
impl SharedRun {
    #[cold]
    fn say_deleted(&self, py: Python<'_>) -> PyResult<()> {
        let path = self.path.as_deref().unwrap_or(Path::new(""));
        let text = format!(
            "the folder of the run was deleted, and what it recorded is lost, also what is logged from here on: {}",
            path.display()
        );
        report(py, &text)
    }

    /// Says at the end of a run that nothing is left of it: rows still find room in a file that has no name any more.
    pub(crate) fn say_if_deleted(&self, py: Python<'_>) -> PyResult<()> {
        let mut lost = 0;
        let is_written = match &mut *lock(&self.sink) {
            Sink::Open(stream) if !stream.is_foreign() => {
                stream.look_for_folder();
                lost = stream.take_lost_with_folder();
                true
            }
            _ => false,
        };
        if lost > 0 {
            self.count_lost_calls(lost);
        }
        let is_deleted = |path: &PathBuf| matches!(path.try_exists(), Ok(false));
        match is_written && self.path.as_ref().is_some_and(is_deleted) {
            true => self.say_deleted(py),
            false => Ok(()),
        }
    }
}

impl Ownership {
    /// The run continues another one.
    pub(crate) fn set_resumed(&mut self, id: RunId) {
        if self.pid != std::process::id() {
            return;
        }
        self.description.resumes = Some(id.clone());
        match &mut self.recorder {
            Some(recorder) => recorder.redescribe(|description| description.resumes = Some(id)),
            None => drop(self.folder.write_description(&self.description)),
        }
    }

    pub(crate) fn end(self, status: ProcessStatus) {
        if self.pid != std::process::id() {
            return;
        }
        match self.recorder {
            Some(recorder) => drop(recorder.stop(status)),
            None => {
                let mut description = self.description;
                let started = description.started_monotonic_nanos;
                description.ending = Some(Ending {
                    status: status.run_status(),
                    exit_code: status.exit_code,
                    signal: status.signal,
                    time_nanos: monotonic_nanos().saturating_sub(started),
                    oom: None,
                    left_running: Vec::new(),
                    recorder_death: None,
                    lost_rank: None,
                    gpu_out_of_memory: None,
                });
                self.folder.write_description(&description).ok();
            }
        }
        // Only here: a signal that comes before the end is written down is the end.
        drop(self.by_sigterm);
    }
}

fn explain(name: &str, refusal: &InvalidName) -> String {
    match refusal {
        InvalidName::TooMany => format!(
            "log: more than {MOST_NAMES} different names were logged; further names are left out (put what varies into the value or the step, not into the name)"
        ),
        InvalidName::TooLong => {
            let start: String = name.chars().take(40).collect();
            format!("log: the name {start:?}… is longer than {LONGEST_NAME} bytes; it is left out")
        }
        InvalidName::Empty => "log: a name is empty; its value is left out".to_owned(),
    }
}
