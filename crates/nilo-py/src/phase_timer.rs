//! Named stretches of time: the native half of `TrainingTimer`.
//!
//! A start and a stop are two clock readings and one row. Phases nest: what starts while another is open is called `outer/inner`.
//! Each thread and each asyncio task has its own open phases: those of others neither nest nor collide with them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nilo_analysis::bottleneck::{TimedPhase, find_bottleneck};
use nilo_runfile::{TableId, monotonic_nanos};
use nilo_sample::TypedRow;
use nilo_sample::rows::{GpuPhaseRow, PhaseRow, SampledPhaseRow};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::destination::Destination;
use crate::run::Run;
use crate::series::{Series, SeriesStatistics, summary_dict};
use crate::shared::SharedRun;
use crate::stream::Stream;
use crate::text::{Text, text_of};
use crate::thread_or_task::ThreadOrTask;
use crate::trouble::report;

/// Phases open at once; more is a start that is never stopped.
const MOST_OPEN: usize = 64;
/// Threads and tasks with open phases at once; more are tasks that were given up.
const MOST_STRANDS: usize = 10_000;
/// Distinct phases.
const MOST_PHASES: usize = 1_000;

const EMPTY_NAME: &str = "its name is empty";

/// The duration of a phase that somebody else timed, in nanoseconds; or why it is left out.
pub(crate) fn nanos_of_phase(name: &str, seconds: f64) -> Result<f64, String> {
    let nanos = (seconds * 1e9).round();
    let problem = match () {
        () if name.is_empty() => EMPTY_NAME.to_owned(),
        () if nanos.is_finite() && nanos >= 0.0 => return Ok(nanos),
        () if seconds < 0.0 => format!("duration is negative ({seconds} s)"),
        () => format!("duration is not a finite number ({seconds} s)"),
    };
    Err(format!("phase {name:?}: {problem}; it is left out"))
}

struct Open {
    /// Position in `phases`.
    phase: usize,
    started_nanos: u64,
}

/// A phase that somebody else timed; without a step it is the one that training is at.
pub(crate) struct Timed {
    pub(crate) name: &'static str,
    pub(crate) nanos: u64,
    pub(crate) ended_nanos: u64,
    pub(crate) step: Option<i64>,
    /// How many steps it stands for, where only some are timed.
    pub(crate) weight: u64,
}

/// A duration to keep.
struct Duration {
    nanos: f64,
    ended_nanos: u64,
    step: Option<i64>,
    weight: u64,
    peak: Option<PeakBounds>,
}

/// The most GPU memory in tensors during a phase: at least and at most, in bytes; known where both are the same.
#[derive(Clone, Copy, FromPyObject)]
struct PeakBounds(f64, f64);

struct Phase {
    name: String,
    /// The name with those of the phases around it.
    path: String,
    seconds: Series,
    /// All of them together, those that they stand for too.
    total_secs: f64,
    /// How often it ran, timed or not.
    represented_count: u64,
    /// Phases seen inside this one.
    inner: Vec<usize>,
    /// Where its rows go, and in which stream.
    table: Option<(u64, TableId)>,
    /// Where those go that stand for several.
    sampled_table: Option<(u64, TableId)>,
    /// Where those go that have the GPU's memory.
    gpu_table: Option<(u64, TableId)>,
    /// The peak of all of them.
    peak: Option<PeakBounds>,
}

#[derive(Default)]
struct TimedPhases {
    /// What is open, by who opened it; nobody with nothing.
    open: Vec<(ThreadOrTask, Vec<Open>)>,
    phases: Vec<Phase>,
    /// Phases seen outside any other.
    outermost: Vec<usize>,
}

/// Times named phases of the training step on the CPU's clock.
#[pyclass(frozen, subclass, module = "nilometer._native")]
pub(crate) struct PhaseTimer {
    destination: Destination,
    phases: Mutex<TimedPhases>,
}

#[pymethods]
impl PhaseTimer {
    #[new]
    #[pyo3(signature = (run=None))]
    fn new(run: Option<&Bound<'_, Run>>) -> PhaseTimer {
        PhaseTimer {
            destination: Destination::new(run.map(Bound::get)),
            phases: Mutex::default(),
        }
    }

