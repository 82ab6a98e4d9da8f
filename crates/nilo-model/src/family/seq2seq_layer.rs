//! A layer of T5: attention with a position bias, in the decoder attention to what was encoded, and feed-forward.

use std::rc::Rc;

use super::build::{Build, Place};
use super::feed_forward::activated;
use super::multi_head::PassCache;
use super::position_bias::PositionBias;
use super::seq2seq_shape::TextToTextShape;
use super::shape::FeedForwardLayout;
use crate::dry_run::memory::Purpose;
use crate::dry_run::ops::attention_steps::{AttentionSteps, Scaling};
use crate::dry_run::ops::layout::Copies;
use crate::dry_run::ops::{AttentionKernel, AttentionShape, LinearLayer};
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Parameter, Tensor};

/// What a layer sees beside its input.
#[derive(Debug, Clone)]
pub(crate) struct LayerInputs {
    pub(crate) batch: u64,
    pub(crate) length: u64,
    pub(crate) kernel: AttentionKernel,
    /// The mask of a decoder whose attention is computed step by step.
    pub(crate) mask: Option<Tensor>,
    /// From the first layer on.
    pub(crate) bias: Option<Tensor>,
    pub(crate) encoded: Option<Encoded>,
    /// Where nothing is computed again.
    pub(crate) cache: Option<Rc<PassCache>>,
    /// Whether the layer is computed again in backward. Then the empty bias of attention to what was encoded has a gradient.
    pub(crate) is_checkpointed: bool,
}

/// What the encoder made of its tokens.
#[derive(Debug, Clone)]
pub(crate) struct Encoded {
    pub(crate) rows: Tensor,
    pub(crate) length: u64,
    /// From the first layer on.
    pub(crate) bias: Option<Tensor>,
}

/// What a layer gives.
pub(crate) struct LayerOutputs {
    pub(crate) hidden: Tensor,
    pub(crate) bias: Tensor,
    pub(crate) encoded_bias: Option<Tensor>,
}

/// One layer.
#[derive(Debug)]
pub(crate) struct TextToTextLayer {
    attention: Attention,
    over_encoded: Option<Attention>,
    feed_forward: FeedForward,
    dropout: f64,
}

/// Which rows a part of the layer asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Its own, all of them.
    Own,
    /// Its own up to the one that asks.
    OwnBefore,
    /// Those of the encoder.
    Encoded,
}

#[derive(Debug)]
struct Attention {
    projections: [LinearLayer; 3],
    output: LinearLayer,
    bias: Option<PositionBias>,
    norm: Rc<Parameter>,
    asked: Asked,
    heads: u64,
    head_dim: u64,
    dropout: f64,
}

#[derive(Debug)]
struct FeedForward {
    inner: Vec<LinearLayer>,
    outer: LinearLayer,
    norm: Rc<Parameter>,
    activation: super::shape::Activation,
    dropout: f64,
}

impl TextToTextLayer {
    pub(crate) fn new(
        build: &Build<'_>,
        shape: &TextToTextShape,
        is_decoder: bool,
        is_first: bool,
    ) -> Self {
        let own = match is_decoder {
            true => Asked::OwnBefore,
            false => Asked::Own,
        };
        let encoded = || Attention::new(build, shape, Asked::Encoded, false);
        Self {
            attention: Attention::new(build, shape, own, is_first),
            over_encoded: is_decoder.then(encoded),
            feed_forward: FeedForward::new(build, shape),
            dropout: shape.dropout,
        }
    }

    pub(crate) fn forward(&self, s: &DryRun, input: &Tensor, inputs: &LayerInputs) -> LayerOutputs {
        let given = inputs.bias.as_ref();
        let (mut hidden, bias) = self.added(s, input, &self.attention, inputs, given);
        let mut encoded_bias = None;
        if let (Some(attention), Some(encoded)) = (&self.over_encoded, &inputs.encoded) {
            let given = encoded.bias.as_ref();
            let (result, made) = self.added(s, &hidden, attention, inputs, given);
            hidden = result;
            encoded_bias = Some(made);
        }
        LayerOutputs {
            hidden: self.fed(s, &hidden),
            bias,
            encoded_bias,
        }
    }

