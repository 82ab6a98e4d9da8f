//! Named stretches of time: the native half of `TrainingTimer`.
//!
//! A start and a stop are two clock readings and one row. Phases nest: what starts while another is open is called `outer/inner`.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nilo_runfile::monotonic_nanos;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::run::{Destination, Run};
use crate::series::{Series, Statistics, summary_dict};
use crate::trouble::report;

/// Phases open at once; more is a start that is never stopped.
const MOST_OPEN: usize = 64;
/// Distinct phases.
const MOST_PHASES: usize = 1_000;

struct Open {
    name: String,
    /// Position in `phases`.
    phase: usize,
    started_nanos: u64,
}

struct Phase {
    path: String,
    seconds: Series,
}

#[derive(Default)]
struct Phases {
    open: Vec<Open>,
    by_path: HashMap<String, usize>,
    phases: Vec<Phase>,
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
        let problem = {
            let mut phases = self.locked();
            if phases.open.len() >= MOST_OPEN {
                Some(format!("more than {MOST_OPEN} phases are open"))
            } else {
                phases.open(&text)
            }
        };
        match problem {
            Some(problem) => report(
                name.py(),
                &format!("start({text:?}): {problem}; it is not timed"),
            ),
            None => Ok(()),
        }
    }

    /// Ends a phase, the innermost one when no name is given, and says how many seconds it took.
    #[pyo3(signature = (name=None))]
    fn stop(&self, py: Python<'_>, name: Option<&Bound<'_, PyString>>) -> PyResult<f64> {
        let now = monotonic_nanos();
        let text = name.map(|name| name.to_string_lossy());
        let run = self.destination.get(py)?;
        let (closed, unclosed) = self.locked().close(text.as_deref(), now);
        if !unclosed.is_empty() {
            let inner = unclosed.join(", ");
            report(
                py,
                &format!("stop: {inner} was still open inside; it is not timed"),
            )?;
        }
        let Some((phase, nanos)) = closed else {
            let what = text.map_or("no phase is open".to_owned(), |text| {
                format!("{text:?} was not started")
            });
            report(py, &format!("stop: {what}"))?;
            return Ok(0.0);
        };
        let phases = self.locked();
        if let Some(phase) = phases.phases.get(phase) {
            run.with_stream(|stream| {
                let (table, step) = (stream.phase(&phase.path), stream.step);
                stream.append(table, step, &[nanos as f64])
            });
        }
        Ok(nanos as f64 / 1e9)
    }

    /// Adds a phase that somebody else timed; nested below what is open.
    fn add(&self, py: Python<'_>, name: &str, seconds: f64) -> PyResult<()> {
        let run = self.destination.get(py)?;
        let mut phases = self.locked();
        let Some(index) = phases.find(name) else {
            return Ok(());
        };
        let phase = &mut phases.phases[index];
        phase.seconds.push(seconds);
        run.with_stream(|stream| {
            let (table, step) = (stream.phase(&phase.path), stream.step);
            stream.append(table, step, &[(seconds * 1e9).round()])
        });
        Ok(())
    }

    /// The full name that a phase started now would have.
    fn path_of(&self, name: &str) -> String {
        self.locked().path(name)
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

impl PhaseTimer {
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
        // Without an outer phase the name is the path, and nothing is allocated.
        if self.open.is_empty()
            && let Some(index) = self.by_path.get(name)
        {
            return Some(*index);
        }
        let path = self.path(name);
        if let Some(index) = self.by_path.get(&path) {
            return Some(*index);
        }
        if self.phases.len() >= MOST_PHASES {
            return None;
        }
        self.by_path.insert(path.clone(), self.phases.len());
        self.phases.push(Phase {
            path,
            seconds: Series::default(),
        });
        Some(self.phases.len() - 1)
    }

    fn open(&mut self, name: &str) -> Option<String> {
        let Some(phase) = self.find(name) else {
            return Some(format!("more than {MOST_PHASES} different phases"));
        };
        let is_open = self.open.iter().any(|open| open.name == name);
        if is_open {
            return Some("it is already running".to_owned());
        }
        self.open.push(Open {
            name: name.to_owned(),
            phase,
            started_nanos: monotonic_nanos(),
        });
        None
    }

    /// Ends a phase and whatever is open inside it; gives its place and duration, and the names of the inner ones.
    fn close(&mut self, name: Option<&str>, now: u64) -> (Option<(usize, u64)>, Vec<String>) {
        let index = match name {
            Some(name) => self.open.iter().rposition(|open| open.name == name),
            None => self.open.len().checked_sub(1),
        };
        let Some(index) = index else {
            return (None, Vec::new());
        };
        let unclosed = self.open.drain(index + 1..).map(|open| open.name).collect();
        let Some(open) = self.open.pop() else {
            return (None, unclosed);
        };
        let nanos = now.saturating_sub(open.started_nanos);
        self.phases[open.phase].seconds.push(nanos as f64 / 1e9);
        (Some((open.phase, nanos)), unclosed)
    }
}
