//! Which part of a step a training loop is in, and how long the parts took.
//!
//! The phases of a step are stored together when it ends: writing a row between two long computations finds nothing of itself
//! in the processor's caches, and four of them one by one cost three times as much. A killed job loses those of the step that it was in.
//!
//! Locking: as in `run`, no lock is held while Python code may run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nilo_runfile::monotonic_nanos;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::budget::Budget;
use super::torch::Torch;
use crate::phase_timer::{PhaseTimer, Timed};
use crate::run::{Destination, Shared};
use crate::throughput::Throughput;

/// Phases held back at most; a step of many forwards has more.
const MOST_HELD_BACK: usize = 64;

/// When something happened: on the CPU's clock, or where an event lies in the GPU's stream.
#[derive(Default)]
pub(crate) enum Moment {
    /// Nobody looked.
    #[default]
    Unknown,
    Cpu(u64),
    Gpu(Py<PyAny>),
}

impl Moment {
    fn clone_ref(&self, py: Python<'_>) -> Moment {
        match self {
            Moment::Unknown => Moment::Unknown,
            Moment::Cpu(nanos) => Moment::Cpu(*nanos),
            Moment::Gpu(event) => Moment::Gpu(event.clone_ref(py)),
        }
    }

    fn is_known(&self) -> bool {
        !matches!(self, Moment::Unknown)
    }
}

/// The classes of Python that look at a GPU.
struct Gpu {
    /// `nilometer._gpu_clock.GpuClock`.
    clock: Py<PyAny>,
    /// `GPUMemoryProfiler.measure`.
    measure_memory: Py<PyAny>,
}

/// A phase that is over.
struct Finished {
    name: &'static str,
    step: i64,
    began: Moment,
    ended: Moment,
}

/// Where the loop is.
#[derive(Default)]
struct State {
    step: i64,
    is_recorded: bool,
    /// Whether the step after this one will be; decided where this one ends, since the wait for data begins there.
    is_next_recorded: bool,
    has_stepped: bool,
    is_clock_sure: bool,
    has_loader: bool,
    has_gradients: bool,
    is_in_backward: bool,
    /// Calls of the model within calls of the model.
    depth: u32,
    optimizer_depth: u32,
    samples: u64,
    tokens: u64,
    /// Samples and tokens of the forward that the model is at.
    batch: (u64, u64),
    forward_began: Moment,
    backward_began: Moment,
    optimizer_began: Moment,
    loader_began: Moment,
    idle_since: Moment,
    finished: Vec<Finished>,
    timing: Budget,
    memory: Budget,
    /// What looking at the GPU has cost in this step.
    spent_nanos: u64,
}

impl State {
    fn finish(&mut self, name: &'static str, began: Moment, ended: Moment) {
        if began.is_known() && ended.is_known() {
            let step = self.step;
            self.finished.push(Finished {
                name,
                step,
                began,
                ended,
            });
        }
    }
}

/// One watched model.
pub(crate) struct Steps {
    pub(crate) torch: Torch,
    timer: Py<PhaseTimer>,
    throughput: Py<Throughput>,
    destination: Destination,
    /// Whether the steps are counted here.
    counts: bool,
    /// Each so-manieth step is recorded; `None` is every step, or on a GPU as many as its budget allows.
    every: Option<i64>,
    /// Asked before the first forward: the model may have moved to a GPU since.
    pick_clock: Py<PyAny>,
    gpu: OnceLock<Gpu>,
    is_over: AtomicBool,
    state: Mutex<State>,
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
        let state = State {
            step: first,
            is_recorded: every.is_none_or(|every| first.rem_euclid(every) == 0),
            ..State::default()
        };
        Steps {
            torch,
            timer,
            throughput,
            destination,
            counts: step.is_some(),
            every,
            pick_clock,
            gpu: OnceLock::new(),
            is_over: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
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
        self.state().idle_since = Moment::Unknown;
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

    pub(crate) fn before_forward(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let (is_clock_sure, has_stepped) = {
            let mut state = self.state();
            state.depth += 1;
            if state.depth > 1 {
                return Ok(());
            }
            state.is_in_backward = false;
            let is_clock_sure = std::mem::replace(&mut state.is_clock_sure, true);
            (is_clock_sure, state.has_stepped)
        };
        if !is_clock_sure {
            self.pick_clock.call0(py)?;
        }
        let has_gradients = self.torch.is_grad_enabled(py)?;
        let mut batch = (0, 0);
        if has_gradients {
            if has_stepped {
                self.advance(py)?;
            }
            batch = self.torch.batch_size(py, args, kwargs)?;
        }
        self.with_now(py, |state, now| {
            state.has_gradients = has_gradients;
            state.batch = batch;
            // A step that raised has left its optimizer open.
            state.optimizer_depth = 0;
            state.forward_began = now.clone_ref(py);
            // An evaluation in between is not waiting for data.
            let idle_since = std::mem::take(&mut state.idle_since);
            if has_gradients && !state.has_loader {
                state.finish("data", idle_since, now);
            }
        })
    }

    /// The model was left; without an output, by an exception.
    pub(crate) fn after_forward<'py>(
        &self,
        py: Python<'py>,
        output: Option<&Bound<'py, PyAny>>,
        hook: impl FnOnce(u64, u64) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        {
            let mut state = self.state();
            let depth = state.depth;
            state.depth = depth.saturating_sub(1);
            if depth != 1 {
                return Ok(());
            }
        }
        let Some(output) = output else {
            return Ok(());
        };
        let (has_gradients, batch) = self.with_now(py, |state, now| {
            let began = std::mem::take(&mut state.forward_began);
            let name = if state.has_gradients {
                "forward"
            } else {
                "inference"
            };
            state.finish(name, began, now);
            (state.has_gradients, state.batch)
        })?;
        if has_gradients {
            self.torch
                .hook_gradients(output, || hook(batch.0, batch.1))?;
        }
        // Inference ends no step that its phase could be stored with.
        self.flush_if(py, !has_gradients)
    }

