//! BERT, ViT, T5 and Whisper by their configuration. What a configuration leaves out has the default of its class in Hugging Face's library.

use super::ModelShape;
use super::decoders::MOST_PARAMETERS;
use super::error::ConfigError;
use super::fields::Fields;
use crate::family::{
    Activation, FeedForwardLayout, ImageEncoderShape, LayerShape, SpeechShape, TextEncoderHead,
    TextEncoderShape, TextToTextShape,
};

/// Types of this file.
pub(super) const TYPES: [&str; 4] = ["bert", "t5", "vit", "whisper"];

/// Labels of a classification where nothing else is said.
const LABELS: u64 = 2;

/// The shape of a model of this file's types.
pub(super) fn shape(model_type: &str, fields: &Fields<'_>) -> Result<ModelShape, ConfigError> {
    match model_type {
        "bert" => Ok(ModelShape::TextEncoder(Box::new(bert(fields)?))),
        "t5" => Ok(ModelShape::TextToText(Box::new(t5(fields)?))),
        "vit" => Ok(ModelShape::ImageEncoder(Box::new(vit(fields)?))),
        "whisper" => Ok(ModelShape::Speech(Box::new(whisper(fields)?))),
        _ => Err(ConfigError::UnknownArchitecture {
            model_type: model_type.to_owned(),
        }),
    }
}

fn unknown_variant(model_type: &str, variant: &'static str) -> ConfigError {
    ConfigError::UnknownVariant {
        model_type: model_type.to_owned(),
        variant,
    }
}

fn or(fields: &Fields<'_>, field: &'static str, default: u64) -> Result<u64, ConfigError> {
    Ok(fields.number(field)?.unwrap_or(default))
}

fn activation(model_type: &str, name: Option<&str>) -> Result<Activation, ConfigError> {
    match name.unwrap_or("gelu") {
        "gelu" | "gelu_pytorch_tanh" | "silu" | "swish" => Ok(Activation::OneKernel),
        "gelu_new" => Ok(Activation::GeluStepByStep),
        "relu" => Ok(Activation::Relu),
        _ => Err(unknown_variant(model_type, "another activation function")),
    }
}

/// Heads of equal size.
fn head_dim(hidden: u64, heads: u64) -> Result<u64, ConfigError> {
    match hidden.is_multiple_of(heads) {
        true => Ok(hidden / heads),
        false => Err(ConfigError::Contradiction {
            reason: format!("{heads} attention heads cannot share {hidden} numbers evenly"),
        }),
    }
}

/// Sizes under the names that BERT and ViT use.
fn layers(model_type: &str, fields: &Fields<'_>, dropout: f64) -> Result<LayerShape, ConfigError> {
    let hidden = or(fields, "hidden_size", 768)?;
    let heads = or(fields, "num_attention_heads", 12)?;
    let shape = LayerShape {
        hidden,
        layers: or(fields, "num_hidden_layers", 12)?,
        heads,
        head_dim: head_dim(hidden, heads)?,
        feed_forward: or(fields, "intermediate_size", 3072)?,
        activation: activation(model_type, fields.text("hidden_act")?.as_deref())?,
        has_qkv_bias: true,
        dropout: fields.probability("hidden_dropout_prob", dropout)?,
        attention_dropout: fields.probability("attention_probs_dropout_prob", dropout)?,
    };
    check_layers(&shape, shape.layers, 1)?;
    Ok(shape)
}

/// How many classes there are: by their number, or by their names.
fn labels(fields: &Fields<'_>) -> Result<u64, ConfigError> {
    match fields.number("num_labels")? {
        Some(count) => Ok(count),
        None => Ok(fields.entries("id2label").unwrap_or(LABELS)),
    }
}

fn bert(fields: &Fields<'_>) -> Result<TextEncoderShape, ConfigError> {
    if fields.truth("is_decoder", false)? || fields.truth("add_cross_attention", false)? {
        return Err(unknown_variant("bert", "a decoder"));
    }
    let layers = layers("bert", fields, 0.1)?;
    let head = match fields.first_text("architectures") {
        None | Some("BertForMaskedLM") => TextEncoderHead::MaskedWords {
            is_tied: fields.truth("tie_word_embeddings", true)?,
        },
        Some("BertForSequenceClassification") => TextEncoderHead::Classes {
            count: labels(fields)?,
            dropout: fields.probability("classifier_dropout", layers.dropout)?,
        },
        Some(_) => {
            let variant = "another head than BertForMaskedLM or BertForSequenceClassification";
            return Err(unknown_variant("bert", variant));
        }
    };
    let shape = TextEncoderShape {
        vocabulary: or(fields, "vocab_size", 30522)?,
        positions: or(fields, "max_position_embeddings", 512)?,
        token_types: or(fields, "type_vocab_size", 2)?,
        head,
        layers,
    };
    let rows = shape.vocabulary + shape.positions + shape.token_types;
    check_count(shape.layers.hidden, rows)?;
    Ok(shape)
}

fn vit(fields: &Fields<'_>) -> Result<ImageEncoderShape, ConfigError> {
    match fields.first_text("architectures") {
        None | Some("ViTForImageClassification") => (),
        Some(_) => {
            return Err(unknown_variant(
                "vit",
                "another head than ViTForImageClassification",
            ));
        }
    }
    let shape = ImageEncoderShape {
        layers: LayerShape {
            has_qkv_bias: fields.truth("qkv_bias", true)?,
            ..layers("vit", fields, 0.0)?
        },
        image: fields.number_or_two("image_size")?.unwrap_or([224, 224]),
        patch: fields.number_or_two("patch_size")?.unwrap_or([16, 16]),
        channels: or(fields, "num_channels", 3)?,
        classes: labels(fields)?,
    };
    let ([height, width], [tall, wide]) = (shape.image, shape.patch);
    if height < tall || width < wide {
        return Err(ConfigError::Contradiction {
            reason: format!("patches of {tall}x{wide} are larger than images of {height}x{width}"),
        });
    }
    check_count(height * width, shape.channels)?;
    check_count(tall * wide, shape.channels)?;
    check_count(tall * wide * shape.channels, shape.layers.hidden)?;
    check_count(shape.patches() + shape.classes, shape.layers.hidden)?;
    Ok(shape)
}