    fn added(
        &self,
        s: &DryRun,
        input: &Tensor,
        attention: &Attention,
        inputs: &LayerInputs,
        bias: Option<&Tensor>,
    ) -> (Tensor, Tensor) {
        let rows = s.part(Purpose::Normalization, || {
            s.scaled_rms_norm(input, &attention.norm)
        });
        let (attended, bias) = s.part(Purpose::Attention, || {
            attention.forward(s, &rows, inputs, bias)
        });
        let result = {
            let dropped = s.dropout(&attended, self.dropout);
            s.add(input, &dropped)
        };
        drop(attended);
        drop(rows);
        (result, bias)
    }

    fn fed(&self, s: &DryRun, input: &Tensor) -> Tensor {
        let rows = s.part(Purpose::Normalization, || {
            s.scaled_rms_norm(input, &self.feed_forward.norm)
        });
        let fed = s.part(Purpose::FeedForward, || self.feed_forward.forward(s, &rows));
        drop(rows);
        let dropped = s.dropout(&fed, self.dropout);
        s.add(input, &dropped)
    }
}

impl Attention {
    fn new(build: &Build<'_>, shape: &TextToTextShape, asked: Asked, has_table: bool) -> Self {
        let (hidden, width) = (shape.hidden, shape.heads * shape.head_dim);
        let linear = |inputs, outputs| build.linear(inputs, outputs, false, Place::Attention);
        let table = || {
            let sees_behind = asked == Asked::Own;
            PositionBias::new(build, shape.distances, shape.heads, sees_behind)
        };
        Self {
            projections: [0; 3].map(|_| linear(hidden, width)),
            output: linear(width, hidden),
            bias: has_table.then(table),
            norm: build.weight(1, hidden),
            asked,
            heads: shape.heads,
            head_dim: shape.head_dim,
            dropout: shape.dropout,
        }
    }

    /// The rows behind the projection, and the position bias.
    fn forward(
        &self,
        s: &DryRun,
        x: &Tensor,
        inputs: &LayerInputs,
        given: Option<&Tensor>,
    ) -> (Tensor, Tensor) {
        let [query, key, value] = &self.projections;
        let encoded = inputs.encoded.as_ref();
        let (asked, keys) = match encoded.filter(|_| self.asked == Asked::Encoded) {
            Some(encoded) => (&encoded.rows, encoded.length),
            None => (x, inputs.length),
        };
        let is_by_steps = self.is_by_steps(s, inputs, given);
        // The gradients of what steps and caches put together come so, and are copied for the projections.
        let project = |layer: &LinearLayer, x: &Tensor, is_together: bool| {
            let copies = match is_together {
                true => Copies::BACKWARD,
                false => Copies::NONE,
            };
            s.reordered(&s.linear(layer, x), copies)
        };
        let is_together = is_by_steps || inputs.cache.is_some();
        let q = project(query, x, is_by_steps);
        let mut k = project(key, asked, is_together);
        let mut v = project(value, asked, is_together);
        if let Some(cache) = &inputs.cache {
            let longer = (cache.extended(s, &k), cache.extended(s, &v));
            (k, v) = longer;
        }
        let shape = AttentionShape {
            batch: inputs.batch,
            heads: self.heads,
            kv_heads: self.heads,
            head_dim: self.head_dim,
            value_dim: self.head_dim,
            queries: inputs.length,
            keys,
        };
        let bias = match (given, &self.bias) {
            (Some(bias), _) => bias.clone(),
            (None, Some(table)) => table.of_pairs(s, inputs.length),
            (None, None) => {
                let empty = s.new_tensor(self.heads * inputs.length * keys, q.dtype);
                match inputs.is_checkpointed {
                    true => s.with_unused_gradient(empty),
                    false => empty,
                }
            }
        };
        let rows = self.attend(s, [&q, &k, &v], shape, inputs, &bias);
        let result = s.linear(&self.output, &rows);
        drop(rows);
        drop((q, k, v));
        (result, bias)
    }

