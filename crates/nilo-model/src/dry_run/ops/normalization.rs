//! Normalization of rows.

use std::rc::Rc;

use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Parameter, Tensor};

impl DryRun {
    /// The kernel of PyTorch, which keeps its input and the mean and deviation of each row. Autocast computes it in 32 bits.
    pub(crate) fn layer_norm(
        &self,
        x: &Tensor,
        weight: &Rc<Parameter>,
        bias: Option<&Rc<Parameter>>,
    ) -> Tensor {
        let x = match self.autocast.get() {
            Some(_) => self.cast(x, Dtype::F32),
            None => x.clone(),
        };
        let scale = weight.tensor();
        let shift = bias.map(|bias| bias.tensor());
        let mut inputs = vec![&x, &scale];
        inputs.extend(shift.as_ref());
        let is_recorded = self.is_recorded(&inputs);
        let kept_inputs = match is_recorded {
            true => self.keep(&inputs),
            false => Vec::new(),
        };
        let result = self.new_like(&x);
        let rows = x.count / scale.count;
        let mean = self.new_tensor(rows, Dtype::F32);
        let deviation = self.new_tensor(rows, Dtype::F32);
        if !is_recorded {
            return result;
        }
        let mut kept = kept_inputs;
        kept.extend(self.keep(&[&mean, &deviation]));
        drop((mean, deviation));
        let (count, dtype) = (x.count, x.dtype);
        let (width, width_type) = (scale.count, scale.dtype);
        let needs: Vec<bool> = inputs.iter().map(|input| input.requires_grad()).collect();
        self.record(&inputs, kept, result, move |session, _, _| {
            let mut gradients = vec![needs[0].then(|| session.new_tensor(count, dtype))];
            for needed in &needs[1..] {
                gradients.push(needed.then(|| session.new_tensor(width, width_type)));
            }
            gradients
        })
    }

    /// As Llama's code has it: in 32 bits, one operation after another, and the weight in the type of the input.
    pub(crate) fn rms_norm(&self, x: &Tensor, weight: &Rc<Parameter>, width: u64) -> Tensor {
        let (normal, variance) = self.normalized(x, width, true);
        let narrow = self.cast(&normal, x.dtype);
        let result = self.mul(&weight.tensor(), &narrow);
        // Names of the function hold these up to its end.
        drop(narrow);
        drop(normal);
        drop(variance);
        result
    }

    /// As Gemma's code has it: the weight plus 1 in 32 bits, and all converted at the end.
    pub(crate) fn rms_norm_in_32_bits(
        &self,
        x: &Tensor,
        weight: &Rc<Parameter>,
        width: u64,
    ) -> Tensor {
        let normal = self.normalized(x, width, false).0;
        let scale = self.add_scalar(&self.cast(&weight.tensor(), Dtype::F32));
        let scaled = self.mul(&normal, &scale);
        drop(scale);
        drop(normal);
        self.cast(&scaled, x.dtype)
    }

    /// As OLMo 2's code has it: the weight in 32 bits, and all converted at the end.
    pub(crate) fn rms_norm_then_cast(
        &self,
        x: &Tensor,
        weight: &Rc<Parameter>,
        width: u64,
    ) -> Tensor {
        let (normal, variance) = self.normalized(x, width, true);
        let scaled = self.mul(&weight.tensor(), &normal);
        let result = self.cast(&scaled, x.dtype);
        drop(scaled);
        drop(normal);
        drop(variance);
        result
    }

    /// Rows divided by the root of their mean square, in 32 bits, and the mean squares.
    /// Where these have a name, that holds them.
    fn normalized(&self, x: &Tensor, width: u64, has_name: bool) -> (Tensor, Option<Tensor>) {
        let wide = self.cast(x, Dtype::F32);
        let square = self.power(&wide);
        let variance = self.mean_of_rows(&square, width);
        drop(square);
        let above_zero = self.add_scalar(&variance);
        let variance = has_name.then_some(variance);
        let inverse = self.rsqrt(&above_zero);
        drop(above_zero);
        let normal = self.mul(&wide, &inverse);
        drop(inverse);
        (normal, variance)
    }
}
