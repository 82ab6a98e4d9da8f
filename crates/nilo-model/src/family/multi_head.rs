//! Attention of encoders and of decoders that see them: projections to heads, the kernel, and the projection behind it.

use std::cell::RefCell;

use super::build::{Build, Place};
use super::encoder_shape::LayerShape;
use crate::dry_run::memory::Purpose;
use crate::dry_run::ops::attention_steps::{AttentionSteps, Scaling};
use crate::dry_run::ops::layout::Copies;
use crate::dry_run::ops::{AttentionKernel, AttentionShape, LinearLayer};
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::Tensor;

/// How a family writes attention down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttentionStyle {
    /// Softmax in the type of the scores.
    Plain,
    /// Softmax in 32 bits.
    WideSoftmax,
    /// Queries are scaled, and the rows of each head put together, before the kernel; keys have no bias.
    Together,
}

/// Attention with heads.
#[derive(Debug)]
pub(crate) struct MultiHeadAttention {
    style: AttentionStyle,
    query: LinearLayer,
    key: LinearLayer,
    value: LinearLayer,
    pub(crate) output: LinearLayer,
    heads: u64,
    head_dim: u64,
    dropout: f64,
}

/// Who asks, and who is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttentionCall<'a> {
    pub(crate) batch: u64,
    pub(crate) queries: u64,
    pub(crate) keys: u64,
    /// The rows that are asked, where they are not the ones that ask.
    pub(crate) context: Option<&'a Tensor>,
    /// What attention step by step adds to the scores; kernels do without.
    pub(crate) mask: Option<&'a Tensor>,
    pub(crate) kernel: AttentionKernel,
    pub(crate) cache: Option<&'a PassCache>,
}

/// Keys and values that a pass keeps for the next one.
#[derive(Debug, Default)]
pub(crate) struct PassCache(RefCell<Vec<Tensor>>);

impl PassCache {
    /// Keys or values behind those so far, of which there are none: a copy.
    pub(crate) fn extended(&self, s: &DryRun, x: &Tensor) -> Tensor {
        let longer = s.reordered(x, Copies::FORWARD);
        let longer = s.labelled(longer, Purpose::KeyValueCache);
        self.0.borrow_mut().push(longer.detached());
        longer
    }

    /// What it holds.
    pub(crate) fn into_tensors(self) -> Vec<Tensor> {
        self.0.into_inner()
    }
}

/// Rows that attention gave, with what its function holds up to its end.
pub(crate) struct Attended {
    pub(crate) rows: Tensor,
    /// The weights of all pairs, which the layer holds longer than attention does.
    pub(crate) weights: Option<Tensor>,
    pub(crate) held: [Tensor; 3],
}

impl MultiHeadAttention {
    pub(crate) fn new(build: &Build<'_>, shape: &LayerShape, style: AttentionStyle) -> Self {
        let width = shape.heads * shape.head_dim;
        let linear = |has_bias| build.linear(shape.hidden, width, has_bias, Place::Attention);
        let projection = || linear(shape.has_qkv_bias);
        // In the order in which the weights are loaded.
        let (query, key, value) = match style {
            AttentionStyle::Together => {
                let (key, value) = (linear(false), projection());
                (projection(), key, value)
            }
            AttentionStyle::Plain | AttentionStyle::WideSoftmax => {
                (projection(), projection(), projection())
            }
        };
        Self {
            style,
            query,
            key,
            value,
            output: build.linear(width, shape.hidden, true, Place::Attention),
            heads: shape.heads,
            head_dim: shape.head_dim,
            dropout: shape.attention_dropout,
        }
    }

    /// What the kernel gives.
    pub(crate) fn attend(&self, s: &DryRun, x: &Tensor, call: AttentionCall<'_>) -> Attended {
        let asked = call.context.unwrap_or(x);
        let are_together = self.style == AttentionStyle::Together;
        let copies = match (are_together, call.kernel) {
            (true, _) => Copies::BOTH,
            (false, AttentionKernel::Eager) => Copies::BACKWARD,
            (false, _) => Copies::NONE,
        };
        let query = {
            let plain = s.linear(&self.query, x);
            let scaled = match are_together {
                true => s.mul_scalar(&plain),
                false => plain.clone(),
            };
            drop(plain);
            s.reordered(&scaled, copies)
        };
        let project = |layer: &LinearLayer| s.reordered(&s.linear(layer, asked), copies);
        let (mut key, mut value) = (project(&self.key), project(&self.value));
        if let Some(cache) = call.cache {
            let longer = (cache.extended(s, &key), cache.extended(s, &value));
            (key, value) = longer;
        }
        let shape = AttentionShape {
            batch: call.batch,
            heads: self.heads,
            kv_heads: self.heads,
            head_dim: self.head_dim,
            value_dim: self.head_dim,
            queries: call.queries,
            keys: call.keys,
        };
        let held = [query, key, value];
        let [q, k, v] = &held;
        let (rows, weights) = match call.kernel {
            AttentionKernel::Eager => {
                let steps = AttentionSteps {
                    scaling: Scaling::Scores,
                    is_apart: [!are_together; 3],
                    biases: [call.mask, None],
                    dropout: self.dropout,
                    is_softmax_wide: self.style == AttentionStyle::WideSoftmax,
                };
                s.attention_by_steps([q, k, v], shape, steps)
            }
            AttentionKernel::Sdpa | AttentionKernel::Flash => {
                (s.fused_attention([q, k, v], shape, false), None)
            }
        };
        Attended {
            rows,
            weights,
            held,
        }
    }

    /// The rows behind the projection, and the weights of all pairs.
    pub(crate) fn forward(
        &self,
        s: &DryRun,
        x: &Tensor,
        call: AttentionCall<'_>,
    ) -> (Tensor, Option<Tensor>) {
        s.part(Purpose::Attention, || {
            let Attended {
                rows,
                weights,
                held,
            } = self.attend(s, x, call);
            let result = s.linear(&self.output, &rows);
            drop(rows);
            drop(held);
            (result, weights)
        })
    }
}
