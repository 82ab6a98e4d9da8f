//! Counting the words of a corpus, on several threads, in a stated amount of memory, exactly.
//!
//! Each thread takes a chunk, splits it and counts frequent words in a small table of its own; the rest goes to a shared
//! table, so that a word is kept once however many threads there are. What exceeds the memory budget goes to disk as
//! sorted runs and is merged at the end: no word is ever dropped.

mod counter;
mod counts;
mod error;
mod file;
mod front;
mod index;
mod key;
mod merge;
mod merged_files;
mod records;
mod resume;
mod shard;
mod shard_words;
mod spill;
mod table;
mod totals;
mod worker;

#[cfg(test)]
mod count_tests;

pub use counter::{CountOutcome, CountSettings, DocumentCounter, count};
pub use counts::{CountedWords, Counts};
pub use error::CountError;
pub use file::CountsReader;
pub use merged_files::MergedCounts;
pub use resume::{Unfinished, resume};
pub use totals::{CorpusTotals, Recipe};
