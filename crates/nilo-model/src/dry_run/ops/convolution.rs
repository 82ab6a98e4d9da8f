//! Convolutions. The workspace of the library is not counted: it is freed before anything else is allocated.

use std::rc::Rc;

use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Parameter, Tensor};

/// A convolution with a bias.
#[derive(Debug)]
pub(crate) struct Convolution {
    pub(crate) weight: Rc<Parameter>,
    pub(crate) bias: Rc<Parameter>,
}

impl DryRun {
    /// A convolution with so many numbers in its result. It keeps its input and its weight, whichever backward needs.
    pub(crate) fn convolution(&self, layer: &Convolution, x: &Tensor, count: u64) -> Tensor {
        let shift = self.computable(&layer.bias);
        let weight = self.computable(&layer.weight);
        let x = self.in_autocast_type(x);
        let operands = [&x, &weight, &shift];
        let is_recorded = self.is_recorded(&operands);
        let kept = match is_recorded {
            true => self.keep(&[&x, &weight]),
            false => Vec::new(),
        };
        let result = self.new_tensor(count, x.dtype);
        if !is_recorded {
            return result;
        }
        let sizes = operands.map(|operand| (operand.requires_grad(), operand.count));
        let dtype = x.dtype;
        self.record(&operands, kept, result, move |session, _, _| {
            sizes
                .map(|(is_needed, count)| is_needed.then(|| session.new_tensor(count, dtype)))
                .to_vec()
        })
    }
}
