//! Moments are looked at, and the phases between them stored.
//!
//! The phases of a step are stored together when it ends: writing a row between two long computations finds nothing of itself
//! in the processor's caches, and four of them one by one cost three times as much. A killed job loses those of the step that it was in.

use nilo_runfile::monotonic_nanos;
use pyo3::intern;
use pyo3::prelude::*;

use super::state::{EventTime, Finished, LoopState};
use super::steps::{Gpu, Steps};
use crate::phase_timer::Timed;
use crate::shared::SharedRun;

/// Phases held back at most; a step of many forwards has more.
const MOST_HELD_BACK: usize = 64;

impl Steps {
    /// Notes what happens at this moment, which is looked at if the step is recorded.
    pub(super) fn with_now<T>(
        &self,
        py: Python<'_>,
        note: impl FnOnce(&mut LoopState, EventTime) -> T,
    ) -> PyResult<T> {
        let mut state = self.state();
        if !state.is_recorded {
            return Ok(note(&mut state, EventTime::Unknown));
        }
        let Some(gpu) = self.gpu.get() else {
            return Ok(note(&mut state, EventTime::Cpu(monotonic_nanos())));
        };
        drop(state);
        let now = self.look(py, gpu)?;
        Ok(note(&mut self.state(), now))
    }

    /// Puts an event into the GPU's stream.
    pub(super) fn look(&self, py: Python<'_>, gpu: &Gpu) -> PyResult<EventTime> {
        let event = self.on_gpu(|| gpu.clock.call_method0(py, intern!(py, "now")))?;
        Ok(if event.is_none(py) {
            EventTime::Unknown
        } else {
            EventTime::Gpu(event)
        })
    }

    /// Counts what something costs towards the budget for timing.
    pub(super) fn on_gpu<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = monotonic_nanos();
        let outcome = work();
        self.state().spent_nanos += monotonic_nanos() - began;
        outcome
    }

    /// Stores what is held back when it should not wait for the end of the step, or is a lot.
    pub(super) fn flush_if(&self, py: Python<'_>, is_wanted: bool) -> PyResult<()> {
        // Who counts the steps elsewhere may be at the next one when this one ends.
        if is_wanted || !self.counts || self.state().finished.len() >= MOST_HELD_BACK {
            let run = self.destination.get(py)?;
            return self.flush(py, &run);
        }
        Ok(())
    }

    pub(super) fn flush(&self, py: Python<'_>, run: &SharedRun) -> PyResult<()> {
        let step_of = |finished: &Finished| self.counts.then_some(finished.step);
        let Some(gpu) = self.gpu.get() else {
            let mut state = self.state();
            let timed = state.finished.drain(..).filter_map(|finished| {
                let (EventTime::Cpu(began), EventTime::Cpu(ended)) =
                    (&finished.began, &finished.ended)
                else {
                    return None;
                };
                Some(Timed {
                    name: finished.name,
                    nanos: ended.saturating_sub(*began),
                    ended_nanos: *ended,
                    step: step_of(&finished),
                    weight: finished.weight,
                })
            });
            self.timer.get().add_all(run, timed);
            return Ok(());
        };
        let finished = std::mem::take(&mut self.state().finished);
        for finished in finished {
            let step = step_of(&finished);
            if let (EventTime::Gpu(began), EventTime::Gpu(ended)) = (finished.began, finished.ended)
            {
                let store = (finished.name, began, ended, step, finished.weight);
                self.on_gpu(|| gpu.clock.call_method1(py, intern!(py, "store"), store))?;
            }
        }
        Ok(())
    }

    pub(super) fn count_samples(&self, run: &SharedRun, now_nanos: u64) {
        let mut state = self.state();
        let samples = std::mem::take(&mut state.samples);
        let tokens = std::mem::take(&mut state.tokens);
        if samples > 0 {
            let throughput = self.throughput.get();
            throughput.add_at(run, samples as f64, tokens as f64, now_nanos);
        }
    }

    pub(super) fn measure_memory(&self, py: Python<'_>, gpu: &Gpu, now_nanos: u64) -> PyResult<()> {
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
