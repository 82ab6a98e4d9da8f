//! Byte-level BPE in bounded memory: words of a corpus are counted, merges are learnt from the counts, texts are encoded with them.
//!
//! The stages meet in two places: a [`WordSource`] hands counted words to the merger, and a [`Progress`] hears how far each stage has come.

pub mod byte_level;
mod corpus;
mod count;
pub mod encode;
pub mod merge;
pub mod model;
mod pattern;
mod prefetch;
mod progress;
mod resource_limits;
mod whole_file;
mod words;

pub use corpus::{Corpus, CorpusError, Documents, SourceFile, TextFormat};
pub use count::{
    CorpusTotals, CountError, CountOutcome, CountSettings, CountedWords, Counts, CountsReader,
    DocumentCounter, MergedCounts, Recipe, Unfinished, count, resume,
};
pub use pattern::{
    CL100K_REGEX, CustomPattern, GPT2_REGEX, O200K_REGEX, Pattern, PatternError, UNICODE_VERSION,
};
pub use progress::{Progress, Quiet};
pub use resource_limits::ResourceLimits;
pub use whole_file::WholeFile;
pub use words::WordSource;
