//! Byte-level BPE in bounded memory: words of a corpus are counted, merges are learnt from the counts, texts are encoded with them.
//!
//! The stages meet in two places: a [`WordSource`] hands counted words to the merger, and a [`Progress`] hears how far each stage has come.

pub mod byte_level;
pub mod merge;
mod progress;
mod words;

pub use progress::{Progress, Quiet};
pub use words::WordSource;
