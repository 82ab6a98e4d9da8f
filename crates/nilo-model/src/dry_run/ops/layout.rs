//! Tensors in another order, and parts of tensors by numbers and masks.

use std::rc::Rc;

use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Parameter, Tensor};

/// Which passes copy a tensor to have its numbers in the order that the next operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copies {
    pub(crate) forward: bool,
    pub(crate) backward: bool,
}

impl Copies {
    pub(crate) const BOTH: Self = Self {
        forward: true,
        backward: true,
    };
    pub(crate) const NONE: Self = Self {
        forward: false,
        backward: false,
    };
    pub(crate) const FORWARD: Self = Self {
        forward: true,
        backward: false,
    };
    pub(crate) const BACKWARD: Self = Self {
        forward: false,
        backward: true,
    };
}

impl DryRun {
    /// A tensor in another order.
    pub(crate) fn reordered(&self, x: &Tensor, copies: Copies) -> Tensor {
        if copies == Copies::NONE {
            return x.clone();
        }
        let result = match copies.forward {
            true => self.new_like(x),
            false => x.detached(),
        };
        if !self.is_recorded(&[x]) {
            return result;
        }
        self.record(&[x], Vec::new(), result, move |session, grad, _| {
            vec![Some(match copies.backward {
                true => session.new_like(grad),
                false => grad.clone(),
            })]
        })
    }

    /// Rows of a table by their numbers, as indexing does it: backward puts the gradients into zeros.
    pub(crate) fn indexed(&self, table: &Rc<Parameter>, width: u64, numbers: &Tensor) -> Tensor {
        let table = table.tensor();
        let is_recorded = self.is_recorded(&[&table]);
        let kept = match is_recorded {
            true => self.keep(&[numbers]),
            false => Vec::new(),
        };
        let result = self.new_tensor(numbers.count * width, table.dtype);
        if !is_recorded {
            return result;
        }
        let (count, dtype) = (table.count, table.dtype);
        self.record(&[&table], kept, result, move |session, _, _| {
            vec![Some(session.new_tensor(count, dtype))]
        })
    }

    /// What a mask of one byte a number leaves of a tensor; the rest is one value.
    pub(crate) fn selected(&self, x: &Tensor, mask: &Tensor) -> Tensor {
        let is_recorded = self.is_recorded(&[x]);
        let kept = match is_recorded {
            true => self.keep(&[mask]),
            false => Vec::new(),
        };
        let result = self.new_like(x);
        if !is_recorded {
            return result;
        }
        self.record(&[x], kept, result, |session, grad, _| {
            vec![Some(session.new_like(grad))]
        })
    }

    /// Takes part in the graph, though nobody wants its gradient.
    pub(crate) fn with_unused_gradient(&self, x: Tensor) -> Tensor {
        match self.is_grad_enabled.get() {
            true => self.record(&[], Vec::new(), x, |_, _, _| Vec::new()),
            false => x,
        }
    }
}
