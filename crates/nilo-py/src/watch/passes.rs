//! What the hooks tell: the model is entered and left, gradients come, the optimizer steps, a loader is asked.

use nilo_runfile::monotonic_nanos;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::state::{EventTime, INFERENCE};
use super::steps::Steps;

impl Steps {
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
                INFERENCE
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
                state.optimizer_began = EventTime::Unknown;
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
            (false, _) => EventTime::Unknown,
            (true, None) => EventTime::Cpu(now_nanos),
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
}