    /// A first gradient has come to an output of the model. `end` is called when there are no more.
    pub(crate) fn before_backward(
        &self,
        py: Python<'_>,
        batch: Option<(u64, u64)>,
        end: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if self.is_over() {
            return Ok(());
        }
        {
            let mut state = self.state();
            if let Some((samples, tokens)) = batch {
                state.samples += samples;
                state.tokens += tokens;
            }
            if std::mem::replace(&mut state.is_in_backward, true) {
                return Ok(());
            }
        }
        self.with_now(py, |state, now| state.backward_began = now)?;
        self.torch.call_at_end_of_backward(py, end)
    }

    pub(crate) fn after_backward(&self, py: Python<'_>) -> PyResult<()> {
        if !std::mem::replace(&mut self.state().is_in_backward, false) {
            return Ok(());
        }
        self.with_now(py, |state, now| {
            state.idle_since = now.clone_ref(py);
            if state.optimizer_began.is_known() {
                // The optimizer was given a closure: its own work comes after it.
                state.optimizer_began = now.clone_ref(py);
            }
            let began = std::mem::take(&mut state.backward_began);
            state.finish("backward", began, now);
        })?;
        self.flush_if(py, false)
    }

    pub(crate) fn before_optimizer(&self, py: Python<'_>) -> PyResult<()> {
        {
            let mut state = self.state();
            // An interrupted forward is never left, and no optimizer steps within a forward.
            state.depth = 0;
            // An optimizer's `step` may call that of its base class, which has hooks too.
            state.optimizer_depth += 1;
            if state.optimizer_depth > 1 {
                return Ok(());
            }
            if state.is_in_backward {
                // There is an optimizer for each parameter: too small to be timed.
                state.optimizer_began = Moment::Unknown;
                return Ok(());
            }
        }
        self.with_now(py, |state, now| state.optimizer_began = now)
    }

    pub(crate) fn after_optimizer(&self, py: Python<'_>) -> PyResult<()> {
        let now_nanos = monotonic_nanos();
        let (is_looked_at, had_stepped) = {
            let mut state = self.state();
            if state.optimizer_depth > 1 {
                state.optimizer_depth -= 1;
                return Ok(());
            }
            state.optimizer_depth = 0;
            state.is_next_recorded = self.is_due(&state, now_nanos);
            let had_stepped = std::mem::replace(&mut state.has_stepped, true);
            if state.is_in_backward {
                return Ok(());
            }
            (state.is_recorded || state.is_next_recorded, had_stepped)
        };
        let now = match (is_looked_at, self.gpu.get()) {
            (false, _) => Moment::Unknown,
            (true, None) => Moment::Cpu(now_nanos),
            (true, Some(gpu)) => self.look(py, gpu)?,
        };
        {
            let mut state = self.state();
            let began = std::mem::take(&mut state.optimizer_began);
            state.finish("optimizer", began, now.clone_ref(py));
            state.idle_since = now;
        }
        let run = self.destination.get(py)?;
        self.flush(py, &run)?;
        self.count_samples(&run, now_nanos);
        match self.gpu.get() {
            Some(gpu) if !had_stepped => self.measure_memory(py, gpu, now_nanos),
            _ => Ok(()),
        }
    }

    /// A loader is asked for a batch.
    pub(crate) fn before_batch(&self, py: Python<'_>) -> PyResult<()> {
        let has_stepped = {
            let mut state = self.state();
            state.has_loader = true;
            state.has_stepped
        };
        if has_stepped {
            self.advance(py)?;
        }
        self.with_now(py, |state, now| state.loader_began = now)
    }

