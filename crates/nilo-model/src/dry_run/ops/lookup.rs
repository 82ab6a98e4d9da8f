//! Rows of a table.

use std::rc::Rc;

use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Parameter, Tensor};

impl DryRun {
    /// The rows of a table of embeddings. Its gradient is as large as the table.
    pub(crate) fn embedding(&self, table: &Rc<Parameter>, width: u64, indices: &Tensor) -> Tensor {
        let weight = table.tensor();
        let is_recorded = self.is_recorded(&[&weight]);
        let kept = match is_recorded {
            true => self.keep(&[indices]),
            false => Vec::new(),
        };
        let result = self.new_tensor(indices.count * width, weight.dtype);
        if !is_recorded {
            return result;
        }
        let (count, dtype) = (weight.count, weight.dtype);
        self.record(&[&weight], kept, result, move |session, _, _| {
            vec![Some(session.new_tensor(count, dtype))]
        })
    }
}
