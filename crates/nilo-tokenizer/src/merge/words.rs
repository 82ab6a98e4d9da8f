//! Counted words as they are read from a source: packed, until they are laid out for merging.
//!
//! A packed word is its count, its length and its bytes, the first two as variable-length numbers.
//! The packed words lie in chunks that are given back one by one while the arena is filled, so that both are never whole at once.

use std::collections::BTreeMap;

use super::arena::BLOCK_SLOTS;
use super::error::{MergeError, ReadWordsError};
use super::options::MergeOptions;
use super::plan::plan_for;
use crate::WordSource;

const CHUNK_BYTES: usize = 1 << 20;
/// Counts below this have their sizes in an array; the few above in a tree.
const SMALL_COUNTS: usize = 4096;
const WORDS_BETWEEN_CHECKS: u64 = 1 << 16;
/// Places in the arena are 32-bit numbers.
pub(super) const MOST_SLOTS: u64 = u32::MAX as u64 - 64;

/// The words of a corpus with their counts, in memory.
#[derive(Debug, Default)]
pub struct Words {
    pub(super) chunks: Vec<Vec<u8>>,
    small_slots: Vec<u64>,
    large_slots: BTreeMap<u64, u64>,
    pub(super) seen: ByteSet,
    distinct: u64,
    bytes: u64,
    text_bytes: u128,
}

/// The bytes that occur.
#[derive(Debug, Clone)]
pub(super) struct ByteSet(pub(super) [bool; 256]);

impl Default for ByteSet {
    fn default() -> Self {
        Self([false; 256])
    }
}

impl Words {
    /// Reads all words. Words of one byte are noted and left out: there is nothing to merge in them.
    ///
    /// From where they cannot be merged within the budget, they are only measured: the error says what all of them need.
    pub fn read<W: WordSource>(
        mut source: W,
        options: &MergeOptions,
    ) -> Result<Self, ReadWordsError<W::Error>> {
        let mut words = Self {
            small_slots: vec![0; SMALL_COUNTS],
            ..Self::default()
        };
        let mut refusal = None;
        while let Some((word, count)) = source.next_word().map_err(ReadWordsError::Source)? {
            words.push(word, count, refusal.is_none())?;
            if refusal.is_none() && words.distinct.is_multiple_of(WORDS_BETWEEN_CHECKS) {
                refusal = plan_for(words.distinct, words.bytes, options).err();
                if refusal.is_some() {
                    words.chunks = Vec::new();
                }
            }
        }
        let Some(refusal) = refusal else {
            return Ok(words);
        };
        let of_all = plan_for(words.distinct, words.bytes, options);
        Err(of_all.err().unwrap_or(refusal).into())
    }

    fn push(&mut self, word: &[u8], count: u64, is_kept: bool) -> Result<(), MergeError> {
        for &byte in word {
            self.seen.0[usize::from(byte)] = true;
        }
        if word.len() < 2 || count == 0 {
            return Ok(());
        }
        if is_kept {
            self.pack(word, count);
        }
        let slots = word.len() as u64 + 1;
        match self.small_slots.get_mut(count as usize) {
            Some(group) if count < SMALL_COUNTS as u64 => *group += slots,
            _ => *self.large_slots.entry(count).or_default() += slots,
        }
        self.distinct += 1;
        self.bytes += word.len() as u64;
        self.text_bytes += u128::from(count) * word.len() as u128;
        if self.text_bytes >= 1 << 63 {
            return Err(MergeError::CountsTooLarge);
        }
        if self.bytes + self.distinct > MOST_SLOTS {
            return Err(MergeError::TooManyWords {
                bytes: self.bytes,
                most: MOST_SLOTS - self.distinct,
            });
        }
        Ok(())
    }

    fn pack(&mut self, word: &[u8], count: u64) {
        let needed = word.len() + 20;
        if self
            .chunks
            .last()
            .is_none_or(|chunk| chunk.capacity() - chunk.len() < needed)
        {
            self.chunks
                .push(Vec::with_capacity(needed.max(CHUNK_BYTES)));
        }
        let chunk = self
            .chunks
            .last_mut()
            .expect("a chunk was pushed if there was none");
        put_number(chunk, count);
        put_number(chunk, word.len() as u64);
        chunk.extend_from_slice(word);
    }

    /// Distinct words of two bytes or more.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        self.distinct
    }

    /// Bytes in them, each word once.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that the packed words take.
    pub(super) fn packed_bytes(&self) -> u64 {
        self.chunks
            .iter()
            .map(|chunk| chunk.capacity() as u64)
            .sum()
    }

    /// Groups of words of one count, the highest first: the count and the slots its words take, rounded up to whole blocks.
    pub(super) fn groups(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let large = self
            .large_slots
            .iter()
            .rev()
            .map(|(&count, &slots)| (count, slots));
        let small = self
            .small_slots
            .iter()
            .enumerate()
            .rev()
            .filter(|&(_, &slots)| slots > 0);
        large
            .chain(small.map(|(count, &slots)| (count as u64, slots)))
            .map(|(count, slots)| (count, slots.next_multiple_of(BLOCK_SLOTS)))
    }
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The words of one chunk, in the order they were packed.
pub(super) struct Unpack<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Unpack<'a> {
    type Item = (&'a [u8], u64);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let count = self.number();
        let length = self.number() as usize;
        let (word, rest) = self.0.split_at(length);
        self.0 = rest;
        Some((word, count))
    }
}

impl Unpack<'_> {
    fn number(&mut self) -> u64 {
        let mut number = 0;
        for (index, &byte) in self.0.iter().enumerate() {
            number |= u64::from(byte & 0x7F) << (7 * index);
            if byte < 0x80 {
                self.0 = &self.0[index + 1..];
                break;
            }
        }
        number
    }
}
