//! A run as the program sees it: `log`, marks, settings, the end.
//!
//! Locking: a lock here is never held while Python code may run, because Python code may wait for another thread that waits for the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nilo_recorder::{OwnRecorder, add_dirty_flag, describe_run, record_own_process};
use nilo_runfile::{RunFolder, monotonic_nanos};
use nilo_sample::{ABSENT, Ending, Event, Provenance, RunDescription, RunStatus};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::errors::{os_error, sentence, value_error};
use crate::exit_status::with_exit_status;
use crate::flatten::{Found, as_dict, flatten};
use crate::key_sets::{LONGEST_NAME, MOST_NAMES, Refusal};
use crate::number;
use crate::pending::{Pending, PendingQueue};
use crate::project::decide_privacy;
use crate::quick_row::QuickRoom;
use crate::run_folder::begin_folder;
use crate::stream::Stream;
use crate::text::Text;
use crate::trouble::{report, warn_once};

/// The group of what `Run.log` stores.
pub(crate) const METRICS: &str = "metrics";

/// Where points go.
enum Sink {
    Open(Box<Stream>),
    /// Recording is switched off, or over: points vanish.
    Nowhere,
}

/// What became of a row on the quick way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quick {
    Stored,
    /// Not stored, and counted: it is not to be tried again.
    Lost,
    /// It needs the long way.
    NeedsCare,
}

/// What the owner of a run has to do at its end.
struct Ownership {
    pid: u32,
    folder: RunFolder,
    description: RunDescription,
    recorder: Option<OwnRecorder>,
}

/// The state that the classes of one process share.
pub(crate) struct Shared {
    path: Option<PathBuf>,
    sink: Mutex<Sink>,
    pending: Mutex<PendingQueue>,
    /// Whether anything is pending: looked at in every call, where a lock would cost.
    has_pending: AtomicBool,
    is_finished: AtomicBool,
    /// Calls whose values could not be stored.
    lost_calls: AtomicU64,
    owned: Mutex<Option<Ownership>>,
    /// The numbers of the trackers that write to this run.
    trackers: Mutex<BTreeSet<u32>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
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
            (outcome, stream.dropped().0 > before)
        });
        if outcome.as_ref().is_none_or(|(_, is_lost)| *is_lost) {
            self.count_lost_call();
        }
        outcome.map(|(outcome, _)| outcome)
    }

    #[cold]
    fn count_lost_call(&self) {
        if self.is_stored() {
            self.lost_calls.fetch_add(1, Ordering::Relaxed);
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
        step: Option<i64>,
    ) -> Quick {
        if self.path.is_none() {
            return Quick::Stored; // Recording is switched off.
        }
        let mut room = QuickRoom::new();
        let Some(row) = room.fill(dict) else {
            return Quick::NeedsCare;
        };
        let stored = self.with_stream(|stream| {
            let table = stream.key_sets(group).find(row.addresses)?;
            // A step that goes back is worth a warning, which the long way gives.
            if stream.goes_back(table, step) {
                return None;
            }
            let step = stream.step_or_next(step);
            Some(stream.append(table, Some(step), row.values))
        });
        match stored.flatten() {
            Some(true) => Quick::Stored,
            Some(false) => {
                self.count_lost_call();
                Quick::Lost
            }
            None => Quick::NeedsCare,
        }
    }

    /// What is due after a row that took the quick way, stored or lost.
    #[inline]
    pub(crate) fn after_quick_row(&self, py: Python<'_>, quick: Quick) -> PyResult<()> {
        if quick == Quick::Lost {
            self.say_loss(py)?;
        }
        self.settle(py, false)
    }

    /// Stores what was found in any dictionary.
    #[cold]
    pub(crate) fn log_found(
        &self,
        py: Python<'_>,
        group: &str,
        found: Found,
        step: Option<i64>,
    ) -> PyResult<()> {
        if self.is_finished() {
            self.count_lost_call();
            return report(
                py,
                "log: the run is finished; values logged after its end are not stored",
            );
        }
        let time_nanos = monotonic_nanos();
        let outcome = self.store(|stream| {
            let mut refused = Vec::new();
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
            let asked = step;
            let step = Some(stream.step_or_next(step));
            let table = stream.append_named(group, time_nanos, step, &names, &values);
            let restart = table.and_then(|table| stream.note_step(table, asked));
            if let (Some(table), Some(keys), true) = (table, found.keys, refused.is_empty()) {
                stream.key_sets(group).remember(keys, table);
            }
            (step, refused, stream.is_losing(), restart)
        });
        let Some((step, refused, is_losing, restart)) = outcome else {
            return Ok(());
        };
        for (name, number) in found.on_device {
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
            warn_once(
                py,
                &format!(
                    "log: the step went back from {before} to {now}; every point is kept, but their steps are the same as before. Give a step that counts on, such as epoch * len(loader) + step"
                ),
            )?;
        }
        for (name, what) in found.unusable {
            report(
                py,
                &format!("log: the value of {name:?} is {what}, not a number; it is left out"),
            )?;
        }
        if is_losing {
            self.say_loss(py)?;
        }
        self.settle(py, false)
    }

    #[cold]
    fn say_loss(&self, py: Python<'_>) -> PyResult<()> {
        let reason = self.with_stream(|stream| stream.dropped().1.map(str::to_owned));
        let reason = reason.flatten().unwrap_or_default();
        report(
            py,
            &format!(
                "points are being lost: {reason}; training goes on, and the loss is counted in the run"
            ),
        )
    }
}

