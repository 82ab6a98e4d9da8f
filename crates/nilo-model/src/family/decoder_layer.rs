//! A layer of a decoder: attention, then feed-forward or experts, each added to its input.

use std::rc::Rc;

use super::attention::{AttentionOutput, DecoderAttention};
use super::build::Build;
use super::key_value_cache::LayerCache;
use super::latent_attention::LatentAttention;
use super::masks::AttentionMasks;
use super::rotary::RotaryTables;
use super::shape::{AttentionLayout, DecoderShape, NormPlaces};
use crate::dry_run::memory::Purpose;
use crate::dry_run::ops::AttentionKernel;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::Tensor;

use super::feed_forward::DecoderFeedForward;
use super::normalization::Norm;

/// What is the same for all layers of a pass.
#[derive(Debug, Clone)]
pub(crate) struct Pass {
    pub(crate) batch: u64,
    /// Tokens of each sequence in this pass.
    pub(crate) length: u64,
    pub(crate) kernel: AttentionKernel,
    pub(crate) rotary: Option<RotaryTables>,
    /// For layers that see a window, where their positions differ.
    pub(crate) window_rotary: Option<RotaryTables>,
    pub(crate) masks: AttentionMasks,
}

#[derive(Debug)]
enum AttentionPart {
    Plain(DecoderAttention),
    Latent(LatentAttention),
}

/// One layer.
#[derive(Debug)]
pub(crate) struct DecoderLayer {
    shape: Rc<DecoderShape>,
    attention: AttentionPart,
    feed_forward: DecoderFeedForward,
    norms: Vec<Norm>,
}

impl DecoderLayer {
    pub(crate) fn new(build: &Build<'_>, shape: &Rc<DecoderShape>, index: u64) -> Self {
        let attention = match shape.latent {
            Some(latent) => AttentionPart::Latent(LatentAttention::new(build, shape, latent)),
            None => {
                AttentionPart::Plain(DecoderAttention::new(build, shape, shape.is_sliding(index)))
            }
        };
        let feed_forward = DecoderFeedForward::new(build, shape, index);
        let norm_count = match shape.norm_places {
            NormPlaces::Parallel => 1,
            NormPlaces::Before | NormPlaces::Behind => 2,
            NormPlaces::BeforeAndBehind => 4,
        };
        let norm = || Norm::new(build, shape.norm, shape.hidden);
        Self {
            shape: Rc::clone(shape),
            attention,
            feed_forward,
            norms: std::iter::repeat_with(norm).take(norm_count).collect(),
        }
    }

    pub(crate) fn forward(
        &self,
        s: &DryRun,
        input: &Tensor,
        pass: &Pass,
        cache: Option<&LayerCache>,
    ) -> Tensor {
        let [attended, fed] = match (self.shape.norm_places, self.norms.as_slice()) {
            (NormPlaces::Parallel, [norm]) => return self.in_parallel(s, norm, input, pass, cache),
            (NormPlaces::Before, [first, second]) => [[Some(first), None], [Some(second), None]],
            (NormPlaces::Behind, [first, second]) => [[None, Some(first)], [None, Some(second)]],
            (_, [first, second, third, fourth]) => {
                [[Some(first), Some(second)], [Some(third), Some(fourth)]]
            }
            _ => unreachable!("each place has its norms"),
        };
        // Names of the function hold the weights of attention up to its end, and in GPT-2 its output.
        let mut weights = None;
        let mut output = None;
        let holds_output = self.shape.attention == AttentionLayout::Split;
        let middle = added(s, input, attended, holds_output, |x| {
            let attended = self.attention(s, x, pass, cache);
            weights = attended.weights;
            output = holds_output.then(|| attended.output.clone());
            attended.output
        });
        let result = added(s, &middle, fed, holds_output, |x| {
            let result = self.feed_forward(s, x);
            s.dropout(&result, self.shape.dropout)
        });
        drop((weights, output));
        result
    }

    fn in_parallel(
        &self,
        s: &DryRun,
        norm: &Norm,
        input: &Tensor,
        pass: &Pass,
        cache: Option<&LayerCache>,
    ) -> Tensor {
        let rows = norm.forward(s, input);
        let attended = self.attention(s, &rows, pass, cache);
        let fed = self.feed_forward(s, &rows);
        match self.shape.attention {
            AttentionLayout::Indexed => {
                let both = s.added_in_place(&fed, &attended.output);
                drop(fed);
                let both = s.dropout(&both, self.shape.dropout);
                s.add(&both, input)
            }
            _ => {
                let fed = s.dropout(&fed, self.shape.dropout);
                let both = s.add(&attended.output, &fed);
                s.add(&both, input)
            }
        }
    }

    fn attention(
        &self,
        s: &DryRun,
        x: &Tensor,
        pass: &Pass,
        cache: Option<&LayerCache>,
    ) -> AttentionOutput {
        s.part(Purpose::Attention, || match &self.attention {
            AttentionPart::Plain(attention) => attention.forward(s, x, pass, cache),
            AttentionPart::Latent(attention) => attention.forward(s, x, pass, cache),
        })
    }

    fn feed_forward(&self, s: &DryRun, x: &Tensor) -> Tensor {
        s.part(Purpose::FeedForward, || {
            self.feed_forward.forward(s, x, self.shape.activation)
        })
    }
}

/// A part of a layer between its norms, added to its input. What the part is given may stand until the sum is there.
fn added(
    s: &DryRun,
    input: &Tensor,
    [before, behind]: [Option<&Norm>; 2],
    holds_rows: bool,
    part: impl FnOnce(&Tensor) -> Tensor,
) -> Tensor {
    let rows = match before {
        Some(norm) => norm.forward(s, input),
        None => input.clone(),
    };
    let mut result = part(&rows);
    let held = holds_rows.then_some(rows);
    if let Some(norm) = behind {
        result = norm.forward(s, &result);
    }
    let sum = s.add(input, &result);
    drop(held);
    sum
}
