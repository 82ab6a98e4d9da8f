//! The ids of short words met before. Bounded: a word takes the slot that its hash points at, whoever had it.
//!
//! A word and its ids fit a cache line. Longer words are seldom met twice and would take more to keep than to join again.

use crate::prefetch::prefetch;

/// A word of at most [`LONGEST`] bytes, and its ids.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct CachedWord {
    /// As in [`CacheKey`]; zero: empty.
    word: u128,
    ids: [u32; MOST_IDS],
    count: u32,
}

const MOST_IDS: usize = 11;
/// 64 bytes each: two megabytes.
const SLOTS: usize = 1 << 15;
const LONGEST: usize = 15;

/// A word as the cache knows it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CacheKey {
    /// The bytes, then the length in the highest byte; zero for a word that is too long.
    word: u128,
    slot: usize,
}

/// Words met before.
#[derive(Debug)]
pub(super) struct Cache(Box<[CachedWord]>);

impl Default for Cache {
    fn default() -> Self {
        Self(vec![CachedWord::default(); SLOTS].into_boxed_slice())
    }
}

impl Cache {
    /// The key of a word, of which the slot is asked for.
    #[inline(always)]
    pub(super) fn look_ahead(&self, text: &[u8], start: usize, end: usize) -> CacheKey {
        if end - start > LONGEST {
            return CacheKey::default();
        }
        let word = packed(text, start, end);
        let slot = slot_of(word);
        prefetch(&self.0[slot]);
        CacheKey { word, slot }
    }

    /// Appends the ids of a word if it was met before.
    #[inline(always)]
    pub(super) fn recall(&self, key: CacheKey, ids: &mut Vec<u32>) -> bool {
        let slot = &self.0[key.slot];
        if slot.word != key.word || key.word == 0 {
            return false;
        }
        let count = slot.count as usize;
        if count <= 4 {
            // Four are copied whatever the count: a copy of fixed length needs no call.
            ids.extend_from_slice(&slot.ids[..4]);
            ids.truncate(ids.len() - (4 - count));
        } else {
            ids.extend_from_slice(&slot.ids[..count]);
        }
        true
    }

    /// Keeps a word's ids.
    #[inline(always)]
    pub(super) fn remember(&mut self, key: CacheKey, ids: &[u32]) {
        if key.word != 0 && (1..=MOST_IDS).contains(&ids.len()) {
            let slot = &mut self.0[key.slot];
            slot.word = key.word;
            slot.ids[..ids.len()].copy_from_slice(ids);
            slot.count = ids.len() as u32;
        }
    }
}

#[inline(always)]
fn packed(text: &[u8], start: usize, end: usize) -> u128 {
    let length = end - start;
    let bytes = match text
        .get(start..start + 16)
        .and_then(|bytes| bytes.try_into().ok())
    {
        Some(bytes) => u128::from_le_bytes(bytes) & ((1 << (8 * length)) - 1),
        None => {
            let mut bytes = [0; 16];
            bytes[..length].copy_from_slice(&text[start..end]);
            u128::from_le_bytes(bytes)
        }
    };
    bytes | (length as u128) << 120
}

#[inline(always)]
fn slot_of(word: u128) -> usize {
    let (low, high) = (word as u64, (word >> 64) as u64);
    let mixed =
        (low ^ high.wrapping_mul(0xD6E8_FEB8_6659_FD93)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) as usize
        >> (64 - SLOTS.trailing_zeros())
}
