//! How fast training goes: the native half of `ThroughputTracker`.
//!
//! The run gets running totals; rates are computed where they are asked for.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nilo_runfile::monotonic_nanos;
use pyo3::prelude::*;

use crate::run::{Destination, Run, Shared};

/// Totals at a moment.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    time_nanos: u64,
    batches: u64,
    samples: f64,
    tokens: f64,
}

#[derive(Default)]
struct Window {
    /// The totals after each of the last batches; the first is where the window begins.
    marks: VecDeque<Totals>,
    first: Totals,
    last: Totals,
}

/// Counts batches, samples and tokens over time.
#[pyclass(frozen, subclass, module = "nilometer._native")]
pub(crate) struct Throughput {
    destination: Destination,
    size: usize,
    window: Mutex<Window>,
}

/// Seconds, batches, samples, tokens.
type Stretch = (f64, u64, f64, f64);

#[pymethods]
impl Throughput {
    #[new]
    #[pyo3(signature = (window_size, run=None))]
    fn new(window_size: usize, run: Option<&Bound<'_, Run>>) -> Throughput {
        let throughput = Throughput {
            destination: Destination::new(run.map(Bound::get)),
            size: window_size,
            window: Mutex::default(),
        };
        throughput.begin();
        throughput
    }

    /// The clock begins here; without this call it began with the tracker.
    fn begin(&self) {
        let start = Totals {
            time_nanos: monotonic_nanos(),
            ..Totals::default()
        };
        *self.locked() = Window {
            marks: VecDeque::from([start]),
            first: start,
            last: start,
        };
    }

    /// One batch is done; gives the number of batches so far.
    #[pyo3(signature = (samples, tokens))]
    fn add(&self, py: Python<'_>, samples: f64, tokens: f64) -> PyResult<u64> {
        let run = self.destination.get(py)?;
        Ok(self.add_at(&run, samples, tokens, monotonic_nanos()))
    }

    /// The last `window_size` batches, up to the last one.
    fn current(&self) -> Stretch {
        let window = self.locked();
        let first = window.marks.front().copied().unwrap_or_default();
        between(&first, &window.last)
    }

    /// Everything so far, up to the last batch.
    fn overall(&self) -> Stretch {
        let window = self.locked();
        between(&window.first, &window.last)
    }
}

fn between(from: &Totals, to: &Totals) -> Stretch {
    (
        to.time_nanos.saturating_sub(from.time_nanos) as f64 / 1e9,
        to.batches - from.batches,
        to.samples - from.samples,
        to.tokens - from.tokens,
    )
}

impl Throughput {
    /// One batch was done at a moment that has just passed. Runs no Python code.
    pub(crate) fn add_at(&self, run: &Shared, samples: f64, tokens: f64, time_nanos: u64) -> u64 {
        let mut window = self.locked();
        let last = Totals {
            time_nanos,
            batches: window.last.batches + 1,
            samples: window.last.samples + samples,
            tokens: window.last.tokens + tokens,
        };
        window.last = last;
        window.marks.push_back(last);
        if window.marks.len() > self.size + 1 {
            window.marks.pop_front();
        }
        run.store(|stream| {
            let (table, step) = (stream.throughput(), stream.step);
            stream.append_at(
                table,
                time_nanos,
                step,
                &[last.batches as f64, last.samples, last.tokens],
            )
        });
        last.batches
    }

    fn locked(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