    pub(crate) fn after_batch(&self, py: Python<'_>) -> PyResult<()> {
        self.with_now(py, |state, now| {
            let began = std::mem::take(&mut state.loader_began);
            state.finish("data", began, now);
        })?;
        self.flush_if(py, false)
    }

    /// The next step begins: with its first forward, since several optimizers may have ended the last one.
    fn advance(&self, py: Python<'_>) -> PyResult<()> {
        let run = self.destination.get(py)?;
        let (holds_back, is_recorded, step) = {
            let mut state = self.state();
            state.has_stepped = false;
            state.step += 1;
            if state.is_recorded && self.gpu.get().is_some() {
                let spent = std::mem::take(&mut state.spent_nanos);
                state.timing.spend(monotonic_nanos(), spent);
            }
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
    fn is_due(&self, state: &State, now_nanos: u64) -> bool {
        match self.every {
            Some(every) => (state.step + 1).rem_euclid(every) == 0,
            None => self.gpu.get().is_none() || state.timing.is_due(now_nanos),
        }
    }

    /// Notes what happens at this moment, which is looked at if the step is recorded.
    fn with_now<T>(
        &self,
        py: Python<'_>,
        note: impl FnOnce(&mut State, Moment) -> T,
    ) -> PyResult<T> {
        let mut state = self.state();
        if !state.is_recorded {
            return Ok(note(&mut state, Moment::Unknown));
        }
        let Some(gpu) = self.gpu.get() else {
            return Ok(note(&mut state, Moment::Cpu(monotonic_nanos())));
        };
        drop(state);
        let now = self.look(py, gpu)?;
        Ok(note(&mut self.state(), now))
    }

    /// Puts an event into the GPU's stream.
    fn look(&self, py: Python<'_>, gpu: &Gpu) -> PyResult<Moment> {
        let event = self.on_gpu(|| gpu.clock.call_method0(py, intern!(py, "now")))?;
        Ok(if event.is_none(py) {
            Moment::Unknown
        } else {
            Moment::Gpu(event)
        })
    }

    /// Counts what something costs towards the budget for timing.
    fn on_gpu<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = monotonic_nanos();
        let outcome = work();
        self.state().spent_nanos += monotonic_nanos() - began;
        outcome
    }

    /// Stores what is held back when it should not wait for the end of the step, or is a lot.
    fn flush_if(&self, py: Python<'_>, is_wanted: bool) -> PyResult<()> {
        // Who counts the steps elsewhere may be at the next one when this one ends.
        if is_wanted || !self.counts || self.state().finished.len() >= MOST_HELD_BACK {
            let run = self.destination.get(py)?;
            return self.flush(py, &run);
        }
        Ok(())
    }

    fn flush(&self, py: Python<'_>, run: &Shared) -> PyResult<()> {
        let step_of = |finished: &Finished| self.counts.then_some(finished.step);
        let Some(gpu) = self.gpu.get() else {
            let mut state = self.state();
            let timed = state.finished.drain(..).filter_map(|finished| {
                let (Moment::Cpu(began), Moment::Cpu(ended)) = (&finished.began, &finished.ended)
                else {
                    return None;
                };
                Some(Timed {
                    name: finished.name,
                    nanos: ended.saturating_sub(*began),
                    ended_nanos: *ended,
                    step: step_of(&finished),
                })
            });
            self.timer.get().add_all(run, timed);
            return Ok(());
        };
        let finished = std::mem::take(&mut self.state().finished);
        for finished in finished {
            let step = step_of(&finished);
            if let (Moment::Gpu(began), Moment::Gpu(ended)) = (finished.began, finished.ended) {
                let store = (finished.name, began, ended, step);
                self.on_gpu(|| gpu.clock.call_method1(py, intern!(py, "store"), store))?;
            }
        }
        Ok(())
    }

    fn count_samples(&self, run: &Shared, now_nanos: u64) {
        let mut state = self.state();
        let samples = std::mem::take(&mut state.samples);
        let tokens = std::mem::take(&mut state.tokens);
        if samples > 0 {
            let throughput = self.throughput.get();
            throughput.add_at(run, samples as f64, tokens as f64, now_nanos);
        }
    }

    fn measure_memory(&self, py: Python<'_>, gpu: &Gpu, now_nanos: u64) -> PyResult<()> {
        if !self.state().memory.is_due(now_nanos) {
            return Ok(());
        }
        let began = monotonic_nanos();
        let outcome = gpu.measure_memory.call0(py);
        let ended = monotonic_nanos();
        self.state().memory.spend(ended, ended - began);
        outcome.map(|_| ())
    }
}
