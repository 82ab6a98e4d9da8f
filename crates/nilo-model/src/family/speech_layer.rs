//! A layer of Whisper: attention, in the decoder attention to what was encoded, and feed-forward.

use std::rc::Rc;

use super::build::{Build, Place};
use super::encoder_shape::LayerShape;
use super::feed_forward::activated;
use super::multi_head::{AttentionCall, AttentionStyle, MultiHeadAttention, PassCache};
use super::normalization::Norm;
use super::shape::NormKind;
use crate::dry_run::memory::Purpose;
use crate::dry_run::ops::{AttentionKernel, LinearLayer};
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::Tensor;

/// What a layer sees beside its input.
#[derive(Debug, Clone)]
pub(crate) struct SpeechInputs {
    pub(crate) batch: u64,
    pub(crate) length: u64,
    pub(crate) kernel: AttentionKernel,
    /// The mask of a decoder whose attention is computed step by step.
    pub(crate) mask: Option<Tensor>,
    /// What was encoded, and its tokens.
    pub(crate) encoded: Option<(Tensor, u64)>,
    pub(crate) cache: Option<Rc<PassCache>>,
}

/// One layer.
#[derive(Debug)]
pub(crate) struct SpeechLayer {
    shape: Rc<LayerShape>,
    activation_dropout: f64,
    attention: (MultiHeadAttention, Norm),
    over_encoded: Option<(MultiHeadAttention, Norm)>,
    up: LinearLayer,
    down: LinearLayer,
    norm: Norm,
}

impl SpeechLayer {
    pub(crate) fn new(
        build: &Build<'_>,
        shape: &Rc<LayerShape>,
        activation_dropout: f64,
        is_decoder: bool,
    ) -> Self {
        let (hidden, width) = (shape.hidden, shape.feed_forward);
        let norm = || Norm::new(build, NormKind::LayerNorm, hidden);
        let attention = || {
            let attention = MultiHeadAttention::new(build, shape, AttentionStyle::Together);
            (attention, norm())
        };
        Self {
            shape: Rc::clone(shape),
            activation_dropout,
            attention: attention(),
            over_encoded: is_decoder.then(attention),
            up: build.linear(hidden, width, true, Place::FeedForward),
            down: build.linear(width, hidden, true, Place::FeedForward),
            norm: norm(),
        }
    }

    pub(crate) fn forward(&self, s: &DryRun, input: &Tensor, inputs: &SpeechInputs) -> Tensor {
        let call = AttentionCall {
            batch: inputs.batch,
            queries: inputs.length,
            keys: inputs.length,
            context: None,
            mask: inputs.mask.as_ref(),
            kernel: inputs.kernel,
            cache: inputs.cache.as_deref(),
        };
        let mut weights = None;
        let (attention, norm) = &self.attention;
        let mut rows = self.added(s, input, norm, |rows| {
            let (result, made) = attention.forward(s, &rows, call);
            weights = made;
            result
        });
        if let (Some((attention, norm)), Some((encoded, keys))) =
            (&self.over_encoded, &inputs.encoded)
        {
            let call = AttentionCall {
                keys: *keys,
                context: Some(encoded),
                mask: None,
                ..call
            };
            rows = self.added(s, &rows, norm, |rows| {
                let (result, made) = attention.forward(s, &rows, call);
                weights = made;
                result
            });
        }
        let result = self.added(s, &rows, &self.norm, |rows| self.fed(s, rows));
        drop(weights);
        result
    }

    /// A part of the layer behind its norm, added to its input.
    fn added(
        &self,
        s: &DryRun,
        input: &Tensor,
        norm: &Norm,
        part: impl FnOnce(Tensor) -> Tensor,
    ) -> Tensor {
        let rows = norm.forward(s, input);
        let result = part(rows);
        let dropped = s.dropout(&result, self.shape.dropout);
        drop(result);
        s.add(input, &dropped)
    }

    fn fed(&self, s: &DryRun, rows: Tensor) -> Tensor {
        s.part(Purpose::FeedForward, || {
            let active = {
                let wide = s.linear(&self.up, &rows);
                activated(s, self.shape.activation, &wide)
            };
            drop(rows);
            let dropped = s.dropout(&active, self.activation_dropout);
            drop(active);
            s.linear(&self.down, &dropped)
        })
    }
}
