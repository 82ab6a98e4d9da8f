//! A thread's own small table in front of the shared one: most words of a text are a few thousand frequent ones.
//!
//! A slot holds one word and how often it came; another word with the same slot sends it on to the shared table.
//! Words go there in batches, one for each shard, so that locks are taken rarely.

use super::key::{SHORT_BYTES, ShortWord, hash_long};
use super::shard::{LongSpan, ShortEntry};
use crate::prefetch::prefetch;

/// Shards of the shared table.
pub(crate) const SHARDS: usize = 32;
/// Words that wait for a shard before it is locked.
const WAITING: usize = 128;

/// Which shard a hash belongs to: bits that neither the index nor the slots here use.
#[inline(always)]
pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

/// Where words go that the front does not keep.
pub(crate) trait WordSink {
    fn add_short(&mut self, shard: usize, words: &[ShortEntry]);
    fn add_long(&mut self, shard: usize, text: &[u8], words: &[LongSpan]);
}

/// Words that are looked up together.
const BATCH: usize = 512;

/// A word and its count, aligned so that it lies in one cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(32))]
struct FrontSlot(ShortEntry);

#[derive(Debug)]
pub(crate) struct FrontCache {
    slots: Vec<FrontSlot>,
    waiting: Vec<Vec<ShortEntry>>,
    long: Vec<Vec<LongSpan>>,
    pub(crate) words: u64,
    /// Where the next word begins, and where the words of the batch end.
    start: usize,
    ends: Box<[u32; BATCH]>,
    ready: usize,
    /// The short words of a batch and their slots.
    found: Box<[(ShortWord, u32); BATCH]>,
}

impl FrontCache {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            slots: vec![FrontSlot::default(); slots.next_power_of_two()],
            waiting: (0..SHARDS).map(|_| Vec::with_capacity(WAITING)).collect(),
            long: vec![Vec::new(); SHARDS],
            words: 0,
            start: 0,
            ends: Box::new([0; BATCH]),
            ready: 0,
            found: Box::new([(ShortWord::default(), 0); BATCH]),
        }
    }

    /// Begins a text at `start`; all words from there on follow each other.
    pub(crate) fn begin(&mut self, start: usize) {
        self.start = start;
    }

    /// Counts the next word, which ends at `end`, of a text with sixteen more bytes after it.
    #[inline(always)]
    pub(crate) fn count(&mut self, text: &[u8], end: usize, back: &mut impl WordSink) {
        self.ends[self.ready] = end as u32;
        self.ready += 1;
        if self.ready == BATCH {
            self.count_batch(text, back);
        }
    }

    /// Looks up the words that wait. In two passes: the first knows every slot that the second will touch, so that none
    /// is waited for, and a wrong guess of the processor's about one word does not hold up the next.
    #[inline(never)]
    pub(crate) fn count_batch(&mut self, text: &[u8], back: &mut impl WordSink) {
        let mut start = self.start;
        let mut found = 0;
        let mask = self.slots.len() - 1;
        for &end in &self.ends[..self.ready] {
            let end = end as usize;
            let length = end - start;
            if length > SHORT_BYTES {
                let hash = hash_long(&text[start..end]);
                let (start, length) = (start as u32, length as u32);
                self.long[shard_of(hash)].push(LongSpan {
                    hash,
                    start,
                    length,
                });
            } else if let Some(window) = text[start..].first_chunk() {
                let word = ShortWord::load(window, length);
                let place = (word.hash() >> 24) as usize & mask;
                prefetch(&self.slots[place]);
                self.found[found] = (word, place as u32);
                found += 1;
            }
            start = end;
        }
        self.words += self.ready as u64;
        self.start = start;
        self.ready = 0;
        for number in 0..found {
            let (word, place) = self.found[number];
            let FrontSlot(slot) = &mut self.slots[place as usize & mask];
            if slot.word == word {
                slot.count += 1;
            } else {
                let evicted = std::mem::replace(slot, ShortEntry { word, count: 1 });
                if evicted.count > 0 {
                    self.send(evicted, back);
                }
            }
        }
    }

    #[inline]
    fn send(&mut self, entry: ShortEntry, back: &mut impl WordSink) {
        let shard = shard_of(entry.word.hash());
        let waiting = &mut self.waiting[shard];
        waiting.push(entry);
        if waiting.len() == WAITING {
            back.add_short(shard, waiting);
            waiting.clear();
        }
    }

    /// Sends on the long words of `text`, which is about to go away.
    pub(crate) fn flush_long(&mut self, text: &[u8], back: &mut impl WordSink) {
        for (shard, words) in self.long.iter_mut().enumerate() {
            if !words.is_empty() {
                back.add_long(shard, text, words);
                words.clear();
            }
        }
    }

    /// Sends on everything.
    pub(crate) fn flush(&mut self, back: &mut impl WordSink) {
        for place in 0..self.slots.len() {
            let FrontSlot(entry) = std::mem::take(&mut self.slots[place]);
            if entry.count > 0 {
                self.send(entry, back);
            }
        }
        for (shard, words) in self.waiting.iter_mut().enumerate() {
            back.add_short(shard, words);
            words.clear();
        }
    }
}
