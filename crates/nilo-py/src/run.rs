//! A run as the program sees it: `log`, marks, settings, the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use nilo_recorder::{
    RunsRoot, add_dirty_flag, describe_run, record_own_process, stand_by, stored_message,
    stored_settings,
};
use nilo_runfile::RunFolder;
use nilo_sample::rows::{PhaseRow, TorchMemoryRow};
use nilo_sample::{ABSENT, Event, Optimization, ProcessStatus, Provenance, RunMode, TypedRow};
use nilo_source::own_rank;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::attachment::{AttachmentSource, attach};
use crate::errors::{os_error, sentence, value_error};
use crate::exit_status::with_exit_status;
use crate::flatten::{as_dict, flatten};
use crate::number;
use crate::phase_timer::nanos_of_phase;
use crate::project::{decide_privacy, decide_privacy_once};
use crate::rank_end::RankEnd;
use crate::run_folder::begin_folder;
use crate::shared::{
    METRICS, Ownership, QuickOutcome, RunEnd, SharedRun, Sink, Standby, correct_end, lock,
};
use crate::stream::{RowStep, Stream};
use crate::termination::EndsBySigterm;
use crate::text::{Text, text_of};
use crate::trouble::report;

/// How a run ends whose recording process is ended by SIGTERM.
const ENDED_BY_SIGTERM: Event = Event::CommandEnded {
    cpu_nanos: None,
    exit_code: None,
    signal: Some(libc::SIGTERM),
    peak_bytes: None,
};

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
    pub(crate) shared: Arc<SharedRun>,
}

#[pymethods]
impl Run {
    /// Joins the run in a folder, or is a run that stores nothing; with `is_lost`, because it could not be stored.
    #[new]
    #[pyo3(signature = (path=None, *, is_lost=false))]
    fn new(path: Option<PathBuf>, is_lost: bool) -> PyResult<Run> {
        let sink = match &path {
            Some(path) => {
                let folder = RunFolder::open(path).map_err(os_error)?;
                Sink::Open(Box::new(Stream::open(folder.path()).map_err(os_error)?))
            }
            None => Sink::Nowhere,
        };
        Ok(Run {
            shared: Arc::new(SharedRun {
                path: path.map(|path| std::path::absolute(&path).unwrap_or(path)),
                is_lost,
                sink: Mutex::new(sink),
                pending: Mutex::default(),
                has_pending: AtomicBool::new(false),
                is_finished: AtomicBool::new(false),
                lost_calls: AtomicU64::new(0),
                owned: Mutex::new(None),
                standby: Mutex::new(None),
                rank_end: Mutex::new(None),
                trackers: Mutex::default(),
            }),
        })
    }

