//! Byte-level BPE: counting, learning and encoding of `nilo-tokenizer`, for `nilometer.bpe`.

mod counts;
mod failure;
mod job;
mod means;
mod model;
mod options;
mod texts;

pub(crate) use counts::BpeCounts;
pub(crate) use model::BpeModel;
