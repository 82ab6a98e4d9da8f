//! Products of matrices.

use std::rc::Rc;

use crate::dry_run::memory::Purpose;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Parameter, Tensor};

/// A linear layer, with an adapter (LoRA) beside it or without.
#[derive(Debug)]
pub struct LinearLayer {
    pub(crate) weight: Rc<Parameter>,
    pub(crate) bias: Option<Rc<Parameter>>,
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
    pub(crate) adapter: Option<Adapter>,
}

/// Two thin matrices whose product is added to a frozen weight.
#[derive(Debug)]
pub(crate) struct Adapter {
    pub(crate) down: Rc<Parameter>,
    pub(crate) up: Rc<Parameter>,
    pub(crate) rank: u64,
    pub(crate) dropout: f64,
}

impl DryRun {
    /// A linear layer on rows of its inputs.
    pub(crate) fn linear(&self, layer: &LinearLayer, x: &Tensor) -> Tensor {
        let base = self.product(
            x,
            &layer.weight,
            layer.bias.as_ref(),
            layer.inputs,
            layer.outputs,
        );
        let Some(adapter) = &layer.adapter else {
            return base;
        };
        // As PEFT has it: the input in the type of the adapter, and the sum in that of the layer.
        let result_type = base.dtype;
        let input = self.cast(x, adapter.down.value.dtype);
        let input = self.dropout(&input, adapter.dropout);
        let low = self.product(&input, &adapter.down, None, layer.inputs, adapter.rank);
        drop(input);
        let high = self.product(&low, &adapter.up, None, adapter.rank, layer.outputs);
        drop(low);
        let scaled = self.mul_scalar(&high);
        drop(high);
        let sum = self.add(&base, &scaled);
        drop((base, scaled));
        self.cast(&sum, result_type)
    }

    /// Rows of `inputs` numbers times a matrix.
    pub(crate) fn product(
        &self,
        x: &Tensor,
        weight: &Rc<Parameter>,
        bias: Option<&Rc<Parameter>>,
        inputs: u64,
        outputs: u64,
    ) -> Tensor {
        // Arguments are evaluated from the last to the first.
        let shift = bias.map(|bias| self.computable(bias));
        let matrix = self.computable(weight);
        let x = self.in_autocast_type(x);
        // Of a packed weight, what is packed is kept.
        let stored = weight.unpacked.map(|dtype| (&weight.value, dtype));
        self.matrix_product([&x, &matrix], shift.as_ref(), stored, [inputs, outputs])
    }

    /// The product with a weight that is a tensor by now, in 32 bits where that is asked for and autocast does not convert it again.
    pub(crate) fn product_with(
        &self,
        x: &Tensor,
        matrix: &Tensor,
        dtype: Dtype,
        [inputs, outputs]: [u64; 2],
    ) -> Tensor {
        let wide = self.cast(x, dtype);
        let wide_matrix = self.cast(matrix, dtype);
        let (x, matrix) = (
            self.in_autocast_type(&wide),
            self.in_autocast_type(&wide_matrix),
        );
        self.matrix_product([&x, &matrix], None, None, [inputs, outputs])
    }

    fn matrix_product(
        &self,
        [x, matrix]: [&Tensor; 2],
        shift: Option<&Tensor>,
        stored: Option<(&Tensor, Dtype)>,
        [inputs, outputs]: [u64; 2],
    ) -> Tensor {
        // The bias comes first, as in `addmm`.
        let operands: Vec<&Tensor> = shift.into_iter().chain([x, matrix]).collect();
        let is_recorded = self.is_recorded(&operands);
        let (x_needs, weight_needs) = (x.requires_grad(), matrix.requires_grad());
        let packed = stored.map(|(_, dtype)| dtype);
        let mut kept = Vec::new();
        if is_recorded {
            if weight_needs {
                kept.extend(self.keep(&[x]));
            }
            if x_needs {
                kept.extend(self.keep(&[stored.map_or(matrix, |(stored, _)| stored)]));
            }
        }
        let rows = x.count / inputs;
        let result = self.multiplied(rows * outputs, x.dtype);
        if !is_recorded {
            return result;
        }
        let (x_count, weight_count, dtype) = (x.count, matrix.count, x.dtype);
        let has_bias = shift.is_some();
        self.record(&operands, kept, result, move |session, grad, _| {
            let gradient_of_weight =
                || weight_needs.then(|| session.multiplied(weight_count, dtype));
            // `mm` begins with the weight, `addmm` with the input.
            let early = if has_bias { None } else { gradient_of_weight() };
            let unpacked = packed.filter(|_| x_needs).map(|dtype| {
                session.new_tensor_for(Purpose::ConvertedWeights, weight_count, dtype)
            });
            let for_x = x_needs.then(|| session.multiplied(x_count, dtype));
            drop(unpacked);
            let for_weight = if has_bias {
                gradient_of_weight()
            } else {
                early
            };
            let mut gradients = vec![for_x, for_weight];
            if has_bias {
                gradients.insert(0, Some(grad.clone()));
            }
            gradients
        })
    }

    /// The result of a product of matrices, for which the library may take its workspace.
    pub(crate) fn multiplied(&self, count: u64, dtype: Dtype) -> Tensor {
        let result = self.new_tensor(count, dtype);
        self.memory.multiply();
        result
    }

    /// A product of two batches of matrices, with so many numbers in the result.
    pub(crate) fn batched_product(&self, a: &Tensor, b: &Tensor, count: u64) -> Tensor {
        let (a, b) = (self.in_autocast_type(a), self.in_autocast_type(b));
        let is_recorded = self.is_recorded(&[&a, &b]);
        let (a_needs, b_needs) = (a.requires_grad(), b.requires_grad());
        let mut kept = Vec::new();
        if is_recorded {
            if b_needs {
                kept.extend(self.keep(&[&a]));
            }
            if a_needs {
                kept.extend(self.keep(&[&b]));
            }
        }
        let result = self.multiplied(count, a.dtype);
        if !is_recorded {
            return result;
        }
        let (a_count, b_count, dtype) = (a.count, b.count, a.dtype);
        self.record(&[&a, &b], kept, result, move |session, _, _| {
            let for_b = b_needs.then(|| session.multiplied(b_count, dtype));
            let for_a = a_needs.then(|| session.multiplied(a_count, dtype));
            vec![for_a, for_b]
        })
    }

    /// What autocast converts before it multiplies.
    pub(crate) fn in_autocast_type(&self, x: &Tensor) -> Tensor {
        match self.autocast.get() {
            Some(dtype) => self.cast(x, dtype),
            None => x.clone(),
        }
    }

    /// A weight as it is multiplied with: unpacked, or converted by autocast, which remembers those that are trained.
    pub(crate) fn computable(&self, weight: &Rc<Parameter>) -> Tensor {
        if let Some(dtype) = weight.unpacked {
            return self.new_tensor_for(Purpose::ConvertedWeights, weight.value.count, dtype);
        }
        let Some(dtype) = self
            .autocast
            .get()
            .filter(|dtype| *dtype != weight.value.dtype)
        else {
            return weight.tensor();
        };
        if let Some(leaf) = weight.leaf
            && let Some(found) = self.converted.borrow().get(&leaf)
        {
            return found.clone();
        }
        let converted = self.part(Purpose::ConvertedWeights, || {
            self.cast(&weight.tensor(), dtype)
        });
        if let Some(leaf) = weight.leaf {
            self.converted.borrow_mut().insert(leaf, converted.clone());
        }
        converted
    }
}