    /// Begins a phase.
    fn start(&self, name: &Bound<'_, PyString>) -> PyResult<()> {
        let text = text_of(name);
        let caller = ThreadOrTask::current(name.py());
        let problem = self.locked().open(caller, &text);
        match problem {
            None => Ok(()),
            Some(problem) => report(
                name.py(),
                &format!("start({text:?}): {problem}; it is not timed"),
            ),
        }
    }

    /// Ends a phase, the innermost one when no name is given, and says how many seconds it took.
    #[pyo3(signature = (name=None))]
    fn stop(&self, py: Python<'_>, name: Option<&Bound<'_, PyString>>) -> PyResult<f64> {
        let now = monotonic_nanos();
        let text = name.map(text_of);
        let run = self.destination.get(py)?;
        let caller = ThreadOrTask::current(py);
        let (seconds, unclosed) = {
            let mut phases = self.locked();
            let (closed, unclosed) = phases.close(caller, text.as_deref(), now);
            let seconds = closed.map(|(phase, nanos)| {
                let duration = Duration {
                    nanos: nanos as f64,
                    ended_nanos: now,
                    step: None,
                    weight: 1,
                    peak: None,
                };
                phases.store(phase, &duration, &run)
            });
            (seconds, unclosed)
        };
        if !unclosed.is_empty() {
            let inner = unclosed.join(", ");
            report(
                py,
                &format!("stop: {inner} was still open inside; it is not timed"),
            )?;
        }
        if let Some(seconds) = seconds {
            return Ok(seconds);
        }
        let what = text.map_or("no phase is open".to_owned(), |text| {
            format!("{text:?} was not started")
        });
        report(py, &format!("stop: {what}"))?;
        Ok(0.0)
    }

    /// Times a block: `with timer.phase("forward"):`.
    fn phase(this: Py<PhaseTimer>, name: Py<PyString>) -> PhaseBlock {
        PhaseBlock { timer: this, name }
    }

    /// Gives up a phase, and whatever is open inside it: nothing is stored.
    fn cancel(&self, py: Python<'_>, name: Text) {
        let caller = ThreadOrTask::current(py);
        self.locked().close(caller, Some(&name), 0);
    }

    /// Adds a phase that somebody else timed; nested below what is open. Without a step it is the one that training is at.
    /// `weight` is the number of steps that it stands for, where only some are timed.
    /// `peak_bytes` is the peak of GPU memory in tensors while it ran, at least and at most.
    #[pyo3(signature = (name, seconds, step=None, weight=1, *, peak_bytes=None))]
    fn add(
        &self,
        py: Python<'_>,
        name: Text,
        seconds: f64,
        step: Option<i64>,
        weight: u64,
        peak_bytes: Option<PeakBounds>,
    ) -> PyResult<()> {
        let nanos = match nanos_of_phase(&name, seconds) {
            Ok(nanos) => nanos,
            Err(problem) => return report(py, &problem),
        };
        let run = self.destination.get(py)?;
        let caller = ThreadOrTask::current(py);
        let mut phases = self.locked();
        if let Some(phase) = phases.find(caller, &name) {
            let duration = Duration {
                nanos,
                ended_nanos: monotonic_nanos(),
                step,
                weight,
                peak: peak_bytes,
            };
            phases.store(phase, &duration, &run);
        }
        Ok(())
    }

    /// The step that training is at.
    fn current_step(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        let run = self.destination.get(py)?;
        Ok(run.with_stream(|stream| stream.step).flatten())
    }

    /// The full name that a phase started now would have.
    fn path_of(&self, py: Python<'_>, name: Text) -> String {
        let caller = ThreadOrTask::current(py);
        self.locked().path(caller, &name)
    }

