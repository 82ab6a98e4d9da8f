//! Byte-level BPE: counting, learning and encoding of `nilo-tokenizer`, for `nilometer.bpe`.

mod counts;
mod failure;
mod job;
mod memory_size;
mod model;
mod options;
mod texts;

pub(crate) use counts::BpeCounts;
pub(crate) use model::BpeModel;
