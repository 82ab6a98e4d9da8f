//! Exact weights of a checkpoint from its header: every tensor's name, type, shape and bytes, without reading tensor data.
//!
//! `checkpoint` finds the files of a model, `safetensors` and `gguf` read one file each.
//! The files are not trusted: what a header claims is checked against the length of its file before memory is taken for it.

#![forbid(unsafe_code)]

mod checkpoint;
mod data_section;
mod error;
mod folder;
mod ggml_kind;
mod gguf;
mod gguf_value;
mod header_input;
mod limits;
mod metadata;
mod one_file;
mod part_name;
mod safetensors;
mod safetensors_kind;
mod shard_index;
mod tensor_names;
mod weights;

pub use error::WeightsError;
pub use limits::{
    MAX_HEADER_BYTES, MAX_KEPT_TEXT_BYTES, MAX_KEYS, MAX_LIST_LENGTH, MAX_STRING_BYTES, MAX_TENSORS,
};
pub use metadata::MetadataValue;
pub use shard_index::ShardIndex;
pub use weights::{KindTotal, TensorWeights, Weights, WeightsFormat};