fn as_strings(texts: BTreeMap<Text, Text>) -> BTreeMap<String, String> {
    let pairs = texts.into_iter();
    pairs.map(|(key, value)| (key.0, value.0)).collect()
}

/// A step argument; one that cannot be used is reported, and the next step taken.
#[inline]
pub(crate) fn step_of(what: &str, step: Option<&Bound<'_, PyAny>>) -> PyResult<Option<i64>> {
    let Some(step) = step else {
        return Ok(None);
    };
    match number::read_step(step) {
        Ok(step) => Ok(Some(step)),
        Err(wrong) => {
            report(
                step.py(),
                &format!("{what}: the step is {wrong}; the values are stored under the next step"),
            )?;
            Ok(None)
        }
    }
}

/// A run that this process adds to.
#[pyclass(frozen, subclass, module = "nilometer._native")]
pub(crate) struct Run {
    pub(crate) shared: Arc<Shared>,
}

#[pymethods]
impl Run {
    /// Joins the run in a folder, or is a run that stores nothing.
    #[new]
    #[pyo3(signature = (path=None))]
    fn new(path: Option<PathBuf>) -> PyResult<Run> {
        let sink = match &path {
            Some(path) => {
                let folder = RunFolder::open(path).map_err(os_error)?;
                Sink::Open(Box::new(Stream::open(folder.path()).map_err(os_error)?))
            }
            None => Sink::Nowhere,
        };
        Ok(Run {
            shared: Arc::new(Shared {
                path: path.map(|path| std::path::absolute(&path).unwrap_or(path)),
                sink: Mutex::new(sink),
                pending: Mutex::default(),
                has_pending: AtomicBool::new(false),
                is_finished: AtomicBool::new(false),
                lost_calls: AtomicU64::new(0),
                owned: Mutex::new(None),
                trackers: Mutex::default(),
            }),
        })
    }

