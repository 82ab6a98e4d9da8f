//! What is asked of torch in every step, looked up once.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

/// Parts of torch and of `nilometer.torch`, handed over as a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Torch {
    /// `torch.Tensor`.
    tensor: Py<PyType>,
    /// `torch.int64` and `torch.int32`.
    whole: (Py<PyAny>, Py<PyAny>),
    /// `torch.is_grad_enabled`.
    is_grad_enabled: Py<PyAny>,
    /// The module `torch.compiler`, whose flag says that a graph is being traced.
    compiler: Py<PyAny>,
    /// The autograd engine's `queue_callback`.
    queue_callback: Py<PyAny>,
    /// A tensor without elements: it carries hooks to where gradients enter a graph.
    carrier: Py<PyAny>,
    /// `nilometer.torch.batch_size`, for batches that are not plain tensors.
    batch_size: Py<PyAny>,
    /// `nilometer.torch._gradient_nodes`, for outputs that are not plain tensors.
    gradient_nodes: Py<PyAny>,
    /// `nilometer.torch._say`: what becomes of an exception.
    say: Py<PyAny>,
}

impl Torch {
    /// Whether a graph is being traced: then there is nothing to time.
    pub(crate) fn is_compiling(&self, py: Python<'_>) -> bool {
        let flag = self
            .compiler
            .bind(py)
            .getattr(intern!(py, "_is_compiling_flag"));
        flag.and_then(|flag| flag.is_truthy()).unwrap_or(false)
    }

    pub(crate) fn is_grad_enabled(&self, py: Python<'_>) -> PyResult<bool> {
        self.is_grad_enabled.bind(py).call0()?.is_truthy()
    }

    /// Has a hook called when the engine has nothing left to do.
    pub(crate) fn call_at_end_of_backward(
        &self,
        py: Python<'_>,
        hook: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.queue_callback.bind(py).call1((hook,)).map(|_| ())
    }

    /// Samples and tokens of what a model is called with.
    pub(crate) fn batch_size(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(u64, u64)> {
        // Nearly always the first argument is the tensor.
        if let Ok(first) = args.get_borrowed_item(0)
            && first.get_type().is(&self.tensor)
        {
            let shape = first.getattr(intern!(py, "shape"))?;
            let shape = shape.cast::<PyTuple>()?;
            if shape.is_empty() {
                return Ok((0, 0));
            }
            let samples: u64 = shape.get_borrowed_item(0)?.extract()?;
            if shape.len() != 2 {
                return Ok((samples, 0));
            }
            let kind = first.getattr(intern!(py, "dtype"))?;
            let is_tokens = kind.is(&self.whole.0) || kind.is(&self.whole.1);
            if !is_tokens {
                return Ok((samples, 0));
            }
            let width: u64 = shape.get_borrowed_item(1)?.extract()?;
            return Ok((samples, samples * width));
        }
        let batch_size = self.batch_size.bind(py);
        if !args.is_empty() {
            let found: (u64, u64) = batch_size.call1((args,))?.extract()?;
            if found.0 > 0 {
                return Ok(found);
            }
        }
        match kwargs {
            Some(kwargs) => batch_size.call1((kwargs,))?.extract(),
            None => Ok((0, 0)),
        }
    }

    /// Puts a hook where gradients enter the graph of a model's output. The output stays as it is, and nothing of it is kept.
    pub(crate) fn hook_gradients<'py>(
        &self,
        output: &Bound<'py, PyAny>,
        hook: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let py = output.py();
        if output.get_type().is(&self.tensor) {
            let node = output.getattr(intern!(py, "grad_fn"))?;
            if node.is_none() {
                return Ok(());
            }
            return self.hook_nodes(py, std::iter::once(node), &hook()?);
        }
        let nodes = self.gradient_nodes.bind(py).call1((output,))?;
        let nodes = nodes.cast::<PyList>()?;
        if nodes.is_empty() {
            return Ok(());
        }
        self.hook_nodes(py, nodes.iter(), &hook()?)
    }

    /// `node.register_prehook(hook)` would make its dictionary and a handle in Python, which takes as long as everything else of a step.
    /// A dictionary of hooks can be handed over as it is, but only by a tensor that carries it.
    fn hook_nodes<'py>(
        &self,
        py: Python<'py>,
        nodes: impl Iterator<Item = Bound<'py, PyAny>>,
        hook: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let carrier = self.carrier.bind(py);
        let hooks = PyDict::new(py);
        hooks.set_item(0, hook)?;
        carrier.setattr(intern!(py, "_backward_hooks"), hooks)?;
        let mut outcome = Ok(());
        for node in nodes {
            let register = node.call_method1(intern!(py, "_register_hook_dict"), (carrier,));
            outcome = outcome.and(register.map(|_| ()));
        }
        outcome
    }

    /// Lets go of the hooks of the last forward, which the carrier still has.
    pub(crate) fn release_hooks(&self, py: Python<'_>) -> PyResult<()> {
        let carrier = self.carrier.bind(py);
        carrier.setattr(intern!(py, "_backward_hooks"), py.None())
    }

    /// Turns trouble into a warning: training is worth more than its record. What is not an `Exception`, such as an interrupt, goes on.
    pub(crate) fn guard(&self, py: Python<'_>, outcome: PyResult<()>) -> PyResult<()> {
        match outcome {
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyException>(py) => {
                self.say.call1(py, (error,)).map(|_| ())
            }
            other => other,
        }
    }
}
