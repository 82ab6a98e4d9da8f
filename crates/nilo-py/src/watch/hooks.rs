//! The objects that torch calls, and the handle that `nilometer.torch.Watch` has on them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pyo3::exceptions::PyReferenceError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyNone, PyTuple, PyWeakrefMethods, PyWeakrefReference};

use super::steps::Steps;
use super::torch::Torch;
use crate::destination::Destination;
use crate::phase_timer::PhaseTimer;
use crate::run::Run;
use crate::throughput::Throughput;

/// The steps of one watched model.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct StepWatch {
    steps: Arc<Steps>,
}

#[pymethods]
impl StepWatch {
    /// `pick_clock` is called before the first forward, and calls `use_gpu` when the model lies on one.
    #[new]
    #[pyo3(signature = (torch, timer, throughput, pick_clock, *, run=None, step=None, every=None))]
    fn new(
        torch: Torch,
        timer: Py<PhaseTimer>,
        throughput: Py<Throughput>,
        pick_clock: Py<PyAny>,
        run: Option<&Bound<'_, Run>>,
        step: Option<i64>,
        every: Option<i64>,
    ) -> StepWatch {
        let destination = Destination::new(run.map(Bound::get));
        let classes = (timer, throughput);
        StepWatch {
            steps: Arc::new(Steps::new(
                torch,
                classes,
                destination,
                step,
                every,
                pick_clock,
            )),
        }
    }

    /// The step that training is at, or that comes next.
    #[getter]
    fn step(&self) -> i64 {
        self.steps.step()
    }

    /// Whether `close` was called.
    #[getter]
    fn is_over(&self) -> bool {
        self.steps.is_over()
    }

    /// Says which step training is at.
    fn tell_step(&self, py: Python<'_>) -> PyResult<()> {
        self.steps.tell_step(py)
    }

    /// Times by a GPU's clock from here on, and reads its memory.
    fn use_gpu(&self, clock: Py<PyAny>, measure_memory: Py<PyAny>) {
        self.steps.use_gpu(clock, measure_memory);
    }

    /// What stands in for a module's own call; `previous` is what stood there before.
    fn call(
        &self,
        module: &Bound<'_, PyAny>,
        owner: Py<PyAny>,
        previous: Option<Py<PyAny>>,
    ) -> PyResult<WatchedCall> {
        Ok(WatchedCall {
            steps: Arc::clone(&self.steps),
            module: PyWeakrefReference::new(module)?.unbind(),
            owner,
            previous,
        })
    }

    /// The hooks before and after an optimizer's step; with `owns`, for any optimizer of which it says True.
    #[pyo3(signature = (owns=None))]
    fn optimizer_hooks(
        &self,
        py: Python<'_>,
        owns: Option<Py<PyAny>>,
    ) -> (OptimizerHook, OptimizerHook) {
        let hook = |is_before, owns| OptimizerHook {
            steps: Arc::downgrade(&self.steps),
            is_before,
            owns,
            known: Mutex::default(),
        };
        let for_before = owns.as_ref().map(|owns| owns.clone_ref(py));
        (hook(true, for_before), hook(false, owns))
    }

    /// As a hook on the module: it is called.
    fn before_forward(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        let outcome = self.steps.before_forward(py, args, Some(kwargs));
        self.steps.torch.guard(py, outcome)
    }

    /// As a hook on the module: it was left, with None by an exception.
    fn after_forward<'py>(
        &self,
        py: Python<'py>,
        output: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        after_forward(&self.steps, py, output)
    }

    /// A loader is asked for a batch.
    fn before_batch(&self, py: Python<'_>) -> PyResult<()> {
        let outcome = self.steps.before_batch(py);
        self.steps.torch.guard(py, outcome)
    }

    /// The loader has given it.
    fn after_batch(&self, py: Python<'_>) -> PyResult<()> {
        let outcome = self.steps.after_batch(py);
        self.steps.torch.guard(py, outcome)
    }

    /// Stores what is held back, and waits for phases that the GPU is still at.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        self.steps.settle(py)
    }

    /// Ends it, and waits for phases that the GPU is still at.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.steps.close(py)
    }
}

fn after_forward<'py>(
    steps: &Arc<Steps>,
    py: Python<'py>,
    output: Option<&Bound<'py, PyAny>>,
) -> PyResult<()> {
    let outcome = steps.after_forward(py, output, |samples, tokens| {
        let hook = GraphHook {
            steps: Arc::clone(steps),
            samples,
            tokens,
            is_counted: AtomicBool::new(false),
        };
        Ok(Bound::new(py, hook)?.into_any())
    });
    steps.torch.guard(py, outcome)
}