    /// Makes a folder for a run of this process and gives its path, whether it was made now (another rank may have done so),
    /// and the reason why it is not below `root` when it is not. With `inside` it becomes a run of that job.
    #[staticmethod]
    #[pyo3(signature = (root, name, command, tags, *, inside=None, resumes=None, ranks=None, program="{}"))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a private function"
    )]
    fn make_folder(
        py: Python<'_>,
        root: PathBuf,
        name: Option<Text>,
        command: Vec<Text>,
        tags: BTreeMap<Text, Text>,
        inside: Option<PathBuf>,
        resumes: Option<&str>,
        ranks: Option<Text>,
        program: &str,
    ) -> PyResult<(PathBuf, bool, Option<String>)> {
        decide_privacy();
        let name = name.as_deref();
        let command: Vec<String> = command.into_iter().map(|word| word.0).collect();
        let tags = as_strings(tags);
        let file = command.first().map_or("python", |first| {
            let file = first.rsplit('/').next().unwrap_or(first);
            [".py", ".ipynb"]
                .iter()
                .find_map(|ending| file.strip_suffix(ending))
                .unwrap_or(file)
        });
        let mut description = describe_run("python", command.clone(), name.unwrap_or(file), tags);
        description.name = name.map(str::to_owned);
        description.resumes = resumes.and_then(|id| id.parse().ok());
        let told: Provenance =
            serde_json::from_str(program).map_err(|error| value_error(error.to_string()))?;
        let mut provenance = Provenance {
            python: told.python,
            packages: told.packages,
            gpus: told.gpus,
            ..description.provenance.take().unwrap_or_default()
        };
        let made = py.detach(|| {
            add_dirty_flag(&mut provenance);
            description.provenance = Some(provenance);
            begin_folder(&root, inside.as_deref(), ranks.as_deref(), &mut description)
        });
        let (folder, is_new, refused) = made.map_err(os_error)?;
        let path = std::path::absolute(folder.path()).unwrap_or(folder.path().to_owned());
        Ok((path, is_new, refused.map(|error| sentence(&error))))
    }

    /// The job that a run lies in, or the run itself.
    #[staticmethod]
    fn job_of(path: PathBuf) -> PyResult<PathBuf> {
        let folder = RunFolder::open(&path).map_err(os_error)?;
        Ok(folder.job().map_or(path, |job| job.path().to_owned()))
    }

    /// Becomes the one who ends this run, and records the process's memory every `interval_secs` until then,
    /// that of other ranks in the run too.
    #[pyo3(signature = (interval_secs=None))]
    fn own(&self, interval_secs: Option<f64>) -> PyResult<()> {
        let Some(path) = &self.shared.path else {
            return Ok(());
        };
        let folder = RunFolder::open(path).map_err(os_error)?;
        let description = folder.describe().map_err(os_error)?;
        let recorder = interval_secs
            .map(|secs| {
                let nanos = (secs * 1e9) as u64;
                record_own_process(&folder, description.clone(), nanos, |_| {})
            })
            .transpose();
        let mut owned = Ownership {
            pid: std::process::id(),
            folder,
            description,
            recorder: None,
        };
        let outcome = match recorder {
            Ok(recorder) => {
                owned.recorder = recorder;
                Ok(())
            }
            // The metrics are recorded all the same.
            Err(error) => Err(os_error(error)),
        };
        *lock(&self.shared.owned) = Some(owned);
        outcome
    }

    /// The run's folder; None when nothing is stored.
    #[getter]
    fn path(&self) -> Option<&Path> {
        self.shared.path.as_deref()
    }

    /// Stores numbers under their names, with a step.
    #[pyo3(signature = (values, step=None))]
    fn log(&self, values: &Bound<'_, PyAny>, step: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let py = values.py();
        let step = step_of("log", step)?;
        if let Ok(dict) = values.cast::<PyDict>() {
            let quick = self.shared.log_quickly(METRICS, dict, step);
            if quick != Quick::NeedsCare {
                return self.shared.after_quick_row(py, quick);
            }
        }
        match as_dict(values) {
            Some(dict) => self.shared.log_found(py, METRICS, flatten(&dict)?, step),
            None => report(
                py,
                "log: the values are not a dictionary of names and numbers",
            ),
        }
    }

    /// The step that training is at; phases and memory readings carry it from here on.
    fn set_step(&self, step: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let step = match step {
            None => None,
            Some(step) => match number::read_step(step) {
                Ok(step) => Some(step),
                Err(what) => return report(step.py(), &format!("set_step: the step is {what}")),
            },
        };
        self.shared.with_stream(|stream| stream.step = step);
        Ok(())
    }

    /// The step that training is at, if somebody said so.
    #[getter]
    fn step(&self) -> Option<i64> {
        self.shared.with_stream(|stream| stream.step).flatten()
    }

    /// The step that training has come to, by what was said or stored last.
    #[getter]
    fn newest_step(&self) -> Option<i64> {
        self.shared
            .with_stream(|stream| stream.newest_step())
            .flatten()
    }

    /// Sets a mark.
    fn mark(&self, py: Python<'_>, text: Text) -> PyResult<()> {
        self.event(py, &Event::Mark { text: text.0 })
    }

    /// Adds settings: a flat JSON object.
    fn add_config(&self, py: Python<'_>, json: &str) -> PyResult<()> {
        let values = serde_json::from_str(json).map_err(|error| value_error(error.to_string()))?;
        self.event(py, &Event::Config { values })
    }

    /// Stores a reading of a GPU's memory; None is not measured.
    fn torch_memory(&self, device: u32, values: [Option<f64>; 6]) {
        let values = values.map(|value| value.unwrap_or(ABSENT));
        self.shared.store(|stream| {
            let (table, step) = (stream.torch_memory(device), stream.step);
            stream.append(table, step, &values)
        });
    }

    /// Stores a phase that took so many seconds and has just ended.
    fn phase(&self, name: Text, seconds: f64) {
        self.shared.store(|stream| {
            let (table, step) = (stream.phase(&name), stream.step);
            stream.append(table, step, &[(seconds * 1e9).round()])
        });
    }

    /// Calls of this process whose values could not be stored, each counted once; those after the run's end are among them.
    #[getter]
    fn dropped(&self) -> u64 {
        self.shared.lost_calls.load(Ordering::Relaxed)
    }

    /// Bytes of this process's stream so far, before compaction.
    #[getter]
    fn bytes_written(&self) -> u64 {
        let bytes = self.shared.with_stream(|stream| stream.bytes_written());
        bytes.unwrap_or(0)
    }

    /// The name of this process's stream, such as `python-4711`.
    #[getter]
    fn stream_name(&self) -> Option<String> {
        self.shared.with_stream(|stream| stream.name().to_owned())
    }

    /// Whether the run has ended for this process.
    #[getter]
    fn finished(&self) -> bool {
        self.shared.is_finished()
    }

    /// The latest memory reading of this process's own recorder: bytes, peak bytes, limit bytes.
    fn memory(&self) -> Option<(u64, u64, Option<u64>)> {
        let owned = lock(&self.shared.owned);
        let live = owned.as_ref()?.recorder.as_ref()?.live();
        Some((live.memory_bytes, live.peak_bytes, live.limit_bytes))
    }

    /// Ends this process's part of the run, and the run itself when this process made it. Waits for values still on a device.
    /// With `at_exit` the run ends with the process, whose exit status it is given.
    #[pyo3(signature = (exit_code=None, *, at_exit=false))]
    fn finish(&self, py: Python<'_>, exit_code: Option<i32>, at_exit: bool) -> PyResult<()> {
        let outcome = self.shared.settle(py, true);
        self.shared.is_finished.store(true, Ordering::Relaxed);
        let sink = std::mem::replace(&mut *lock(&self.shared.sink), Sink::Nowhere);
        let owned = lock(&self.shared.owned).take();
        py.detach(|| {
            drop(sink);
            match owned {
                Some(owned) if at_exit && exit_code.is_none() => {
                    with_exit_status(move |status| owned.end(status));
                }
                Some(owned) => owned.end(exit_code),
                None => {}
            }
        });
        outcome
    }
}

