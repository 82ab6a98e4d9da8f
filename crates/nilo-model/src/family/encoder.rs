//! A layer of an encoder of text or images: every token sees every other.

use std::rc::Rc;

use super::build::{Build, Place};
use super::encoder_shape::LayerShape;
use super::feed_forward::activated;
use super::multi_head::{AttentionCall, AttentionStyle, MultiHeadAttention};
use super::network::RunSettings;
use super::normalization::Norm;
use super::shape::NormKind;
use crate::dry_run::memory::Purpose;
use crate::dry_run::ops::LinearLayer;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::Tensor;

/// Where a layer normalizes rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NormOrder {
    /// Before attention and before the feed-forward part (ViT).
    Before,
    /// Behind the sums with the inputs of both (BERT).
    Behind,
}

/// The layers of an encoder.
#[derive(Debug)]
pub(crate) struct EncoderLayers {
    layers: Vec<Rc<EncoderLayer>>,
}

#[derive(Debug)]
struct EncoderLayer {
    shape: Rc<LayerShape>,
    order: NormOrder,
    attention: MultiHeadAttention,
    norms: [Norm; 2],
    up: LinearLayer,
    down: LinearLayer,
}

impl EncoderLayers {
    pub(crate) fn new(build: &Build<'_>, shape: &LayerShape, order: NormOrder) -> Self {
        let shape = Rc::new(shape.clone());
        let layer = |_| Rc::new(EncoderLayer::new(build, &shape, order));
        Self {
            layers: (0..shape.layers).map(layer).collect(),
        }
    }

    /// The rows behind the last layer.
    pub(crate) fn forward(
        &self,
        s: &DryRun,
        input: &Tensor,
        length: u64,
        run: &RunSettings,
    ) -> Tensor {
        let call = AttentionCall {
            batch: run.batch,
            queries: length,
            keys: length,
            context: None,
            mask: None,
            kernel: run.attention,
            cache: None,
        };
        let mut hidden = input.clone();
        for (index, layer) in self.layers.iter().enumerate() {
            hidden = match run.is_checkpointed(s, index as u64) {
                true => {
                    let (layer, input) = (Rc::clone(layer), hidden.clone());
                    s.checkpointed(Rc::new(move |s: &DryRun| layer.forward(s, &input, call)))
                }
                false => layer.forward(s, &hidden, call),
            };
        }
        hidden
    }
}

impl EncoderLayer {
    fn new(build: &Build<'_>, shape: &Rc<LayerShape>, order: NormOrder) -> Self {
        let (hidden, width) = (shape.hidden, shape.feed_forward);
        let style = match order {
            NormOrder::Before => AttentionStyle::WideSoftmax,
            NormOrder::Behind => AttentionStyle::Plain,
        };
        let norm = || Norm::new(build, NormKind::LayerNorm, hidden);
        let up = || build.linear(hidden, width, true, Place::FeedForward);
        let down = || build.linear(width, hidden, true, Place::FeedForward);
        // In the order in which the weights are loaded.
        let attention = MultiHeadAttention::new(build, shape, style);
        let first = norm();
        let (second, up, down) = match order {
            NormOrder::Before => (norm(), up(), down()),
            NormOrder::Behind => {
                let (up, down) = (up(), down());
                (norm(), up, down)
            }
        };
        Self {
            shape: Rc::clone(shape),
            order,
            attention,
            norms: [first, second],
            up,
            down,
        }
    }

    fn forward(&self, s: &DryRun, input: &Tensor, call: AttentionCall<'_>) -> Tensor {
        match self.order {
            NormOrder::Before => self.normalized_before(s, input, call),
            NormOrder::Behind => self.normalized_behind(s, input, call),
        }
    }

    fn normalized_before(&self, s: &DryRun, input: &Tensor, call: AttentionCall<'_>) -> Tensor {
        let rows = self.norms[0].forward(s, input);
        let (attended, weights) = self.attention.forward(s, &rows, call);
        drop(rows);
        let dropped = s.dropout(&attended, self.shape.dropout);
        drop(attended);
        let middle = s.add(&dropped, input);
        drop(dropped);
        let rows = self.norms[1].forward(s, &middle);
        let fed = s.part(Purpose::FeedForward, || {
            let active = self.active(s, &rows);
            s.linear(&self.down, &active)
        });
        drop(rows);
        let dropped = s.dropout(&fed, self.shape.dropout);
        drop(fed);
        let result = s.add(&dropped, &middle);
        drop(weights);
        result
    }

    fn normalized_behind(&self, s: &DryRun, input: &Tensor, call: AttentionCall<'_>) -> Tensor {
        let (attended, weights) = s.part(Purpose::Attention, || {
            let attended = self.attention.attend(s, input, call);
            (attended.rows, attended.weights)
        });
        let output = &self.attention.output;
        let middle = self.added(
            s,
            output,
            Purpose::Attention,
            &self.norms[0],
            [&attended, input],
        );
        drop(attended);
        let active = s.part(Purpose::FeedForward, || self.active(s, &middle));
        let down = &self.down;
        let result = self.added(
            s,
            down,
            Purpose::FeedForward,
            &self.norms[1],
            [&active, &middle],
        );
        drop((active, weights));
        result
    }

    /// A projection, added to what came in, and normalized.
    fn added(
        &self,
        s: &DryRun,
        projection: &LinearLayer,
        purpose: Purpose,
        norm: &Norm,
        [rows, input]: [&Tensor; 2],
    ) -> Tensor {
        let dropped = s.part(purpose, || {
            let projected = s.linear(projection, rows);
            s.dropout(&projected, self.shape.dropout)
        });
        let sum = s.add(&dropped, input);
        norm.forward(s, &sum)
    }

    fn active(&self, s: &DryRun, rows: &Tensor) -> Tensor {
        let wide = s.linear(&self.up, rows);
        activated(s, self.shape.activation, &wide)
    }
}
