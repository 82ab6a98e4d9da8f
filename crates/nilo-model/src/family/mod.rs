//! Families of models: what their layers compute, written with the operations of [`crate::dry_run`].

mod attention;
pub mod build;
pub mod decoder;
mod decoder_layer;
mod encoder;
pub mod encoder_shape;
mod feed_forward;
mod key_value_cache;
mod latent_attention;
mod masks;
mod mixture;
mod multi_head;
mod network;
mod normalization;
mod position_bias;
mod rotary;
mod seq2seq;
mod seq2seq_layer;
pub mod seq2seq_shape;
pub mod shape;
mod speech;
mod speech_layer;
pub mod speech_shape;
mod text_encoder;
mod vision;

pub use build::{Adapters, Build, BuildSettings, WeightPacking};
pub use decoder::{Decoder, TokenBatch};
pub use encoder_shape::{ImageEncoderShape, LayerShape, TextEncoderHead, TextEncoderShape};
pub use network::{Batch, Network, RunSettings};
pub use seq2seq::TextToText;
pub use seq2seq_shape::TextToTextShape;
pub use shape::{
    Activation, AttentionLayout, DecoderShape, FeedForwardLayout, MixtureShape, NormKind,
    NormPlaces, PositionKind,
};
pub use speech::Speech;
pub use speech_shape::SpeechShape;
pub use text_encoder::TextEncoder;
pub use vision::ImageEncoder;
