//! The shape of a model that writes down speech.

use super::encoder_shape::LayerShape;

/// From sound to text (Whisper).
#[derive(Debug, Clone, PartialEq)]
pub struct SpeechShape {
    /// The layers of the encoder.
    pub encoder: LayerShape,
    /// The layers of the decoder.
    pub decoder: LayerShape,
    /// Frequencies of the sound.
    pub frequencies: u64,
    /// Tokens that the sound becomes; it has twice as many moments.
    pub sound_positions: u64,
    /// Most tokens of text.
    pub text_positions: u64,
    /// Words.
    pub vocabulary: u64,
    /// Whether the scores of words are computed with the table of embeddings.
    pub is_tied: bool,
    /// Probability of dropout inside of the feed-forward part.
    pub activation_dropout: f64,
}
