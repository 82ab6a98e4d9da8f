//! How fast training goes: the native half of `ThroughputTracker`.
//!
//! The run gets running totals of each tracker; rates are computed where they are asked for.
//! Set-up and pauses do not count: a clock of its own says how much time does.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nilo_runfile::monotonic_nanos;
use nilo_sample::rows::ThroughputRow;
use pyo3::prelude::*;

use crate::destination::Destination;
use crate::errors::value_error;
use crate::run::Run;
use crate::shared::SharedRun;

/// Totals at a moment.
#[derive(Debug, Clone, Copy, Default)]
struct ThroughputTotals {
    /// The time that counts until then.
    counted_nanos: u64,
    batches: u64,
    samples: f64,
    tokens: f64,
}

/// Whether time counts.
#[derive(Debug, Clone, Copy, Default)]
enum TimerState {
    /// Nothing has begun: set-up does not count.
    #[default]
    NotBegun,
    Running {
        since_nanos: u64,
    },
    Paused,
}

#[derive(Default)]
struct RateWindow {
    clock: TimerState,
    /// The totals after each of the last batches; the first is where the window begins.
    marks: VecDeque<ThroughputTotals>,
    /// Where the clock began. The first batch is not in the rates if nobody said when it began.
    first: ThroughputTotals,
    last: ThroughputTotals,
    /// The stream that rows go to, and the place of this tracker in it.
    place: Option<(u64, usize)>,
}

impl RateWindow {
    /// The totals after the last batch: what has passed since belongs to the next one.
    fn last_mark(&self) -> ThroughputTotals {
        self.marks.back().copied().unwrap_or_default()
    }

    /// Takes in the time that has passed.
    fn count_until(&mut self, now_nanos: u64) {
        if let TimerState::Running { since_nanos } = self.clock {
            self.last.counted_nanos += now_nanos.saturating_sub(since_nanos);
            self.clock = TimerState::Running {
                since_nanos: now_nanos,
            };
        }
    }

    /// Time counts from here on.
    fn resume(&mut self, now_nanos: u64) {
        match self.clock {
            TimerState::Running { .. } => return,
            TimerState::Paused => {}
            TimerState::NotBegun => {
                self.first = self.last;
                self.marks = VecDeque::from([self.last]);
            }
        }
        self.clock = TimerState::Running {
            since_nanos: now_nanos,
        };
    }
}

/// Counts batches, samples and tokens over time.
#[pyclass(frozen, subclass, module = "nilometer._native")]
pub(crate) struct Throughput {
    destination: Destination,
    size: usize,
    window: Mutex<RateWindow>,
}

/// Seconds, batches, samples, tokens.
type WindowTotals = (f64, u64, f64, f64);

#[pymethods]
impl Throughput {
    #[new]
    #[pyo3(signature = (window_size, run=None))]
    fn new(window_size: usize, run: Option<&Bound<'_, Run>>) -> Throughput {
        Throughput {
            destination: Destination::new(run.map(Bound::get)),
            size: window_size,
            window: Mutex::default(),
        }
    }

    /// Counts anew, and the clock begins here; without this call it begins with the end of the first batch.
    fn begin(&self) {
        let mut window = self.locked();
        *window = RateWindow {
            place: window.place,
            ..RateWindow::default()
        };
        window.resume(monotonic_nanos());
    }

    /// The clock stands still until `resume`: for an evaluation, or whatever else is not training.
    fn pause(&self) {
        let mut window = self.locked();
        window.count_until(monotonic_nanos());
        if !matches!(window.clock, TimerState::NotBegun) {
            window.clock = TimerState::Paused;
        }
    }

    /// The clock goes on, or begins.
    fn resume(&self) {
        self.locked().resume(monotonic_nanos());
    }

    /// So many of the seconds since the last batch do not count, where only afterwards it is known that it was no training.
    fn leave_out(&self, seconds: f64) {
        let now_nanos = monotonic_nanos();
        if let TimerState::Running { since_nanos } = &mut self.locked().clock {
            // Too large a number of seconds, or one that is none, ends at a limit.
            let left_out = (seconds * 1e9) as u64;
            *since_nanos = since_nanos.saturating_add(left_out).min(now_nanos);
        }
    }

    /// One batch is done; gives the number of batches so far.
    #[pyo3(signature = (samples, tokens))]
    fn add(&self, py: Python<'_>, samples: f64, tokens: f64) -> PyResult<u64> {
        // One such count would spoil the totals for good.
        let is_count = |number: f64| number.is_finite() && number >= 0.0;
        if !is_count(samples) || !is_count(tokens) {
            return Err(value_error("a count is negative or not finite"));
        }
        let run = self.destination.get(py)?;
        Ok(self.add_at(&run, samples, tokens, monotonic_nanos()))
    }

    /// The last `window_size` batches, up to the last one.
    fn current(&self) -> WindowTotals {
        let window = self.locked();
        let first = window.marks.front().copied().unwrap_or_default();
        between(&first, &window.last_mark())
    }

    /// Everything since the clock began, up to the last batch.
    fn overall(&self) -> WindowTotals {
        let window = self.locked();
        between(&window.first, &window.last_mark())
    }

    /// Batches, samples and tokens so far, those before the clock began too.
    fn totals(&self) -> (u64, f64, f64) {
        let last = self.locked().last;
        (last.batches, last.samples, last.tokens)
    }
}

fn between(from: &ThroughputTotals, to: &ThroughputTotals) -> WindowTotals {
    (
        to.counted_nanos.saturating_sub(from.counted_nanos) as f64 / 1e9,
        to.batches - from.batches,
        to.samples - from.samples,
        to.tokens - from.tokens,
    )
}

impl Throughput {
    /// One batch was done at a moment that has just passed. Runs no Python code.
    pub(crate) fn add_at(
        &self,
        run: &SharedRun,
        samples: f64,
        tokens: f64,
        time_nanos: u64,
    ) -> u64 {
        let mut window = self.locked();
        let counted_before = window.last_mark().counted_nanos;
        window.count_until(time_nanos);
        window.last.batches += 1;
        window.last.samples += samples;
        window.last.tokens += tokens;
        let last = window.last;
        if matches!(window.clock, TimerState::NotBegun) {
            window.resume(time_nanos);
        } else {
            window.marks.push_back(last);
        }
        if window.marks.len() > self.size + 1 {
            window.marks.pop_front();
        }
        run.store(|stream| {
            // A forked child and another run count what is done there.
            let place = window.place.filter(|(id, _)| *id == stream.id());
            let (_, tracker) = place.unwrap_or_else(|| (stream.id(), stream.new_tracker()));
            window.place = Some((stream.id(), tracker));
            let added = ThroughputRow {
                batches: 1.0,
                samples,
                tokens,
                counted_nanos: last.counted_nanos.saturating_sub(counted_before) as f64,
            };
            stream.add_throughput(tracker, time_nanos, &added)
        });
        last.batches
    }

    fn locked(&self) -> MutexGuard<'_, RateWindow> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
