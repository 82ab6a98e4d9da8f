//! The ids of words met before. Bounded: a word takes the slot that its hash points at, whoever had it.
//!
//! Most words of a text are short: they fit a cache line whole, key and ids. Longer ones, such as rules and indents, have a smaller table.

/// A word of at most 15 bytes, and its ids.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Short {
    /// The bytes, then the length in the highest byte; zero: empty.
    key: u128,
    ids: [u32; MOST_IDS],
    count: u32,
}

#[derive(Debug, Clone, Default)]
struct Long {
    word: Vec<u8>,
    ids: Vec<u32>,
}

const MOST_IDS: usize = 11;
/// 64 bytes each: two megabytes.
const SHORT_SLOTS: usize = 1 << 15;
const LONG_SLOTS: usize = 1 << 11;
const LONGEST_SHORT: usize = 15;
const LONGEST: usize = 256;

/// Words met before.
#[derive(Debug)]
pub(super) struct Cache {
    short: Box<[Short]>,
    long: Box<[Long]>,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            short: vec![Short::default(); SHORT_SLOTS].into_boxed_slice(),
            long: vec![Long::default(); LONG_SLOTS].into_boxed_slice(),
        }
    }
}

impl Cache {
    /// Appends the ids of a word if it was met before.
    #[inline(always)]
    pub(super) fn recall(&self, text: &[u8], start: usize, end: usize, ids: &mut Vec<u32>) -> bool {
        if end - start <= LONGEST_SHORT {
            let key = short_key(text, start, end);
            let slot = &self.short[short_slot(key)];
            if slot.key != key {
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
            return true;
        }
        self.recall_long(&text[start..end], ids)
    }

    #[inline(never)]
    fn recall_long(&self, word: &[u8], ids: &mut Vec<u32>) -> bool {
        let found = word.len() <= LONGEST && self.long[long_slot(word)].word == word;
        if found {
            ids.extend_from_slice(&self.long[long_slot(word)].ids);
        }
        found
    }

    /// Keeps a word's ids.
    pub(super) fn remember(&mut self, text: &[u8], start: usize, end: usize, ids: &[u32]) {
        if end - start <= LONGEST_SHORT {
            if (1..=MOST_IDS).contains(&ids.len()) {
                let key = short_key(text, start, end);
                let slot = &mut self.short[short_slot(key)];
                slot.key = key;
                slot.ids[..ids.len()].copy_from_slice(ids);
                slot.count = ids.len() as u32;
            }
        } else if end - start <= LONGEST && !ids.is_empty() {
            let word = &text[start..end];
            let slot = &mut self.long[long_slot(word)];
            slot.word.clear();
            slot.word.extend_from_slice(word);
            slot.ids.clear();
            slot.ids.extend_from_slice(ids);
        }
    }
}

#[inline(always)]
fn short_key(text: &[u8], start: usize, end: usize) -> u128 {
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
fn short_slot(key: u128) -> usize {
    let (low, high) = (key as u64, (key >> 64) as u64);
    let mixed =
        (low ^ high.wrapping_mul(0xD6E8_FEB8_6659_FD93)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) as usize
        >> (64 - SHORT_SLOTS.trailing_zeros())
}

fn long_slot(word: &[u8]) -> usize {
    let mut mixed = word.len() as u64;
    for part in word.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        mixed = (mixed ^ u64::from_le_bytes(bytes))
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29);
    }
    mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> (64 - LONG_SLOTS.trailing_zeros())
}
