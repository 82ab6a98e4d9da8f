//! A few words at a time: while their slots in the cache are on the way, the words after them are found.

use super::cache::{Cache, CacheKey};

/// Enough to cover the way to memory, few enough to stay at hand.
const WORDS: usize = 16;

/// A word that waits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct QueuedWord {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) key: CacheKey,
}

/// Words that wait.
#[derive(Debug, Default)]
pub(super) struct WordBatch {
    words: [QueuedWord; WORDS],
    count: usize,
}

impl WordBatch {
    /// Adds a word, and says whether the batch is full.
    #[inline(always)]
    pub(super) fn push(&mut self, cache: &Cache, text: &[u8], start: usize, end: usize) -> bool {
        let key = cache.look_ahead(text, start, end);
        self.words[self.count] = QueuedWord { start, end, key };
        self.count += 1;
        self.count == WORDS
    }

    /// The words, which leave the batch.
    #[inline(always)]
    pub(super) fn take(&mut self) -> &[QueuedWord] {
        &self.words[..std::mem::take(&mut self.count)]
    }
}