    /// Makes a folder for a run of this process and gives its path, whether it was made now (another rank may have done so),
    /// and the reason why it is not below `root` when it is not. With `inside` it becomes a run of that job;
    /// `started_by_job` is the id of the job that this process has outlived.
    #[staticmethod]
    #[pyo3(signature = (root, name, command, tags, *, is_named=false, inside=None, started_by_job=None, resumes=None, ranks=None, program="{}"))]
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
        is_named: bool,
        inside: Option<PathBuf>,
        started_by_job: Option<&str>,
        resumes: Option<&str>,
        ranks: Option<(Text, bool)>,
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
        let mut description =
            describe_run(RunMode::Python, command.clone(), name.unwrap_or(file), tags);
        description.name = name.map(stored_message);
        description.resumes = resumes.and_then(|id| id.parse().ok());
        description.started_by_job = started_by_job.and_then(|id| id.parse().ok());
        let told: Provenance =
            serde_json::from_str(program).map_err(|error| value_error(error.to_string()))?;
        let mut provenance = Provenance {
            python: told.python,
            packages: told.packages,
            gpus: told.gpus,
            ..description.provenance.take().unwrap_or_default()
        };
        if ranks.is_some() {
            provenance.rank = None;
        }
        let root = match is_named {
            true => RunsRoot::Named(&root),
            false => RunsRoot::Configured(&root),
        };
        let made = py.detach(|| {
            add_dirty_flag(&mut provenance);
            description.provenance = Some(provenance);
            let ranks = ranks
                .as_ref()
                .map(|(text, is_unique)| (&**text, *is_unique));
            begin_folder(root, inside.as_deref(), ranks, &mut description)
        });
        let (folder, is_new, refused) = made.map_err(|error| match root.refusal(&error) {
            Some(why) => value_error(format!("dir cannot hold runs: {why}")),
            None => os_error(error),
        })?;
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
    /// that of other ranks in the run too. A SIGTERM that ends the process is the run's end, and is recorded.
    #[pyo3(signature = (interval_secs=None))]
    fn own(&self, py: Python<'_>, interval_secs: Option<f64>) -> PyResult<()> {
        let Some(path) = &self.shared.path else {
            return Ok(());
        };
        let folder = RunFolder::open(path).map_err(os_error)?;
        let description = folder.describe().map_err(os_error)?;
        let recorder = interval_secs
            .map(|secs| {
                let nanos = (secs * 1e9) as u64;
                py.detach(|| record_own_process(&folder, description.clone(), nanos, |_| {}))
            })
            .transpose();
        let mut owned = Ownership {
            pid: std::process::id(),
            folder,
            description,
            recorder: None,
            by_sigterm: EndsBySigterm::watch(path, &ENDED_BY_SIGTERM),
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

    /// Records the memory of the run's ranks on this machine every `interval_secs` from when the rank that does so is gone.
    fn stand_by(&self, interval_secs: f64) -> PyResult<()> {
        let Some(path) = self.shared.path.clone() else {
            return Ok(());
        };
        let folder = RunFolder::open(&path).map_err(os_error)?;
        let by_sigterm = Arc::new(Mutex::new(None));
        let watched = Arc::clone(&by_sigterm);
        let on_takeover = move || *lock(&watched) = EndsBySigterm::watch(&path, &ENDED_BY_SIGTERM);
        let nanos = (interval_secs * 1e9) as u64;
        let recorder = stand_by(&folder, nanos, on_takeover).map_err(os_error)?;
        *lock(&self.shared.standby) = Some(Standby {
            recorder,
            by_sigterm,
        });
        Ok(())
    }

    /// Says that this run continues another one, by its id; nothing where another process made this run.
    fn set_resumed(&self, id: &str) {
        if let (Some(owned), Ok(id)) = (&mut *lock(&self.shared.owned), id.parse()) {
            owned.set_resumed(id);
        }
    }

    /// Tells the run when this process fails, if it is a rank: whoever made the run knows only of itself.
    fn tell_rank_end(&self) {
        if let (Some(path), Some(place)) = (&self.shared.path, own_rank()) {
            *lock(&self.shared.rank_end) = Some(RankEnd::watch(path, place.rank));
        }
    }

    /// Records the memory of this machine's other ranks too, also of those that do not add to the run.
    fn watch_local_ranks(&self) {
        let owned = lock(&self.shared.owned);
        if let Some(recorder) = owned.as_ref().and_then(|owned| owned.recorder.as_ref()) {
            recorder.watch_local_ranks();
        }
        if let Some(standby) = &*lock(&self.shared.standby) {
            standby.recorder.watch_local_ranks();
        }
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
        let step = RowStep::Logged(step_of("log", step)?);
        if let Ok(dict) = values.cast::<PyDict>() {
            let quick = self.shared.log_quickly(METRICS, dict, step);
            if quick != QuickOutcome::NeedsCare {
                return self.shared.after_quick_row(py, quick);
            }
        }
        match as_dict(values) {
            Some(dict) => {
                let row = (step, flatten(&dict)?);
                self.shared.log_found(py, METRICS, vec![row])
            }
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

    /// Sets a mark. What is no text, such as the number of an epoch, is written as `str` writes it.
    fn mark(&self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<()> {
        decide_privacy_once();
        let text = stored_message(&text_of(&text.str()?));
        self.event(py, &Event::Mark { text })
    }

    /// Attaches a file or bytes under a name. Wrong names and media types raise.
    fn attach_source(
        &self,
        py: Python<'_>,
        source: AttachmentSource,
        name: &str,
        media_type: &str,
    ) -> PyResult<()> {
        attach(py, &self.shared, &source, name, media_type)
    }

    /// Adds settings: a flat JSON object. Its secrets are hidden.
    fn add_config(&self, py: Python<'_>, json: &str) -> PyResult<()> {
        let values = serde_json::from_str(json).map_err(|error| value_error(error.to_string()))?;
        // A run that was joined, not begun here, has not asked yet.
        decide_privacy();
        let values = stored_settings(values);
        let rank = own_rank().map(|place| place.rank);
        self.event(py, &Event::Config { values, rank })
    }

    /// Adds what the program measured of itself: a JSON object of `nilo_advice::Facts`.
    fn add_facts(&self, py: Python<'_>, json: &str) -> PyResult<()> {
        let values = serde_json::from_str(json).map_err(|error| value_error(error.to_string()))?;
        let rank = own_rank().map(|place| place.rank);
        self.event(py, &Event::Facts { values, rank })
    }

    /// Adds an optimization that was tried: a JSON object of `nilo_sample::Optimization`.
    fn add_optimization(&self, py: Python<'_>, json: &str) -> PyResult<()> {
        let tried: Optimization =
            serde_json::from_str(json).map_err(|error| value_error(error.to_string()))?;
        self.event(py, &Event::Optimization(Box::new(tried)))
    }

    /// Stores a reading of a GPU's memory; None is not measured.
    #[pyo3(signature = (device, *, allocated_bytes, reserved_bytes, peak_allocated_bytes=None, peak_reserved_bytes=None, device_free_bytes=None, device_total_bytes=None, inactive_split_bytes=None, alloc_retries=None, ooms=None))]
    #[allow(clippy::too_many_arguments, reason = "Python names each of them")]
    fn torch_memory(
        &self,
        device: u32,
        allocated_bytes: f64,
        reserved_bytes: f64,
        peak_allocated_bytes: Option<f64>,
        peak_reserved_bytes: Option<f64>,
        device_free_bytes: Option<f64>,
        device_total_bytes: Option<f64>,
        inactive_split_bytes: Option<f64>,
        alloc_retries: Option<f64>,
        ooms: Option<f64>,
    ) {
        let row = TorchMemoryRow {
            allocated_bytes,
            reserved_bytes,
            peak_allocated_bytes: peak_allocated_bytes.unwrap_or(ABSENT),
            peak_reserved_bytes: peak_reserved_bytes.unwrap_or(ABSENT),
            device_free_bytes: device_free_bytes.unwrap_or(ABSENT),
            device_total_bytes: device_total_bytes.unwrap_or(ABSENT),
            inactive_split_bytes: inactive_split_bytes.unwrap_or(ABSENT),
            alloc_retries: alloc_retries.unwrap_or(ABSENT),
            ooms: ooms.unwrap_or(ABSENT),
            ..TorchMemoryRow::ABSENT
        };
        self.shared.store(|stream| {
            let (table, step) = (stream.torch_memory(device), stream.step);
            stream.append(table, step, &row.values())
        });
    }

    /// Stores a phase that took so many seconds and has just ended.
    fn phase(&self, py: Python<'_>, name: Text, seconds: f64) -> PyResult<()> {
        let duration_nanos = match nanos_of_phase(&name, seconds) {
            Ok(nanos) => nanos,
            Err(problem) => return report(py, &problem),
        };
        self.shared.store(|stream| {
            let (table, step) = (stream.phase(&name), stream.step);
            let row = PhaseRow { duration_nanos };
            stream.append(table, step, &row.values())
        });
        Ok(())
    }

    /// Calls of this process whose values could not be stored, each counted once; those after the run's end are among them.
    /// Where the run's folder was deleted, so are those since it was last seen, a second earlier at most.
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
        let own = owned.as_ref().and_then(|owned| owned.recorder.as_ref());
        let standby = lock(&self.shared.standby);
        let taken_over = || standby.as_ref().and_then(|it| it.recorder.live());
        let live = own.map(|own| own.live()).or_else(taken_over)?;
        Some((live.memory_bytes, live.peak_bytes, live.limit_bytes))
    }

    /// Ends the run when this process made it. What is logged until the process is gone is stored still.
    #[pyo3(signature = (exit_code=None))]
    fn end(&self, py: Python<'_>, exit_code: Option<i32>) {
        self.shared.tell_high_water();
        let part = self.shared.take_part();
        py.detach(|| part.end(RunEnd::Told(ProcessStatus::from_return_code(exit_code))));
    }

    /// Ends this process's part of the run, and the run itself when this process made it. Waits for values still on a device.
    /// With `at_exit` the run ends with the process, whose exit status it is given.
    /// With `is_interrupted` somebody stopped it, and whether that ends the process is not known yet.
    #[pyo3(signature = (exit_code=None, *, at_exit=false, is_interrupted=false))]
    fn finish(
        &self,
        py: Python<'_>,
        exit_code: Option<i32>,
        at_exit: bool,
        is_interrupted: bool,
    ) -> PyResult<()> {
        let outcome = self.shared.settle(py, true);
        let outcome = outcome.and(self.shared.say_if_deleted(py));
        self.shared.tell_high_water();
        self.shared.is_finished.store(true, Ordering::Relaxed);
        let sink = std::mem::replace(&mut *lock(&self.shared.sink), Sink::Nowhere);
        let part = self.shared.take_part();
        py.detach(|| {
            drop(sink);
            match at_exit && exit_code.is_none() && part.has_end() {
                true => with_exit_status(move |code| {
                    part.end(RunEnd::Told(ProcessStatus::from_return_code(code)));
                }),
                false => {
                    let status = ProcessStatus::from_return_code(exit_code);
                    part.end(match is_interrupted {
                        true => RunEnd::Interrupted(status),
                        false => RunEnd::Told(status),
                    });
                }
            }
        });
        outcome
    }

    /// How the run ended after all, where this process ended it with that exit code before.
    fn correct_end(&self, py: Python<'_>, exit_code_before: i32, exit_code: i32) {
        let Some(path) = &self.shared.path else {
            return;
        };
        let status = ProcessStatus::from_return_code(Some(exit_code));
        py.detach(|| correct_end(path, exit_code_before, status));
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
