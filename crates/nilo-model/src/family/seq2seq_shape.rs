//! The shape of an encoder with a decoder that sees what it encoded.

use super::shape::{Activation, FeedForwardLayout};

/// From text to text (T5).
#[derive(Debug, Clone, PartialEq)]
pub struct TextToTextShape {
    /// Numbers of a token between layers.
    pub hidden: u64,
    /// Layers of the encoder.
    pub encoder_layers: u64,
    /// Layers of the decoder.
    pub decoder_layers: u64,
    /// Heads of attention.
    pub heads: u64,
    /// Numbers of a head.
    pub head_dim: u64,
    /// Numbers inside of the feed-forward part.
    pub feed_forward: u64,
    /// What the feed-forward part computes: with a gate by two products, or without one.
    pub feed_forward_layout: FeedForwardLayout,
    /// Its function.
    pub activation: Activation,
    /// Words. Their scores are computed with the table of embeddings.
    pub vocabulary: u64,
    /// Distances between tokens that attention tells apart.
    pub distances: u64,
    /// Whether rows are scaled before the scores of words.
    pub has_scaled_output: bool,
    /// Probability of dropout.
    pub dropout: f64,
}
