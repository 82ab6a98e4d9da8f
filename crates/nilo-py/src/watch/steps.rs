//! A watched model: which step it is at, and what is done when one ends and the next begins.
//!
//! `state.rs` is where the loop is, `passes.rs` what the hooks tell, `storing.rs` how moments are looked at and phases stored.
//!
//! Locking: as in `run`, no lock is held while Python code may run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nilo_runfile::monotonic_nanos;
use pyo3::intern;
use pyo3::prelude::*;

use super::state::{EventTime, LoopState};
use super::torch::Torch;
use crate::destination::Destination;
use crate::phase_timer::PhaseTimer;
use crate::throughput::Throughput;

/// On a GPU these are recorded whatever it costs: memory rises to its peak in them, since the optimizer's state comes with the first step.
const FIRST_STEPS: i64 = 3;

/// The classes of Python that look at a GPU.
pub(super) struct Gpu {
    /// `nilometer._gpu_clock.GpuClock`.
    pub(super) clock: Py<PyAny>,
    /// `GPUMemoryProfiler.measure`.
    pub(super) measure_memory: Py<PyAny>,
}

/// One watched model.
pub(crate) struct Steps {
    pub(crate) torch: Torch,
    pub(super) timer: Py<PhaseTimer>,
    pub(super) throughput: Py<Throughput>,
    pub(super) destination: Destination,
    /// Whether the steps are counted here.
    pub(super) counts: bool,
    /// The number of the first step.
    first: i64,
    /// Each so-manieth step is recorded; `None` is every step, or on a GPU as many as its budget allows.
    every: Option<i64>,
    /// Asked before the first forward: the model may have moved to a GPU since.
    pub(super) pick_clock: Py<PyAny>,
    pub(super) gpu: OnceLock<Gpu>,
    is_over: AtomicBool,
    state: Mutex<LoopState>,
}

impl Steps {
    pub(crate) fn new(
        torch: Torch,
        (timer, throughput): (Py<PhaseTimer>, Py<Throughput>),
        destination: Destination,
        step: Option<i64>,
        every: Option<i64>,
        pick_clock: Py<PyAny>,
    ) -> Steps {
        let first = step.unwrap_or(0);
        let state = LoopState {
            step: first,
            steps_since_recorded: 1,
            is_recorded: every.is_none_or(|every| first.rem_euclid(every) == 0),
            ..LoopState::default()
        };
        Steps {
            torch,
            timer,
            throughput,
            destination,
            counts: step.is_some(),
            first,
            every,
            pick_clock,
            gpu: OnceLock::new(),
            is_over: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, LoopState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The step that training is at, or that comes next.
    pub(crate) fn step(&self) -> i64 {
        let state = self.state();
        state.step + i64::from(state.has_stepped)
    }

    /// Times by the GPU from here on.
    pub(crate) fn use_gpu(&self, clock: Py<PyAny>, measure_memory: Py<PyAny>) {
        let gpu = Gpu {
            clock,
            measure_memory,
        };
        self.gpu.set(gpu).ok();
        // Readings of another clock cannot be subtracted.
        self.state().idle_since = EventTime::Unknown;
    }

    /// Says which step training is at.
    pub(crate) fn tell_step(&self, py: Python<'_>) -> PyResult<()> {
        if self.counts {
            let run = self.destination.get(py)?;
            let step = self.state().step;
            run.with_stream(|stream| stream.step = Some(step));
        }
        Ok(())
    }

    /// Ends it.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.torch.release_hooks(py)?;
        self.settle(py)
    }

    /// Stores what is held back, and waits for what the GPU is still at.
    pub(crate) fn settle(&self, py: Python<'_>) -> PyResult<()> {
        let holds_back = {
            let state = self.state();
            !state.finished.is_empty() || state.has_stepped && state.samples > 0
        };
        // Asking for the run may make one, which nothing is no reason for.
        if holds_back {
            let run = self.destination.get(py)?;
            self.flush(py, &run)?;
            if self.state().has_stepped {
                self.count_samples(&run, monotonic_nanos());
            }
        }
        match self.gpu.get() {
            Some(gpu) => gpu.clock.call_method1(py, "settle", (true,)).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The next step begins: with its first forward, since several optimizers may have ended the last one.
    pub(super) fn advance(&self, py: Python<'_>) -> PyResult<()> {
        let run = self.destination.get(py)?;
        let (holds_back, is_recorded, step) = {
            let mut state = self.state();
            state.has_stepped = false;
            state.step += 1;
            if state.is_recorded && self.gpu.get().is_some() {
                let spent = std::mem::take(&mut state.spent_nanos);
                state.timing.spend(monotonic_nanos(), spent);
            }
            state.steps_since_recorded = match state.is_recorded {
                true => 1,
                false => state.steps_since_recorded + 1,
            };
            state.is_recorded = state.is_next_recorded;
            // Optimizers that step within backward leave the step's figures to its successor.
            let holds_back = state.samples > 0 || !state.finished.is_empty();
            (holds_back, state.is_recorded, state.step)
        };
        if holds_back {
            self.count_samples(&run, monotonic_nanos());
            self.flush(py, &run)?;
        }
        if self.counts {
            run.with_stream(|stream| stream.step = Some(step));
        }
        match self.gpu.get() {
            Some(gpu) if is_recorded => {
                let settle = intern!(py, "settle");
                self.on_gpu(|| gpu.clock.call_method1(py, settle, (false,)))?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether the step after this one is to be recorded.
    pub(super) fn is_due(&self, state: &LoopState, now_nanos: u64) -> bool {
        match self.every {
            Some(every) => (state.step + 1).rem_euclid(every) == 0,
            None => {
                let is_early = state.step + 1 - self.first < FIRST_STEPS;
                is_early || self.gpu.get().is_none() || state.timing.is_due(now_nanos)
            }
        }
    }
}