    /// Whether no kernel is used: on request, or since none gives the bias its gradient.
    fn is_by_steps(&self, s: &DryRun, inputs: &LayerInputs, given: Option<&Tensor>) -> bool {
        let has_gradient = match (given, &self.bias) {
            (Some(bias), _) => bias.requires_grad(),
            (None, Some(table)) => table.is_trained(),
            (None, None) => inputs.is_checkpointed,
        };
        inputs.kernel == AttentionKernel::Eager || (has_gradient && s.is_grad_enabled.get())
    }

    fn attend(
        &self,
        s: &DryRun,
        tensors: [&Tensor; 3],
        shape: AttentionShape,
        inputs: &LayerInputs,
        bias: &Tensor,
    ) -> Tensor {
        let is_apart = [true, inputs.cache.is_none(), inputs.cache.is_none()];
        let steps = AttentionSteps {
            scaling: Scaling::Scores,
            is_apart,
            biases: [Some(bias), None],
            dropout: self.dropout,
            is_softmax_wide: false,
        };
        if inputs.kernel == AttentionKernel::Eager {
            let mask = inputs.mask.as_ref();
            let steps = AttentionSteps {
                biases: [Some(bias), mask.filter(|_| self.asked != Asked::Encoded)],
                ..steps
            };
            return s.attention_by_steps(tensors, shape, steps).0;
        }
        let is_by_steps = self.is_by_steps(s, inputs, Some(bias));
        let bias = self.bias_and_mask(s, bias, shape);
        if !is_by_steps {
            return s.fused_attention(tensors, shape, true);
        }
        let steps = AttentionSteps {
            scaling: Scaling::QueriesAndKeys,
            biases: [Some(&bias), None],
            ..steps
        };
        s.attention_by_steps(tensors, shape, steps).0
    }

    /// The bias as `scaled_dot_product_attention` takes it: with the mask of a decoder, and a head behind the other.
    fn bias_and_mask(&self, s: &DryRun, bias: &Tensor, shape: AttentionShape) -> Tensor {
        match self.asked {
            Asked::Encoded => bias.clone(),
            Asked::Own => s.reordered(bias, Copies::FORWARD),
            Asked::OwnBefore => {
                let is_before = {
                    let numbers = [shape.queries, shape.keys].map(|x| s.new_tensor(x, Dtype::I64));
                    let is_before = s.new_tensor(shape.queries * shape.keys, Dtype::U8);
                    drop(numbers);
                    is_before
                };
                let masked = s.selected(bias, &is_before);
                let result = s.reordered(&masked, Copies::FORWARD);
                drop(is_before);
                result
            }
        }
    }
}

impl FeedForward {
    fn new(build: &Build<'_>, shape: &TextToTextShape) -> Self {
        let (hidden, width) = (shape.hidden, shape.feed_forward);
        let linear = |inputs, outputs| build.linear(inputs, outputs, false, Place::FeedForward);
        let count = match shape.feed_forward_layout {
            FeedForwardLayout::Plain => 1,
            FeedForwardLayout::Gated | FeedForwardLayout::GatedTogether => 2,
        };
        Self {
            inner: (0..count).map(|_| linear(hidden, width)).collect(),
            outer: linear(width, hidden),
            norm: build.weight(1, hidden),
            activation: shape.activation,
            dropout: shape.dropout,
        }
    }

    fn forward(&self, s: &DryRun, rows: &Tensor) -> Tensor {
        let mut factors = Vec::new();
        for (index, layer) in self.inner.iter().enumerate() {
            let wide = s.linear(layer, rows);
            factors.push(match index {
                0 => activated(s, self.activation, &wide),
                _ => wide,
            });
        }
        let active = match factors.as_slice() {
            [gate, up] => s.mul(gate, up),
            _ => factors.remove(0),
        };
        let dropped = s.dropout(&active, self.dropout);
        drop(active);
        // The code converts to the type of the weight, also where autocast converts back.
        let wide = s.cast(&dropped, self.outer.weight.value.dtype);
        drop(dropped);
        let result = s.linear(&self.outer, &wide);
        drop((wide, factors));
        result
    }
}
