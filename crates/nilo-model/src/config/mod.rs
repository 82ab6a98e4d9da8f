//! Models by their Hugging Face `config.json`, and a catalogue of well-known ones.

mod decoders;
mod encoders;
mod error;
mod fields;

use serde_json::Value;

pub use error::ConfigError;
use fields::Fields;

use crate::dry_run::tensor::Dtype;
use crate::family::{
    DecoderShape, ImageEncoderShape, SpeechShape, TextEncoderShape, TextToTextShape,
};

/// A model as its configuration tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The family by Hugging Face's name.
    pub model_type: String,
    /// What its memory depends on.
    pub shape: ModelShape,
    /// The type in which its weights are published.
    pub dtype: Option<Dtype>,
    /// The longest sequence that it was made for.
    pub max_positions: Option<u64>,
}

/// The shape of a model, by its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelShape {
    /// Predicts the next token.
    Decoder(Box<DecoderShape>),
    /// Predicts masked words or the class of a text.
    TextEncoder(Box<TextEncoderShape>),
    /// Predicts the class of an image.
    ImageEncoder(Box<ImageEncoderShape>),
    /// From text to text.
    TextToText(Box<TextToTextShape>),
    /// From sound to text.
    Speech(Box<SpeechShape>),
}

/// Families whose memory is known.
pub const KNOWN_TYPES: [&str; 20] = [
    "bert",
    "deepseek_v2",
    "deepseek_v3",
    "falcon",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gpt2",
    "llama",
    "mistral",
    "mixtral",
    "olmo2",
    "phi",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "t5",
    "vit",
    "whisper",
];

/// Ends of the names of classes that predict the next token.
const DECODER_HEADS: [&str; 2] = ["ForCausalLM", "LMHeadModel"];

impl ModelConfig {
    /// Reads a `config.json`.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let value: Value = serde_json::from_str(text).map_err(|error| ConfigError::NotJson {
            reason: error.to_string(),
        })?;
        Self::from_value(&value)
    }

    /// Reads the contents of a `config.json`.
    pub fn from_value(value: &Value) -> Result<Self, ConfigError> {
        let fields = Fields::of(value)?;
        let model_type = fields.text("model_type")?.ok_or(ConfigError::NoModelType)?;
        let refused = |variant| {
            Err(ConfigError::UnknownVariant {
                model_type: model_type.clone(),
                variant,
            })
        };
        if fields.has("quantization_config") {
            return refused("quantized weights (quantization_config)");
        }
        let shape = if encoders::TYPES.contains(&model_type.as_str()) {
            encoders::shape(&model_type, &fields)?
        } else {
            let head = fields.first_text("architectures");
            if head.is_some_and(|head| !DECODER_HEADS.iter().any(|known| head.ends_with(known))) {
                return refused("another head than that for the next token");
            }
            let shape = decoders::decoder_shape(&model_type, &fields)?;
            decoders::check(&shape)?;
            ModelShape::Decoder(Box::new(shape))
        };
        Ok(Self {
            shape,
            dtype: fields.dtype()?,
            max_positions: fields
                .number("max_position_embeddings")?
                .or(fields.number("n_positions")?)
                .or(fields.number("max_target_positions")?),
            model_type,
        })
    }
}
