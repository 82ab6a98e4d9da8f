//! The shapes of encoders of text and of images: everything of their configurations on which their memory depends.

use super::shape::Activation;

/// The layers of an encoder.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerShape {
    /// Numbers of a token between layers.
    pub hidden: u64,
    /// Blocks of attention and feed-forward.
    pub layers: u64,
    /// Heads of attention.
    pub heads: u64,
    /// Numbers of a head.
    pub head_dim: u64,
    /// Numbers inside of the feed-forward part.
    pub feed_forward: u64,
    /// Its function.
    pub activation: Activation,
    /// Whether queries, keys and values have a bias.
    pub has_qkv_bias: bool,
    /// Probability of dropout behind embeddings, attention and feed-forward.
    pub dropout: f64,
    /// Probability of dropout within attention.
    pub attention_dropout: f64,
}

/// An encoder of text (BERT).
#[derive(Debug, Clone, PartialEq)]
pub struct TextEncoderShape {
    /// Its layers.
    pub layers: LayerShape,
    /// Words.
    pub vocabulary: u64,
    /// Most tokens of a sequence.
    pub positions: u64,
    /// Kinds of tokens.
    pub token_types: u64,
    /// What is predicted.
    pub head: TextEncoderHead,
}

/// What an encoder of text predicts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TextEncoderHead {
    /// The words that are masked.
    MaskedWords {
        /// Whether the scores of words are computed with the table of embeddings.
        is_tied: bool,
    },
    /// The class of each sequence.
    Classes {
        /// How many there are.
        count: u64,
        /// Probability of dropout before the scores.
        dropout: f64,
    },
}

/// An encoder of images that predicts their classes (ViT).
#[derive(Debug, Clone, PartialEq)]
pub struct ImageEncoderShape {
    /// Its layers.
    pub layers: LayerShape,
    /// Height and width of an image.
    pub image: [u64; 2],
    /// Height and width of a patch, which is a token.
    pub patch: [u64; 2],
    /// Colours.
    pub channels: u64,
    /// Classes.
    pub classes: u64,
}

impl ImageEncoderShape {
    /// Patches of an image.
    pub fn patches(&self) -> u64 {
        (self.image[0] / self.patch[0]) * (self.image[1] / self.patch[1])
    }
}
