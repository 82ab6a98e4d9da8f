//! Normalization as T5 has it: rows are scaled, not shifted, by their mean square in 32 bits.

use std::rc::Rc;

use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Parameter, Tensor};

impl DryRun {
    /// The type of the input is kept, unless the weight has 16 bits.
    pub(crate) fn scaled_rms_norm(&self, x: &Tensor, weight: &Rc<Parameter>) -> Tensor {
        let variance = {
            let square = {
                let wide = self.cast(x, Dtype::F32);
                self.power(&wide)
            };
            self.mean_of_rows(&square, weight.count())
        };
        let mut rows = {
            let inverse = {
                let above_zero = self.add_scalar(&variance);
                self.rsqrt(&above_zero)
            };
            self.mul(x, &inverse)
        };
        if weight.value.dtype.is_half() {
            rows = self.cast(&rows, weight.value.dtype);
        }
        let result = self.mul(&weight.tensor(), &rows);
        drop(rows);
        drop(variance);
        result
    }
}
