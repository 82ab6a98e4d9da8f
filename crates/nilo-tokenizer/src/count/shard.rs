//! One part of the word table: the words whose hash falls to it, with their counts.

use super::index::{Index, MOST_ENTRIES};
use super::key::{SHORT_BYTES, ShortWord, hash_long};
use crate::prefetch::prefetch;

/// Entries in a segment. Segments are never moved, so growing neither copies entries nor doubles their memory.
pub(super) const SEGMENT: usize = 256;
/// Bytes of long words in a segment; a longer word has one of its own.
const TEXT_SEGMENT: usize = 1 << 14;
/// Words looked up together, so that their cache lines come at the same time.
const BATCH: usize = 32;

/// A short word that occurred `count` times.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ShortEntry {
    pub(crate) word: ShortWord,
    pub(crate) count: u64,
}

/// A long word: where its bytes are and how often it occurred.
#[derive(Debug, Clone, Copy)]
pub(super) struct LongEntry {
    pub(super) count: u64,
    pub(super) segment: u32,
    offset: u32,
    length: u32,
    /// All that the index uses of the hash: its low 24 bits and its top 8.
    hash_bits: u32,
}

/// A long word in the text at hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongSpan {
    pub(crate) hash: u64,
    pub(crate) start: u32,
    pub(crate) length: u32,
}

/// What a shard takes in memory, and what is in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ShardSize {
    pub(crate) words: u64,
    pub(crate) word_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Shard {
    pub(super) short_index: Index,
    pub(super) short: Vec<Vec<ShortEntry>>,
    pub(super) long_index: Index,
    pub(super) long: Vec<Vec<LongEntry>>,
    pub(super) text: Vec<Vec<u8>>,
    text_bytes: usize,
    size: ShardSize,
}

impl Shard {
    pub(crate) fn new() -> Self {
        Self {
            short_index: Index::new(),
            short: Vec::new(),
            long_index: Index::new(),
            long: Vec::new(),
            text: Vec::new(),
            text_bytes: 0,
            size: ShardSize::default(),
        }
    }

    pub(crate) fn size(&self) -> ShardSize {
        self.size
    }

