//! Attention one operation after another: where the code of a model says so, and where a learned bias needs a gradient that no kernel computes.

use super::attention::AttentionShape;
use super::layout::Copies;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Tensor};

/// What differs between models that compute attention step by step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttentionSteps<'a> {
    pub(crate) scaling: Scaling,
    /// Which of queries, keys and values have the rows of a head apart from each other, as heads are columns of one matrix.
    pub(crate) is_apart: [bool; 3],
    /// Masks and position biases, added to the scores one after the other.
    pub(crate) biases: [Option<&'a Tensor>; 2],
    pub(crate) dropout: f64,
    /// Whether softmax gives 32 bits, which are converted back.
    pub(crate) is_softmax_wide: bool,
}

/// What is divided by the root of the size of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scaling {
    /// The scores.
    Scores,
    /// Queries and keys, as in PyTorch's own attention without a kernel.
    QueriesAndKeys,
}

impl DryRun {
    /// The attended rows, and the weights of all pairs of tokens where the code of the model returns them.
    pub(crate) fn attention_by_steps(
        &self,
        [q, k, v]: [&Tensor; 3],
        shape: AttentionShape,
        steps: AttentionSteps<'_>,
    ) -> (Tensor, Option<Tensor>) {
        let is_many = shape.batch > 1;
        let [q_apart, k_apart, v_apart] = steps.is_apart;
        // Gradients come with the rows of a head together: whoever made queries, keys and values copies those.
        let copies = Copies {
            forward: is_many,
            backward: false,
        };
        let together = |x: &Tensor, is_apart: bool| match is_apart {
            true => self.reordered(x, copies),
            false => x.clone(),
        };
        let are_inputs_scaled = steps.scaling == Scaling::QueriesAndKeys;
        let scores = {
            let (q, k) = match are_inputs_scaled {
                true => (self.mul_scalar(q), self.mul_scalar(k)),
                false => (q.clone(), k.clone()),
            };
            let (rows, columns) = (together(&q, q_apart), together(&k, k_apart));
            let pairs = shape.batch * shape.heads * shape.queries * shape.keys;
            self.batched_product(&rows, &columns, pairs)
        };
        // PyTorch's own attention holds the scores up to its end.
        let held = are_inputs_scaled.then(|| scores.clone());
        let mut weights = match are_inputs_scaled {
            true => scores.clone(),
            false => self.mul_scalar(&scores),
        };
        drop(scores);
        for bias in steps.biases.into_iter().flatten() {
            weights = self.add(&weights, bias);
        }
        // Autocast does not see what PyTorch's own attention does.
        let is_widened = self.autocast.get().is_some() && !are_inputs_scaled;
        let is_wide = steps.is_softmax_wide || is_widened;
        weights = {
            let wide = {
                let scores = match is_wide {
                    true => self.cast(&weights, Dtype::F32),
                    false => weights.clone(),
                };
                self.softmax(&scores, scores.dtype)
            };
            match steps.is_softmax_wide {
                true => self.cast(&wide, q.dtype),
                false => wide,
            }
        };
        weights = self.dropout(&weights, steps.dropout);
        let count = shape.batch * shape.heads * shape.queries * shape.value_dim;
        let rows = {
            let narrow = self.in_autocast_type(&weights);
            let values = together(v, v_apart);
            self.batched_product(&narrow, &values, count)
        };
        drop(held);
        let returned = (!are_inputs_scaled).then(|| weights.clone());
        drop(weights);
        let copies = Copies {
            forward: true,
            backward: is_many,
        };
        (self.reordered(&rows, copies), returned)
    }
}
