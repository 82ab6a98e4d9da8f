//! Where a training loop is, and the phases of its step that are over.

use pyo3::prelude::*;

use super::budget::TimeBudget;

/// When something happened: on the CPU's clock, or where an event lies in the GPU's stream.
#[derive(Default)]
pub(super) enum EventTime {
    /// Nobody looked.
    #[default]
    Unknown,
    Cpu(u64),
    Gpu(Py<PyAny>),
}

impl EventTime {
    pub(super) fn clone_ref(&self, py: Python<'_>) -> EventTime {
        match self {
            EventTime::Unknown => EventTime::Unknown,
            EventTime::Cpu(nanos) => EventTime::Cpu(*nanos),
            EventTime::Gpu(event) => EventTime::Gpu(event.clone_ref(py)),
        }
    }

    pub(super) fn is_known(&self) -> bool {
        !matches!(self, EventTime::Unknown)
    }
}

/// The phase of a call without gradients.
pub(super) const INFERENCE: &str = "inference";

/// A phase that is over.
pub(super) struct Finished {
    pub(super) name: &'static str,
    pub(super) step: i64,
    pub(super) began: EventTime,
    pub(super) ended: EventTime,
    /// How many steps it stands for.
    pub(super) weight: u64,
}

/// Where the loop is.
#[derive(Default)]
pub(super) struct LoopState {
    pub(super) step: i64,
    pub(super) is_recorded: bool,
    /// Steps since the one recorded before, for which this one stands.
    pub(super) steps_since_recorded: u64,
    /// Whether the step after this one will be; decided where this one ends, since the wait for data begins there.
    pub(super) is_next_recorded: bool,
    pub(super) has_stepped: bool,
    pub(super) is_clock_sure: bool,
    pub(super) has_loader: bool,
    pub(super) has_gradients: bool,
    pub(super) is_in_backward: bool,
    /// Calls of the model within calls of the model.
    pub(super) depth: u32,
    pub(super) optimizer_depth: u32,
    pub(super) samples: u64,
    pub(super) tokens: u64,
    /// Samples and tokens of the forward that the model is at.
    pub(super) batch: (u64, u64),
    pub(super) forward_began: EventTime,
    pub(super) backward_began: EventTime,
    pub(super) optimizer_began: EventTime,
    pub(super) loader_began: EventTime,
    pub(super) idle_since: EventTime,
    pub(super) finished: Vec<Finished>,
    pub(super) timing: TimeBudget,
    pub(super) memory: TimeBudget,
    /// What looking at the GPU has cost in this step.
    pub(super) spent_nanos: u64,
}

impl LoopState {
    pub(super) fn finish(&mut self, name: &'static str, began: EventTime, ended: EventTime) {
        if began.is_known() && ended.is_known() {
            // Evaluations come at steps of their own choice: what is seen of them stands for itself.
            let weight = match name {
                INFERENCE => 1,
                _ => self.steps_since_recorded,
            };
            self.finished.push(Finished {
                name,
                step: self.step,
                began,
                ended,
                weight,
            });
        }
    }
}