fn t5(fields: &Fields<'_>) -> Result<TextToTextShape, ConfigError> {
    match fields.first_text("architectures") {
        None | Some("T5ForConditionalGeneration" | "T5WithLMHeadModel" | "T5LMHeadModel") => (),
        Some(_) => {
            return Err(unknown_variant(
                "t5",
                "another head than T5ForConditionalGeneration",
            ));
        }
    }
    let encoder_layers = or(fields, "num_layers", 6)?;
    let projection = fields.text("feed_forward_proj")?;
    let projection = projection.as_deref().unwrap_or("relu");
    let (feed_forward_layout, name) = match projection.split_once('-') {
        None => (FeedForwardLayout::Plain, projection),
        Some(("gated", "gelu")) => (FeedForwardLayout::Gated, "gelu_new"),
        Some(("gated", name)) => (FeedForwardLayout::Gated, name),
        Some(_) => return Err(unknown_variant("t5", "another feed_forward_proj")),
    };
    // Such configurations say by it that rows are not scaled; the table of embeddings is used for scores all the same.
    let is_tied = fields.truth("tie_word_embeddings", true)?;
    let shape = TextToTextShape {
        hidden: or(fields, "d_model", 512)?,
        encoder_layers,
        decoder_layers: or(fields, "num_decoder_layers", encoder_layers)?,
        heads: or(fields, "num_heads", 8)?,
        head_dim: or(fields, "d_kv", 64)?,
        feed_forward: or(fields, "d_ff", 2048)?,
        feed_forward_layout,
        activation: activation("t5", Some(name))?,
        vocabulary: or(fields, "vocab_size", 32128)?,
        distances: or(fields, "relative_attention_num_buckets", 32)?,
        has_scaled_output: fields.truth("scale_decoder_outputs", is_tied)?,
        dropout: fields.probability("dropout_rate", 0.1)?,
    };
    let layers = LayerShape {
        hidden: shape.hidden,
        layers: shape.encoder_layers + shape.decoder_layers,
        heads: shape.heads,
        head_dim: shape.head_dim,
        feed_forward: shape.feed_forward,
        activation: shape.activation,
        has_qkv_bias: false,
        dropout: shape.dropout,
        attention_dropout: shape.dropout,
    };
    check_layers(&layers, layers.layers, 2)?;
    check_count(shape.vocabulary, shape.hidden)?;
    check_count(shape.distances, shape.heads)?;
    Ok(shape)
}

fn whisper(fields: &Fields<'_>) -> Result<SpeechShape, ConfigError> {
    match fields.first_text("architectures") {
        None | Some("WhisperForConditionalGeneration") => (),
        Some(_) => {
            let variant = "another head than WhisperForConditionalGeneration";
            return Err(unknown_variant("whisper", variant));
        }
    }
    let hidden = or(fields, "d_model", 384)?;
    let layers = |names: [&'static str; 3]| {
        let [count, heads, width] = names;
        let heads = or(fields, heads, 6)?;
        let name = fields.text("activation_function")?;
        let shape = LayerShape {
            hidden,
            layers: or(fields, count, 4)?,
            heads,
            head_dim: head_dim(hidden, heads)?,
            feed_forward: or(fields, width, 1536)?,
            activation: activation("whisper", name.as_deref())?,
            has_qkv_bias: true,
            dropout: fields.probability("dropout", 0.0)?,
            attention_dropout: fields.probability("attention_dropout", 0.0)?,
        };
        check_layers(&shape, shape.layers, 2)?;
        Ok(shape)
    };
    let shape = SpeechShape {
        encoder: layers([
            "encoder_layers",
            "encoder_attention_heads",
            "encoder_ffn_dim",
        ])?,
        decoder: layers([
            "decoder_layers",
            "decoder_attention_heads",
            "decoder_ffn_dim",
        ])?,
        frequencies: or(fields, "num_mel_bins", 80)?,
        sound_positions: or(fields, "max_source_positions", 1500)?,
        text_positions: or(fields, "max_target_positions", 448)?,
        vocabulary: or(fields, "vocab_size", 51865)?,
        is_tied: fields.truth("tie_word_embeddings", true)?,
        activation_dropout: fields.probability("activation_dropout", 0.0)?,
    };
    let rows = shape.vocabulary + shape.sound_positions + shape.text_positions;
    check_count(rows + shape.frequencies, hidden)?;
    Ok(shape)
}

/// Refuses layers with more weights than any machine could hold.
fn check_layers(shape: &LayerShape, count: u64, attentions: u64) -> Result<(), ConfigError> {
    let hidden = u128::from(shape.hidden);
    let heads = u128::from(shape.heads) * u128::from(shape.head_dim) * u128::from(attentions);
    let width = u128::from(shape.feed_forward);
    check_most(u128::from(count) * hidden * (4 * heads + 3 * width))
}

fn check_count(rows: u64, columns: u64) -> Result<(), ConfigError> {
    check_most(u128::from(rows) * u128::from(columns))
}

fn check_most(count: u128) -> Result<(), ConfigError> {
    match count > MOST_PARAMETERS {
        true => Err(ConfigError::Contradiction {
            reason: "the model would have more weights than any machine can hold".to_owned(),
        }),
        false => Ok(()),
    }
}