    /// Memory in use.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.short_index.bytes()
            + self.long_index.bytes()
            + self.short.len() * SEGMENT * size_of::<ShortEntry>()
            + self.long.len() * SEGMENT * size_of::<LongEntry>()
            + self.text_bytes
    }

    /// Whether numbers of entries are about to run out.
    pub(crate) fn is_at_its_end(&self) -> bool {
        self.short.len().max(self.long.len()) * SEGMENT + SEGMENT >= MOST_ENTRIES
    }

    #[inline(always)]
    pub(super) fn short_at(&self, entry: usize) -> &ShortEntry {
        &self.short[entry / SEGMENT][entry % SEGMENT]
    }

    #[inline(always)]
    pub(super) fn long_at(&self, entry: usize) -> &LongEntry {
        &self.long[entry / SEGMENT][entry % SEGMENT]
    }

    pub(super) fn text_of(&self, entry: &LongEntry) -> &[u8] {
        let start = entry.offset as usize;
        &self.text[entry.segment as usize][start..start + entry.length as usize]
    }

    /// Adds counts of short words.
    pub(crate) fn add_short(&mut self, words: &[ShortEntry]) {
        for batch in words.chunks(BATCH) {
            let mut hashes = [0; BATCH];
            for (hash, entry) in hashes.iter_mut().zip(batch) {
                *hash = entry.word.hash();
                self.short_index.prefetch(*hash);
            }
            for hash in &hashes[..batch.len()] {
                if let Some(entry) = self.short_index.likely(*hash) {
                    prefetch(self.short_at(entry));
                }
            }
            for (entry, hash) in batch.iter().zip(hashes) {
                self.add_one_short(entry, hash);
            }
        }
    }

    #[inline(always)]
    fn add_one_short(&mut self, added: &ShortEntry, hash: u64) {
        match self
            .short_index
            .find(hash, |entry| self.short_at(entry).word == added.word)
        {
            Ok(entry) => self.short[entry / SEGMENT][entry % SEGMENT].count += added.count,
            Err(place) => self.insert_short(added, hash, place),
        }
    }

    #[cold]
    fn insert_short(&mut self, added: &ShortEntry, hash: u64, mut place: usize) {
        if self.short_index.is_full() {
            let short = &self.short;
            self.short_index
                .grow(|entry| short[entry / SEGMENT][entry % SEGMENT].word.hash());
            place = self
                .short_index
                .find(hash, |_| false)
                .unwrap_or_else(|slot| slot);
        }
        push(&mut self.short, *added);
        self.short_index.put(place, hash);
        self.size.words += 1;
        self.size.word_bytes += added.word.length() as u64;
    }

    /// Adds long words of `text`, each once.
    pub(crate) fn add_long(&mut self, text: &[u8], words: &[LongSpan]) {
        for batch in words.chunks(BATCH) {
            for span in batch {
                self.long_index.prefetch(span.hash);
            }
            for span in batch {
                if let Some(entry) = self.long_index.likely(span.hash) {
                    prefetch(self.long_at(entry));
                }
            }
            for span in batch {
                let word = &text[span.start as usize..][..span.length as usize];
                self.add_one_long(word, span.hash, 1);
            }
        }
    }

    /// Adds a word of any length.
    pub(crate) fn add(&mut self, word: &[u8], hash: u64, count: u64) {
        if word.len() > SHORT_BYTES {
            self.add_one_long(word, hash, count);
        } else {
            let mut window = [0; 16];
            window[..word.len()].copy_from_slice(word);
            let word = ShortWord::load(&window, word.len());
            self.add_one_short(&ShortEntry { word, count }, hash);
        }
    }

    fn add_one_long(&mut self, word: &[u8], hash: u64, count: u64) {
        let found = self.long_index.find(hash, |entry| {
            let entry = self.long_at(entry);
            entry.length as usize == word.len() && self.text_of(entry) == word
        });
        match found {
            Ok(entry) => self.long[entry / SEGMENT][entry % SEGMENT].count += count,
            Err(place) => self.insert_long(word, hash, count, place),
        }
    }

    #[cold]
    fn insert_long(&mut self, word: &[u8], hash: u64, count: u64, mut place: usize) {
        if self.long_index.is_full() {
            let long = &self.long;
            self.long_index
                .grow(|entry| whole_hash(long[entry / SEGMENT][entry % SEGMENT].hash_bits));
            place = self
                .long_index
                .find(hash, |_| false)
                .unwrap_or_else(|slot| slot);
        }
        let room = self
            .text
            .last()
            .map_or(0, |text| text.capacity() - text.len());
        if room < word.len() {
            let capacity = TEXT_SEGMENT.max(word.len());
            self.text.push(Vec::with_capacity(capacity));
            self.text_bytes += capacity;
        }
        let segment = self.text.len() - 1;
        let offset = self.text[segment].len();
        self.text[segment].extend_from_slice(word);
        push(
            &mut self.long,
            LongEntry {
                count,
                segment: segment as u32,
                offset: offset as u32,
                length: word.len() as u32,
                hash_bits: (hash & 0xFF_FFFF) as u32 | (hash >> 56 << 24) as u32,
            },
        );
        self.long_index.put(place, hash);
        self.size.words += 1;
        self.size.word_bytes += word.len() as u64;
    }
}

/// The parts of a hash that the index uses.
fn whole_hash(bits: u32) -> u64 {
    u64::from(bits & 0xFF_FFFF) | u64::from(bits >> 24) << 56
}

fn push<T>(segments: &mut Vec<Vec<T>>, entry: T) {
    match segments.last_mut() {
        Some(last) if last.len() < SEGMENT => last.push(entry),
        _ => {
            let mut segment = Vec::with_capacity(SEGMENT);
            segment.push(entry);
            segments.push(segment);
        }
    }
}

/// The hash of a word of any length.
pub(crate) fn hash_of(word: &[u8]) -> u64 {
    if word.len() > SHORT_BYTES {
        return hash_long(word);
    }
    let mut window = [0; 16];
    window[..word.len()].copy_from_slice(word);
    ShortWord::load(&window, word.len()).hash()
}
