//! The feed-forward part of a layer: one for all tokens, or experts.

use super::build::{Build, Place};
use super::mixture::Mixture;
use super::shape::{Activation, DecoderShape, FeedForwardLayout};
use crate::dry_run::ops::LinearLayer;
use crate::dry_run::ops::elementwise::Unary;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::Tensor;

#[derive(Debug)]
pub(crate) enum DecoderFeedForward {
    Gated(Gated),
    GatedTogether([LinearLayer; 2]),
    Plain([LinearLayer; 2]),
    Mixture(Box<Mixture>),
}

impl DecoderFeedForward {
    /// That of a layer of a shape.
    pub(crate) fn new(build: &Build<'_>, shape: &DecoderShape, layer: u64) -> Self {
        let hidden = shape.hidden;
        if let Some(mixture) = shape.mixture.as_ref().filter(|_| shape.has_experts(layer)) {
            return Self::Mixture(Box::new(Mixture::new(build, mixture, hidden)));
        }
        let (width, bias) = (shape.feed_forward, shape.has_feed_forward_bias);
        let place = match shape.mixture {
            Some(_) => Place::BesideExperts,
            None => Place::FeedForward,
        };
        let linear = |inputs, outputs| build.linear(inputs, outputs, bias, place);
        match shape.feed_forward_layout {
            FeedForwardLayout::Gated => Self::Gated(Gated::new(linear, hidden, width)),
            FeedForwardLayout::GatedTogether => {
                Self::GatedTogether([linear(hidden, 2 * width), linear(width, hidden)])
            }
            FeedForwardLayout::Plain => Self::Plain([linear(hidden, width), linear(width, hidden)]),
        }
    }

    pub(crate) fn forward(&self, s: &DryRun, x: &Tensor, activation: Activation) -> Tensor {
        match self {
            Self::Gated(gated) => gated.forward(s, x, activation),
            Self::GatedTogether([both, down]) => {
                let both = s.linear(both, x);
                let half = both.count / 2;
                let halves = s.split(&both, &[half, half]);
                drop(both);
                let active = activated(s, activation, &halves[0]);
                let product = s.mul(&halves[1], &active);
                drop(active);
                let result = s.linear(down, &product);
                drop(product);
                drop(halves);
                result
            }
            Self::Plain([up, down]) => {
                let wide = s.linear(up, x);
                let active = activated(s, activation, &wide);
                drop(wide);
                s.linear(down, &active)
            }
            Self::Mixture(mixture) => mixture.forward(s, x, activation),
        }
    }
}

/// A product of two projections, one of them through the activation.
#[derive(Debug)]
pub(crate) struct Gated {
    gate: LinearLayer,
    up: LinearLayer,
    down: LinearLayer,
}

impl Gated {
    /// From a way to make linear layers.
    pub(crate) fn new(linear: impl Fn(u64, u64) -> LinearLayer, hidden: u64, width: u64) -> Self {
        Self {
            gate: linear(hidden, width),
            up: linear(hidden, width),
            down: linear(width, hidden),
        }
    }

    pub(crate) fn forward(&self, s: &DryRun, x: &Tensor, activation: Activation) -> Tensor {
        let gate = s.linear(&self.gate, x);
        let active = activated(s, activation, &gate);
        drop(gate);
        let up = s.linear(&self.up, x);
        let product = s.mul(&active, &up);
        drop((active, up));
        s.linear(&self.down, &product)
    }
}

pub(crate) fn activated(s: &DryRun, activation: Activation, x: &Tensor) -> Tensor {
    match activation {
        Activation::OneKernel => s.unary(Unary::OfInput, x),
        Activation::Relu => s.unary(Unary::OfResult, x),
        Activation::GeluStepByStep => {
            let half = s.mul_scalar(x);
            let cube = s.power(x);
            let scaled = s.mul_scalar(&cube);
            drop(cube);
            let sum = s.add(x, &scaled);
            drop(scaled);
            let inner = s.mul_scalar(&sum);
            drop(sum);
            let tanh = s.unary(Unary::OfResult, &inner);
            drop(inner);
            let one_more = s.add_scalar(&tanh);
            drop(tanh);
            s.mul(&half, &one_more)
        }
    }
}
