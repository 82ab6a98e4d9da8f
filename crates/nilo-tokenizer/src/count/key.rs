//! A word of up to fifteen bytes as two integers, and the hashes of words.

/// The longest word that is kept in the table itself.
pub(crate) const SHORT_BYTES: usize = 15;

/// A short word: its bytes, zeros, and its length in the last byte, so that equal words are equal integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ShortWord {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// For each length, the bits of a word and the length where it belongs.
static MASKS: [(u64, u64, u64); SHORT_BYTES + 1] = {
    let mut masks = [(0, 0, 0); SHORT_BYTES + 1];
    let mut length = 0;
    while length <= SHORT_BYTES {
        let bits = (1_u128 << (8 * length)) - 1;
        masks[length] = (bits as u64, (bits >> 64) as u64, (length as u64) << 56);
        length += 1;
    }
    masks
};

impl ShortWord {
    /// The word of `length` bytes (at most fifteen) that the sixteen bytes begin with.
    #[inline(always)]
    pub(crate) fn load(window: &[u8; 16], length: usize) -> Self {
        let (low_mask, high_mask, tagged) = MASKS[length];
        let both = u128::from_le_bytes(*window);
        Self {
            low: both as u64 & low_mask,
            high: (both >> 64) as u64 & high_mask | tagged,
        }
    }

    pub(crate) fn length(self) -> usize {
        (self.high >> 56) as usize
    }

    /// The word's bytes, of which the first [`Self::length`] count.
    pub(crate) fn bytes(self) -> [u8; 16] {
        (u128::from(self.high) << 64 | u128::from(self.low)).to_le_bytes()
    }

    #[inline(always)]
    pub(crate) fn hash(self) -> u64 {
        fold(self.low ^ FIRST, self.high ^ SECOND)
    }
}

/// Digits of pi, so that nobody wonders where they are from.
const FIRST: u64 = 0x243F_6A88_85A3_08D3;
const SECOND: u64 = 0x1319_8A2E_0370_7344;

/// Both halves of the product: every bit of the arguments reaches every bit of the result.
#[inline(always)]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product >> 64) as u64 ^ product as u64
}

/// The hash of a word of at least sixteen bytes.
#[inline]
pub(crate) fn hash_long(word: &[u8]) -> u64 {
    let mut state = FIRST ^ word.len() as u64;
    let mut chunks = word.chunks_exact(16);
    for chunk in &mut chunks {
        let both = u128::from_le_bytes(chunk.try_into().unwrap_or_default());
        state = fold(both as u64 ^ state, (both >> 64) as u64 ^ SECOND);
    }
    if let Some(last) = word.last_chunk::<16>() {
        let both = u128::from_le_bytes(*last);
        state = fold(both as u64 ^ state, (both >> 64) as u64 ^ SECOND);
    }
    fold(state, FIRST ^ SECOND)
}
