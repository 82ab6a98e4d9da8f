//! Named stretches of time: the native half of `TrainingTimer`.
//!
//! A start and a stop are two clock readings and one row. Phases nest: what starts while another is open is called `outer/inner`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nilo_runfile::{TableId, monotonic_nanos};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::run::{Destination, Run, Shared};
use crate::series::{Series, Statistics, summary_dict};
use crate::text::Text;
use crate::trouble::report;

/// Phases open at once; more is a start that is never stopped.
const MOST_OPEN: usize = 64;
/// Distinct phases.
const MOST_PHASES: usize = 1_000;

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
}

struct Phase {
    name: String,
    /// The name with those of the phases around it.
    path: String,
    seconds: Series,
    /// Phases seen inside this one.
    inner: Vec<usize>,
    /// Where its rows go, and in which stream.
    table: Option<(u64, TableId)>,
}

#[derive(Default)]
struct Phases {
    open: Vec<Open>,
    phases: Vec<Phase>,
    /// Phases seen outside any other.
    outermost: Vec<usize>,
}

/// Times named phases of the training step on the CPU's clock.
#[pyclass(frozen, subclass, module = "nilometer._native")]
pub(crate) struct PhaseTimer {
    destination: Destination,
    phases: Mutex<Phases>,
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
        let text = name.to_string_lossy();
        let problem = self.locked().open(&text);
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
        let text = name.map(|name| name.to_string_lossy());
        let run = self.destination.get(py)?;
        let (seconds, unclosed) = {
            let mut phases = self.locked();
            let (closed, unclosed) = phases.close(text.as_deref(), now);
            let seconds =
                closed.map(|(phase, nanos)| phases.store(phase, nanos as f64, now, None, &run));
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
    fn cancel(&self, name: Text) {
        self.locked().close(Some(&name), 0);
    }

    /// Adds a phase that somebody else timed; nested below what is open. Without a step it is the one that training is at.
    #[pyo3(signature = (name, seconds, step=None))]
    fn add(&self, py: Python<'_>, name: Text, seconds: f64, step: Option<i64>) -> PyResult<()> {
        let run = self.destination.get(py)?;
        let mut phases = self.locked();
        if let Some(phase) = phases.find(&name) {
            let nanos = (seconds * 1e9).round();
            phases.store(phase, nanos, monotonic_nanos(), step, &run);
        }
        Ok(())
    }

    /// The step that training is at.
    fn current_step(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        let run = self.destination.get(py)?;
        Ok(run.with_stream(|stream| stream.step).flatten())
    }

    /// The full name that a phase started now would have.
    fn path_of(&self, name: Text) -> String {
        self.locked().path(&name)
    }

    /// For each phase its count, and mean, std, min, max, p50, p95 and total in seconds.
    fn get_summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for phase in &self.locked().phases {
            if phase.seconds.len() == 0 {
                continue;
            }
            let seconds = phase.seconds.last(None);
            let shares = [("p50", 0.5), ("p95", 0.95)];
            let summary = summary_dict(py, &Statistics::of(seconds), "_sec", &shares)?;
            summary.set_item("total_sec", seconds.iter().sum::<f64>())?;
            all.set_item(&phase.path, summary)?;
        }
        Ok(all)
    }

    /// Forgets what was timed so far; the run keeps it.
    fn reset(&self) {
        *self.locked() = Phases::default();
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
        self.timer.get().stop(py, Some(self.name.bind(py)))?;
        Ok(())
    }
}

impl PhaseTimer {
    /// Adds phases that somebody else timed. Runs no Python code, so that locks may be held meanwhile.
    pub(crate) fn add_all(&self, run: &Shared, timed: impl Iterator<Item = Timed>) {
        let mut phases = self.locked();
        for timed in timed {
            if let Some(phase) = phases.find(timed.name) {
                phases.store(
                    phase,
                    timed.nanos as f64,
                    timed.ended_nanos,
                    timed.step,
                    run,
                );
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, Phases> {
        self.phases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Phases {
    fn path(&self, name: &str) -> String {
        match self.open.last() {
            Some(outer) => format!("{}/{name}", self.phases[outer.phase].path),
            None => name.to_owned(),
        }
    }

    /// The phase's place; `None` when there are too many.
    fn find(&mut self, name: &str) -> Option<usize> {
        let outer = self.open.last().map(|open| open.phase);
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
            path: self.path(name),
            seconds: Series::default(),
            inner: Vec::new(),
            table: None,
        });
        match outer {
            Some(outer) => self.phases[outer].inner.push(place),
            None => self.outermost.push(place),
        }
        Some(place)
    }

    /// Begins a phase, or says why not.
    fn open(&mut self, name: &str) -> Option<String> {
        if self.open.len() >= MOST_OPEN {
            return Some(format!("more than {MOST_OPEN} phases are open"));
        }
        let is_open = self
            .open
            .iter()
            .any(|open| self.phases[open.phase].name == name);
        if is_open {
            return Some("it is already running".to_owned());
        }
        let Some(phase) = self.find(name) else {
            return Some(format!("more than {MOST_PHASES} different phases"));
        };
        self.open.push(Open {
            phase,
            started_nanos: monotonic_nanos(),
        });
        None
    }

    /// Ends a phase and whatever is open inside it; gives its place and duration, and the names of the inner ones.
    fn close(&mut self, name: Option<&str>, now: u64) -> (Option<(usize, u64)>, Vec<String>) {
        let index = match name {
            Some(name) => self
                .open
                .iter()
                .rposition(|open| self.phases[open.phase].name == name),
            None => self.open.len().checked_sub(1),
        };
        let Some(index) = index else {
            return (None, Vec::new());
        };
        let inner = self.open.drain(index + 1..);
        let unclosed = inner
            .map(|open| self.phases[open.phase].name.clone())
            .collect();
        let closed = self
            .open
            .pop()
            .map(|open| (open.phase, now.saturating_sub(open.started_nanos)));
        (closed, unclosed)
    }

    /// Keeps a duration, here and in the run; gives it in seconds.
    fn store(
        &mut self,
        phase: usize,
        nanos: f64,
        ended_nanos: u64,
        step: Option<i64>,
        run: &Shared,
    ) -> f64 {
        let phase = &mut self.phases[phase];
        let seconds = nanos / 1e9;
        phase.seconds.push(seconds);
        run.store(|stream| {
            let table = match phase.table {
                Some((id, table)) if id == stream.id() => table,
                _ => {
                    let table = stream.phase(&phase.path);
                    phase.table = Some((stream.id(), table));
                    table
                }
            };
            let step = step.or(stream.step);
            stream.append_at(table, ended_nanos, step, &[nanos])
        });
        seconds
    }
}