    /// The part of the step to look at first: `part`, `phase`, `share`, `text` and `advice`; None where its parts were not timed.
    fn get_bottleneck<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let found = {
            let phases = self.locked();
            find_bottleneck(phases.phases.iter().map(|phase| TimedPhase {
                name: &phase.path,
                total_secs: phase.total_secs,
                count: phase.represented_count,
            }))
        };
        let Some(found) = found else {
            return Ok(None);
        };
        let dict = PyDict::new(py);
        dict.set_item("part", found.part.as_str())?;
        dict.set_item("phase", found.phase)?;
        dict.set_item("share", found.share_ratio)?;
        dict.set_item("text", found.text)?;
        dict.set_item("advice", found.advice)?;
        Ok(Some(dict))
    }

    /// For each phase its count, and mean, std, min, max, p50, p95 and total in seconds; on a GPU also its peak in bytes, at least and at most.
    fn get_summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for phase in &self.locked().phases {
            if phase.seconds.len() == 0 {
                continue;
            }
            let seconds = phase.seconds.last(None);
            let shares = [("p50", 0.5), ("p95", 0.95)];
            let summary = summary_dict(py, &SeriesStatistics::of(seconds), "_sec", &shares)?;
            summary.set_item("total_sec", phase.total_secs)?;
            if let Some(PeakBounds(at_least, at_most)) = phase.peak {
                summary.set_item("peak_at_least_bytes", at_least as u64)?;
                summary.set_item("peak_at_most_bytes", at_most as u64)?;
            }
            all.set_item(&phase.path, summary)?;
        }
        Ok(all)
    }

    /// Forgets what was timed so far; the run keeps it.
    fn reset(&self) {
        *self.locked() = TimedPhases::default();
    }
}

/// A block that is being timed.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct PhaseBlock {
    timer: Py<PhaseTimer>,
    name: Py<PyString>,
}

#[pymethods]
impl PhaseBlock {
    fn __enter__(&self, py: Python<'_>) -> PyResult<()> {
        self.timer.get().start(self.name.bind(py))
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let name = self.name.bind(py);
        if !name.is_empty()? {
            self.timer.get().stop(py, Some(name))?;
        }
        Ok(())
    }
}

