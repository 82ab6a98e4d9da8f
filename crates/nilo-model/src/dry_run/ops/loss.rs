//! The loss of a classification over all words.

use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Tensor};

impl DryRun {
    /// Cross entropy of rows of scores, in 32 bits under autocast.
    pub(crate) fn cross_entropy(&self, scores: &Tensor, labels: &Tensor, classes: u64) -> Tensor {
        let scores = match self.autocast.get() {
            Some(_) => self.cast(scores, Dtype::F32),
            None => scores.clone(),
        };
        let logarithms = self.log_softmax(scores);
        let rows = logarithms.count / classes;
        let dtype = logarithms.dtype;
        let is_recorded = self.is_recorded(&[&logarithms]);
        let mut kept = match is_recorded {
            true => self.keep(&[&logarithms, labels]),
            false => Vec::new(),
        };
        let result = self.new_tensor(1, dtype);
        let total_weight = self.new_tensor(1, dtype);
        if !is_recorded {
            return result;
        }
        kept.extend(self.keep(&[&total_weight]));
        self.record(&[&logarithms], kept, result, move |session, _, _| {
            vec![Some(session.new_tensor(rows * classes, dtype))]
        })
    }

    fn log_softmax(&self, scores: Tensor) -> Tensor {
        let result = self.new_like(&scores);
        if !self.is_recorded(&[&scores]) {
            return result;
        }
        let kept = self.keep(&[&result]);
        self.record(&[&scores], kept, result, |session, _, kept| {
            vec![Some(session.new_like(&kept[0]))]
        })
    }
}
