//! Learning merges from counted words.
//!
//! [`Words`] are read from a [`WordSource`](crate::WordSource), [`Words::plan`] predicts what merging will take, and [`Words::learn`] merges.
//! The result depends on the counts and on what is asked for, never on the number of threads or the memory.

mod arena;
mod compact;
mod error;
mod first_index;
mod heap;
mod index;
mod lists;
mod merger;
mod options;
mod order;
mod pair_table;
mod plan;
mod pool;
mod replace;
mod slot;
mod threads;
mod tokens;
mod update;
mod words;

use std::sync::atomic::{AtomicU16, AtomicU32};
use std::time::{Duration, Instant};

pub use error::{MergeError, ReadWordsError};
pub use options::{Alphabet, MergeOptions, TieBreak};
pub use plan::{MergePlan, plan_for};
pub use words::Words;

use crate::Progress;
use arena::Arena;
use index::Indexed;
use merger::Merger;
use plan::IndexCapacity;
use slot::SymbolSlot;
use tokens::Tokens;

/// One merge: two tokens that become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Merge {
    /// The id of the left half.
    pub left: u32,
    /// The id of the right half.
    pub right: u32,
    /// The id of both together. A text that had an id before keeps it.
    pub joined: u32,
    /// How often the pair occurred.
    pub count: u64,
}

/// What was learnt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// The text of each id: special tokens, the alphabet, merged tokens.
    pub tokens: Vec<Box<[u8]>>,
    /// The special tokens: their ids are 0, 1, and so on.
    pub special_tokens: Vec<String>,
    /// In the order they were learnt.
    pub merges: Vec<Merge>,
    /// How the work went; it differs with memory and threads where the rest does not.
    pub statistics: MergeStatistics,
}

/// How the work went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergeStatistics {
    /// How often all pairs were counted after the first time.
    pub indexes: u64,
    /// How often the lists of places were slid together.
    pub compactions: u64,
    /// Merges whose places had no room, so that all words were gone through.
    pub scans: u64,
}

const TIME_BETWEEN_REPORTS: Duration = Duration::from_millis(50);

impl Words {
    /// Learns merges until the vocabulary is full or no pair is frequent enough.
    pub fn learn(
        self,
        options: &MergeOptions,
        progress: &dyn Progress,
    ) -> Result<Learned, MergeError> {
        let most = AtomicU32::MOST_IDS as usize;
        if options.vocabulary_size > most {
            return Err(MergeError::VocabularyTooLarge {
                wanted: options.vocabulary_size,
                most,
            });
        }
        if options.vocabulary_size <= AtomicU16::MOST_IDS as usize {
            learn::<AtomicU16>(self, options, progress)
        } else {
            learn::<AtomicU32>(self, options, progress)
        }
    }
}

fn learn<S: SymbolSlot>(
    words: Words,
    options: &MergeOptions,
    progress: &dyn Progress,
) -> Result<Learned, MergeError> {
    let tokens = Tokens::new(options, &words.seen)?;
    let room = IndexCapacity::choose(&words, options)?;
    let arena = Arena::<S>::new(words, &tokens);
    let wanted = (options.vocabulary_size - tokens.len()) as u64;
    let mut merger = Merger::new(arena, tokens, room, options);
    let mut merges: Vec<Merge> = Vec::new();
    let mut reported = Instant::now();
    let mut indexed = merger.index_bytes();
    while merger.tokens.len() < options.vocabulary_size {
        match (merger.next(), indexed) {
            (Some(next), _) => merges.push(merger.merge(next)),
            (None, Indexed::TooLong(next)) => {
                merges.push(merger.merge_by_scan(next));
                indexed = Indexed::Ready;
            }
            (None, Indexed::Nothing) => break,
            (None, _) if merger.knows_all() => break,
            (None, _) => indexed = merger.index(),
        }
        if merges.len() >= 128 && merges.len().is_power_of_two() {
            let count = merges[merges.len() - 1].count;
            merger.foresee(merges.len(), count);
        }
        if merges.len().is_multiple_of(32) && reported.elapsed() >= TIME_BETWEEN_REPORTS {
            reported = Instant::now();
            progress.merged(merges.len() as u64, wanted);
            if progress.should_stop() {
                return Err(MergeError::Stopped {
                    merges: merges.len(),
                });
            }
        }
    }
    progress.merged(merges.len() as u64, wanted);
    Ok(Learned {
        tokens: merger.tokens.texts,
        special_tokens: options.special_tokens.clone(),
        merges,
        statistics: merger.statistics,
    })
}