/// Stands where torch keeps the compiled form of a module's call: hooks on the module would make torch go a way that is three times as long.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct WatchedCall {
    steps: Arc<Steps>,
    /// Weak, since the module holds this.
    module: Py<PyWeakrefReference>,
    /// The watch lives as long as the module does.
    owner: Py<PyAny>,
    previous: Option<Py<PyAny>>,
}

#[pymethods]
impl WatchedCall {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let steps = &self.steps;
        if steps.is_over() || steps.torch.is_compiling(py) {
            return self.call_module(py, args, kwargs);
        }
        let outcome = steps.before_forward(py, args, kwargs);
        steps.torch.guard(py, outcome)?;
        let output = self.call_module(py, args, kwargs);
        let stored = after_forward(steps, py, output.as_ref().ok());
        // The module's own exception is the one to be told.
        output.and_then(|output| stored.map(|()| output))
    }

    /// The watch that this call belongs to.
    #[getter]
    fn owner(&self, py: Python<'_>) -> Py<PyAny> {
        self.owner.clone_ref(py)
    }

    /// What stood in this place before.
    #[getter]
    fn previous(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.previous
            .as_ref()
            .map(|previous| previous.clone_ref(py))
    }

    /// Copied and saved as None: a copy of a model is not watched, and a saved model loads where Nilometer is not installed.
    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, Bound<'py, PyTuple>) {
        let none_type = PyNone::get(py).get_type().into_any();
        (none_type, PyTuple::empty(py))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        visit.call(&self.previous)
    }
}

impl WatchedCall {
    fn call_module<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(previous) = &self.previous {
            return previous.bind(py).call(args, kwargs);
        }
        let Some(module) = self.module.bind(py).upgrade() else {
            return Err(PyReferenceError::new_err("the watched module is gone"));
        };
        module
            .getattr(intern!(py, "_call_impl"))?
            .call(args, kwargs)
    }
}

/// Sits where gradients enter the graph of one forward, and counts what went into it when the first one comes.
/// Called with a gradient backward has begun; without one it has ended.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct GraphHook {
    steps: Arc<Steps>,
    samples: u64,
    tokens: u64,
    is_counted: AtomicBool,
}

#[pymethods]
impl GraphHook {
    #[pyo3(signature = (*gradients))]
    fn __call__(slf: &Bound<'_, GraphHook>, gradients: &Bound<'_, PyTuple>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let outcome = if gradients.is_empty() {
            this.steps.after_backward(py)
        } else {
            let is_counted = this.is_counted.swap(true, Ordering::Relaxed);
            let batch = (!is_counted).then_some((this.samples, this.tokens));
            this.steps.before_backward(py, batch, slf.as_any())
        };
        this.steps.torch.guard(py, outcome)
    }
}

/// A hook around an optimizer's step. Weak, since hooks on all optimizers outlive the model.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct OptimizerHook {
    steps: Weak<Steps>,
    is_before: bool,
    /// Whether an optimizer is one of the model's; `None` when it is known to be.
    owns: Option<Py<PyAny>>,
    /// What was said of the optimizers so far.
    known: Mutex<Vec<(Py<PyWeakrefReference>, bool)>>,
}

#[pymethods]
impl OptimizerHook {
    fn __call__(
        &self,
        optimizer: &Bound<'_, PyAny>,
        _args: &Bound<'_, PyAny>,
        _kwargs: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = optimizer.py();
        let Some(steps) = self.steps.upgrade() else {
            return Ok(());
        };
        let outcome = match self.is_ours(optimizer) {
            Ok(false) => return Ok(()),
            Ok(true) if self.is_before => steps.before_optimizer(py),
            Ok(true) => steps.after_optimizer(py),
            Err(error) => Err(error),
        };
        steps.torch.guard(py, outcome)
    }
}

impl OptimizerHook {
    fn is_ours(&self, optimizer: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Some(owns) = &self.owns else {
            return Ok(true);
        };
        let py = optimizer.py();
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |(reference, _): &&(Py<PyWeakrefReference>, bool)| {
            let held = reference.bind(py).upgrade();
            held.is_some_and(|held| held.is(optimizer))
        };
        if let Some((_, is_ours)) = known().iter().find(is_it) {
            return Ok(*is_ours);
        }
        let is_ours = owns.bind(py).call1((optimizer,))?.is_truthy()?;
        let reference = PyWeakrefReference::new(optimizer)?.unbind();
        let mut known = known();
        known.retain(|(reference, _)| reference.bind(py).upgrade().is_some());
        known.push((reference, is_ours));
        Ok(is_ours)
    }
}