impl PhaseTimer {
    /// Adds phases that somebody else timed. Runs no Python code, so that locks may be held meanwhile.
    pub(crate) fn add_all(&self, run: &SharedRun, timed: impl Iterator<Item = Timed>) {
        let mut phases = self.locked();
        for timed in timed {
            if let Some(phase) = phases.find(ThreadOrTask::of_thread(), timed.name) {
                let duration = Duration {
                    nanos: timed.nanos as f64,
                    ended_nanos: timed.ended_nanos,
                    step: timed.step,
                    weight: timed.weight,
                    peak: None,
                };
                phases.store(phase, &duration, run);
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, TimedPhases> {
        self.phases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TimedPhases {
    /// The innermost phase that is open.
    fn innermost(&self, caller: ThreadOrTask) -> Option<usize> {
        let (_, open) = self.open.iter().find(|(owner, _)| *owner == caller)?;
        open.last().map(|open| open.phase)
    }

    fn path(&self, caller: ThreadOrTask, name: &str) -> String {
        match self.innermost(caller) {
            Some(outer) => format!("{}/{name}", self.phases[outer].path),
            None => name.to_owned(),
        }
    }

    /// The phase's place; `None` when there are too many.
    fn find(&mut self, caller: ThreadOrTask, name: &str) -> Option<usize> {
        let outer = self.innermost(caller);
        let siblings = match outer {
            Some(outer) => &self.phases[outer].inner,
            None => &self.outermost,
        };
        let known = siblings
            .iter()
            .find(|sibling| self.phases[**sibling].name == name);
        if let Some(known) = known {
            return Some(*known);
        }
        if self.phases.len() >= MOST_PHASES {
            return None;
        }
        let place = self.phases.len();
        self.phases.push(Phase {
            name: name.to_owned(),
            path: self.path(caller, name),
            seconds: Series::default(),
            total_secs: 0.0,
            represented_count: 0,
            inner: Vec::new(),
            table: None,
            sampled_table: None,
            gpu_table: None,
            peak: None,
        });
        match outer {
            Some(outer) => self.phases[outer].inner.push(place),
            None => self.outermost.push(place),
        }
        Some(place)
    }

    /// Begins a phase, or says why not.
    fn open(&mut self, caller: ThreadOrTask, name: &str) -> Option<String> {
        if name.is_empty() {
            return Some(EMPTY_NAME.to_owned());
        }
        let mine = self.open.iter().find(|(owner, _)| *owner == caller);
        let open = mine.map_or(&[][..], |(_, open)| open);
        if open.len() >= MOST_OPEN {
            return Some(format!("more than {MOST_OPEN} phases are open"));
        }
        if open.iter().any(|open| self.phases[open.phase].name == name) {
            return Some("it is already running".to_owned());
        }
        if self.open.len() >= MOST_STRANDS {
            return Some(format!(
                "phases of more than {MOST_STRANDS} threads and tasks are open"
            ));
        }
        let Some(phase) = self.find(caller, name) else {
            return Some(format!("more than {MOST_PHASES} different phases"));
        };
        let begun = Open {
            phase,
            started_nanos: monotonic_nanos(),
        };
        match self.open.iter_mut().find(|(owner, _)| *owner == caller) {
            Some((_, open)) => open.push(begun),
            None => self.open.push((caller, vec![begun])),
        }
        None
    }

    /// Ends a phase and whatever is open inside it; gives its place and duration, and the names of the inner ones.
    fn close(
        &mut self,
        caller: ThreadOrTask,
        name: Option<&str>,
        now: u64,
    ) -> (Option<(usize, u64)>, Vec<String>) {
        let Some(mine) = self.open.iter().position(|(owner, _)| *owner == caller) else {
            return (None, Vec::new());
        };
        let open = &mut self.open[mine].1;
        let index = match name {
            Some(name) => open
                .iter()
                .rposition(|open| self.phases[open.phase].name == name),
            None => open.len().checked_sub(1),
        };
        let Some(index) = index else {
            return (None, Vec::new());
        };
        let inner = open.drain(index + 1..);
        let unclosed = inner
            .map(|open| self.phases[open.phase].name.clone())
            .collect();
        let closed = open
            .pop()
            .map(|open| (open.phase, now.saturating_sub(open.started_nanos)));
        if open.is_empty() {
            self.open.swap_remove(mine);
        }
        (closed, unclosed)
    }

    /// Keeps a duration, here and in the run; gives it in seconds.
    fn store(&mut self, phase: usize, duration: &Duration, run: &SharedRun) -> f64 {
        let phase = &mut self.phases[phase];
        let seconds = duration.nanos / 1e9;
        phase.seconds.push(seconds);
        phase.total_secs += seconds * duration.weight as f64;
        phase.represented_count = phase.represented_count.saturating_add(duration.weight);
        if let Some(PeakBounds(at_least, at_most)) = duration.peak {
            let PeakBounds(least, most) = phase.peak.unwrap_or(PeakBounds(0.0, 0.0));
            phase.peak = Some(PeakBounds(least.max(at_least), most.max(at_most)));
        }
        run.store(|stream| {
            let (known, define): (_, fn(&mut Stream, &str) -> TableId) =
                match (duration.peak, duration.weight) {
                    (Some(_), _) => (&mut phase.gpu_table, Stream::gpu_phase),
                    (None, ..=1) => (&mut phase.table, Stream::phase),
                    (None, _) => (&mut phase.sampled_table, Stream::sampled_phase),
                };
            let table = match known {
                Some((id, table)) if *id == stream.id() => *table,
                _ => {
                    let table = define(stream, &phase.path);
                    *known = Some((stream.id(), table));
                    table
                }
            };
            let step = duration.step.or(stream.step);
            let (ended_nanos, duration_nanos) = (duration.ended_nanos, duration.nanos);
            let weight = duration.weight as f64;
            if let Some(PeakBounds(peak_at_least_bytes, peak_at_most_bytes)) = duration.peak {
                let row = GpuPhaseRow {
                    duration_nanos,
                    weight,
                    peak_at_least_bytes,
                    peak_at_most_bytes,
                };
                stream.append_at(table, ended_nanos, step, &row.values())
            } else if duration.weight > 1 {
                let row = SampledPhaseRow {
                    duration_nanos,
                    weight,
                };
                stream.append_at(table, ended_nanos, step, &row.values())
            } else {
                let row = PhaseRow { duration_nanos };
                stream.append_at(table, ended_nanos, step, &row.values())
            }
        });
        seconds
    }
}
