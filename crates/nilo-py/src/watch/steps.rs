//! Which part of a step a training loop is in, and how long the parts took.
//!
//! Locking: as in `run`, no lock is held while Python code may run.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nilo_runfile::monotonic_nanos;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::budget::Budget;
use super::torch::Torch;
use crate::phase_timer::PhaseTimer;
use crate::run::Destination;
use crate::throughput::Throughput;

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

/// Where the loop is.
#[derive(Default)]
struct State {
    step: i64,
    is_recorded: bool,
    /// Whether the step after this one will be; decided where this one ends, since the wait for data begins there.
    is_next_recorded: bool,
    has_stepped: bool,
    is_over: bool,
    is_clock_sure: bool,
    has_loader: bool,
    has_gradients: bool,
    is_in_backward: bool,
    /// Calls of the model within calls of the model.
    depth: u32,
    optimizer_depth: u32,
    samples: u64,
    tokens: u64,
    batch: (u64, u64),
    forward_began: Moment,
    backward_began: Moment,
    optimizer_began: Moment,
    idle_since: Moment,
    timing: Budget,
    memory: Budget,
    /// What looking at the GPU has cost in this step.
    spent_nanos: u64,
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
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over
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
            let step = self.state().step;
            let run = self.destination.get(py)?;
            run.with_stream(|stream| stream.step = Some(step));
        }
        Ok(())
    }

    /// Ends it: what is still to be counted is counted, what the GPU is still at is waited for.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        let has_stepped = {
            let mut state = self.state();
            if std::mem::replace(&mut state.is_over, true) {
                return Ok(());
            }
            state.has_stepped
        };
        if has_stepped {
            self.count_samples(py, monotonic_nanos())?;
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
        let is_clock_sure = {
            let mut state = self.state();
            state.depth += 1;
            if state.depth > 1 {
                return Ok(());
            }
            state.is_in_backward = false;
            std::mem::replace(&mut state.is_clock_sure, true)
        };
        if !is_clock_sure {
            self.pick_clock.call0(py)?;
        }
        let has_gradients = self.torch.is_grad_enabled(py)?;
        let mut batch = (0, 0);
        if has_gradients {
            self.advance(py)?;
            batch = self.torch.batch_size(py, args, kwargs)?;
        }
        let now = self.now_if_recorded(py)?;
        let (step, idle_since) = {
            let mut state = self.state();
            state.has_gradients = has_gradients;
            state.batch = batch;
            // A step that raised has left its optimizer open.
            state.optimizer_depth = 0;
            state.forward_began = now.clone_ref(py);
            // An evaluation in between is not waiting for data.
            let idle_since = std::mem::take(&mut state.idle_since);
            if !has_gradients || state.has_loader {
                return Ok(());
            }
            (state.step, idle_since)
        };
        self.store(py, "data", step, idle_since, &now)
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
        let now = self.now_if_recorded(py)?;
        let (step, began, has_gradients, batch) = {
            let mut state = self.state();
            let began = std::mem::take(&mut state.forward_began);
            (state.step, began, state.has_gradients, state.batch)
        };
        if !has_gradients {
            return self.store(py, "inference", step, began, &now);
        }
        self.store(py, "forward", step, began, &now)?;
        self.torch
            .hook_gradients(output, || hook(batch.0, batch.1))
    }

    /// A first gradient has come to an output of the model. `end` is called when there are no more.
    pub(crate) fn before_backward(
        &self,
        py: Python<'_>,
        batch: Option<(u64, u64)>,
        end: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        {
            let mut state = self.state();
            if state.is_over {
                return Ok(());
            }
            if let Some((samples, tokens)) = batch {
                state.samples += samples;
                state.tokens += tokens;
            }
            if std::mem::replace(&mut state.is_in_backward, true) {
                return Ok(());
            }
        }
        let now = self.now_if_recorded(py)?;
        self.state().backward_began = now;
        self.torch.call_at_end_of_backward(py, end)
    }

    pub(crate) fn after_backward(&self, py: Python<'_>) -> PyResult<()> {
        if !std::mem::replace(&mut self.state().is_in_backward, false) {
            return Ok(());
        }
        let now = self.now_if_recorded(py)?;
        let (step, began) = {
            let mut state = self.state();
            state.idle_since = now.clone_ref(py);
            if state.optimizer_began.is_known() {
                // The optimizer was given a closure: its own work comes after it.
                state.optimizer_began = now.clone_ref(py);
            }
            (state.step, std::mem::take(&mut state.backward_began))
        };
        self.store(py, "backward", step, began, &now)
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
        let now = self.now_if_recorded(py)?;
        self.state().optimizer_began = now;
        Ok(())
    }

    pub(crate) fn after_optimizer(&self, py: Python<'_>) -> PyResult<()> {
        let now_nanos = monotonic_nanos();
        let (step, began, is_recorded, is_next_recorded, had_stepped) = {
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
            let began = std::mem::take(&mut state.optimizer_began);
            let State {
                step,
                is_recorded,
                is_next_recorded,
                ..
            } = *state;
            (step, began, is_recorded, is_next_recorded, had_stepped)
        };
        let now = match (is_recorded || is_next_recorded, self.gpu.get()) {
            (false, _) => Moment::Unknown,
            (true, None) => Moment::Cpu(now_nanos),
            (true, Some(gpu)) => self.look(py, gpu)?,
        };
        self.store(py, "optimizer", step, began, &now)?;
        self.state().idle_since = now;
        self.count_samples(py, now_nanos)?;
        match self.gpu.get() {
            Some(gpu) if !had_stepped => self.measure_memory(py, gpu, now_nanos),
            _ => Ok(()),
        }
    }

    /// A loader is asked for a batch; gives the moment.
    pub(crate) fn before_batch(&self, py: Python<'_>) -> PyResult<Moment> {
        self.state().has_loader = true;
        self.advance(py)?;
        self.now_if_recorded(py)
    }

    pub(crate) fn after_batch(&self, py: Python<'_>, began: Moment) -> PyResult<()> {
        let now = self.now_if_recorded(py)?;
        let step = self.state().step;
        self.store(py, "data", step, began, &now)
    }

    /// The next step begins if the last one has ended: with its first forward, since several optimizers may have ended the last one.
    fn advance(&self, py: Python<'_>) -> PyResult<()> {
        let now_nanos = {
            let mut state = self.state();
            if !state.has_stepped {
                return Ok(());
            }
            state.has_stepped = false;
            state.step += 1;
            let mut now_nanos = None;
            if state.is_recorded && self.gpu.get().is_some() {
                let now = monotonic_nanos();
                let spent = std::mem::take(&mut state.spent_nanos);
                state.timing.spend(now, spent);
                now_nanos = Some(now);
            }
            state.is_recorded = state.is_next_recorded;
            if state.samples > 0 {
                now_nanos.get_or_insert_with(monotonic_nanos);
            }
            now_nanos
        };
        if let Some(now_nanos) = now_nanos {
            self.count_samples(py, now_nanos)?;
        }
        self.tell_step(py)?;
        match self.gpu.get() {
            Some(gpu) if self.state().is_recorded => self.settle(py, gpu),
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

    fn now_if_recorded(&self, py: Python<'_>) -> PyResult<Moment> {
        match (self.state().is_recorded, self.gpu.get()) {
            (false, _) => Ok(Moment::Unknown),
            (true, None) => Ok(Moment::Cpu(monotonic_nanos())),
            (true, Some(gpu)) => self.look(py, gpu),
        }
    }

    /// Puts an event into the GPU's stream.
    fn look(&self, py: Python<'_>, gpu: &Gpu) -> PyResult<Moment> {
        let began = monotonic_nanos();
        let event = gpu.clock.call_method0(py, intern!(py, "now"))?;
        self.state().spent_nanos += monotonic_nanos() - began;
        Ok(if event.is_none(py) {
            Moment::Unknown
        } else {
            Moment::Gpu(event)
        })
    }

    /// Stores what the GPU has finished by now.
    fn settle(&self, py: Python<'_>, gpu: &Gpu) -> PyResult<()> {
        let began = monotonic_nanos();
        gpu.clock
            .call_method1(py, intern!(py, "settle"), (false,))?;
        self.state().spent_nanos += monotonic_nanos() - began;
        Ok(())
    }

    fn store(
        &self,
        py: Python<'_>,
        name: &str,
        step: i64,
        began: Moment,
        ended: &Moment,
    ) -> PyResult<()> {
        match (began, ended) {
            (Moment::Cpu(began), Moment::Cpu(ended)) => {
                let timer = self.timer.get();
                timer.add_nanos(py, name, ended.saturating_sub(began), *ended)
            }
            (Moment::Gpu(began), Moment::Gpu(ended)) => match self.gpu.get() {
                Some(gpu) => {
                    let step = self.counts.then_some(step);
                    let store = intern!(py, "store");
                    let stored = gpu
                        .clock
                        .call_method1(py, store, (name, began, ended, step));
                    stored.map(|_| ())
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn count_samples(&self, py: Python<'_>, now_nanos: u64) -> PyResult<()> {
        let (samples, tokens) = {
            let mut state = self.state();
            let samples = std::mem::take(&mut state.samples);
            (samples, std::mem::take(&mut state.tokens))
        };
        if samples == 0 {
            return Ok(());
        }
        let throughput = self.throughput.get();
        throughput
            .add_at(py, samples as f64, tokens as f64, now_nanos)
            .map(|_| ())
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