impl Ownership {
    fn end(self, exit_code: Option<i32>) {
        if self.pid != std::process::id() {
            return;
        }
        if let Some(recorder) = self.recorder {
            recorder.stop(exit_code);
            return;
        }
        let mut description = self.description;
        let started = description.started_monotonic_nanos;
        description.ending = Some(Ending {
            status: RunStatus::Exited,
            exit_code,
            signal: None,
            time_nanos: monotonic_nanos().saturating_sub(started),
            oom: None,
            left_running: Vec::new(),
        });
        self.folder.write_description(&description).ok();
    }
}

impl Run {
    fn event(&self, py: Python<'_>, event: &Event) -> PyResult<()> {
        match self.shared.store(|stream| stream.event(event)) {
            Some(false) => self.shared.say_loss(py),
            _ => Ok(()),
        }
    }
}

fn explain(name: &str, refusal: &Refusal) -> String {
    match refusal {
        Refusal::TooMany => format!(
            "log: more than {MOST_NAMES} different names were logged; further names are left out (put what varies into the value or the step, not into the name)"
        ),
        Refusal::TooLong => {
            let start: String = name.chars().take(40).collect();
            format!("log: the name {start:?}… is longer than {LONGEST_NAME} bytes; it is left out")
        }
        Refusal::Empty => "log: a name is empty; its value is left out".to_owned(),
    }
}

static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The run that a class adds to: a given one, or whichever is current when the first point comes.
pub(crate) struct Destination {
    given: Option<Arc<Shared>>,
    found: Mutex<Option<Arc<Shared>>>,
}

impl Destination {
    pub(crate) fn new(run: Option<&Run>) -> Destination {
        Destination {
            given: run.map(|run| Arc::clone(&run.shared)),
            found: Mutex::new(None),
        }
    }

    /// The run; asks `nilometer.run.current_run` when there is none or the last one has ended.
    #[inline]
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Arc<Shared>> {
        if let Some(shared) = &self.given {
            return Ok(Arc::clone(shared));
        }
        if let Some(shared) = &*lock(&self.found)
            && !shared.is_finished()
        {
            return Ok(Arc::clone(shared));
        }
        self.find(py)
    }

    #[cold]
    fn find(&self, py: Python<'_>) -> PyResult<Arc<Shared>> {
        let current = CURRENT.get_or_try_init(py, || {
            let module = py.import("nilometer.run")?;
            PyResult::Ok(module.getattr("current_run")?.unbind())
        })?;
        let run = current.call0(py)?;
        let run = run.bind(py).cast::<Run>()?.get();
        *lock(&self.found) = Some(Arc::clone(&run.shared));
        Ok(Arc::clone(&run.shared))
    }
}
