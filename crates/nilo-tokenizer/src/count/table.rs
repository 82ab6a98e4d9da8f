//! The shared word table: shards behind locks, which spill to disk one by one when the budget is used up.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::CountError;
use super::front::{SHARDS, WordSink, shard_of};
use super::shard::{LongSpan, Shard, ShardSize, ShortEntry, hash_of};
use super::spill::Spilled;

/// A shard in memory and the runs it has left behind.
#[derive(Debug)]
pub(crate) struct SpillingShard {
    pub(crate) shard: Shard,
    pub(crate) spilled: Option<Spilled>,
}

/// The least that a shard is given, however small the budget: below this, runs become tiny and many.
const LEAST_SHARD_BYTES: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct WordTable {
    parts: Vec<Mutex<SpillingShard>>,
    shard_budget: usize,
    folder: Arc<PathBuf>,
    failed: AtomicBool,
    failure: Mutex<Option<CountError>>,
}

impl WordTable {
    /// A table that keeps at most `budget_bytes` in memory and puts the rest into unnamed files in `folder`.
    pub(crate) fn new(budget_bytes: Option<u64>, folder: PathBuf) -> Self {
        let part = || SpillingShard {
            shard: Shard::new(),
            spilled: None,
        };
        // Sorting a shard before it is written takes four bytes a word more.
        let each = budget_bytes.map_or(usize::MAX, |budget| {
            (budget / SHARDS as u64) as usize * 7 / 8
        });
        Self {
            parts: (0..SHARDS).map(|_| Mutex::new(part())).collect(),
            shard_budget: each.max(LEAST_SHARD_BYTES),
            folder: Arc::new(folder),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, SpillingShard> {
        self.parts[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a word of any length, as often as it occurred.
    pub(crate) fn add(&self, word: &[u8], count: u64) {
        let hash = hash_of(word);
        let mut part = self.lock(shard_of(hash));
        part.shard.add(word, hash, count);
        self.settle(&mut part);
    }

    /// Spills a shard that has grown over its share.
    fn settle(&self, part: &mut SpillingShard) {
        if part.shard.memory_bytes() <= self.shard_budget && !part.shard.is_at_its_end() {
            return;
        }
        if let Err(error) = self.spill(part) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
            self.failed.store(true, Ordering::Release);
        }
        // After a failure the words do not matter any more, but the memory does.
        part.shard = Shard::new();
    }

    fn spill(&self, part: &mut SpillingShard) -> Result<(), CountError> {
        if part.spilled.is_none() {
            part.spilled = Some(Spilled::new(&self.folder)?);
        }
        match &mut part.spilled {
            Some(spilled) => spilled.write(&part.shard),
            None => Ok(()),
        }
    }

    /// Whether a word could not be kept.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// The parts, each either in memory or in one run on disk, and how many different words there are.
    pub(crate) fn finish(self) -> Result<(Vec<SpillingShard>, ShardSize), CountError> {
        if let Some(error) = self
            .failure
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
        {
            return Err(error);
        }
        let mut size = ShardSize::default();
        let mut parts = Vec::with_capacity(SHARDS);
        for part in self.parts {
            let mut part = part.into_inner().unwrap_or_else(PoisonError::into_inner);
            let words = match &mut part.spilled {
                Some(spilled) => {
                    spilled.write(&part.shard)?;
                    part.shard = Shard::new();
                    spilled.compact()?
                }
                None => {
                    part.shard.drop_indexes();
                    part.shard.size()
                }
            };
            size.words += words.words;
            size.word_bytes += words.word_bytes;
            parts.push(part);
        }
        Ok((parts, size))
    }
}

impl WordSink for &WordTable {
    fn add_short(&mut self, shard: usize, words: &[ShortEntry]) {
        let mut part = self.lock(shard);
        part.shard.add_short(words);
        self.settle(&mut part);
    }

    fn add_long(&mut self, shard: usize, text: &[u8], words: &[LongSpan]) {
        let mut part = self.lock(shard);
        // A chunk may hold more long words than a shard may.
        for some in words.chunks(256) {
            part.shard.add_long(text, some);
            self.settle(&mut part);
        }
    }
}
