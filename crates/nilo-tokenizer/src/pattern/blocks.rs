//! Sixty-four bytes of ASCII at once: one bit a byte for each class. What is not ASCII is left to the caller.

/// Bytes in a block.
pub(super) const BLOCK: usize = 64;

/// Which bytes of a block are what; bit 0 is the first byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Masks {
    pub(super) letters: u64,
    pub(super) numbers: u64,
    /// `\s`, blanks included.
    pub(super) spaces: u64,
    /// The character U+0020 alone.
    pub(super) blanks: u64,
    pub(super) apostrophes: u64,
    /// Not ASCII.
    pub(super) wide: u64,
}

/// The masks of the block at `base`. Bytes past the end of the text count as nothing.
#[inline(always)]
pub(super) fn masks_at(text: &[u8], base: usize) -> Masks {
    match text[base..].first_chunk::<BLOCK>() {
        Some(block) => classify(block),
        None => {
            let mut block = [0; BLOCK];
            let rest = &text[base..];
            block[..rest.len()].copy_from_slice(rest);
            classify(&block)
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn classify(block: &[u8; BLOCK]) -> Masks {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8, _mm_sub_epi8,
    };
    let mut masks = Masks::default();
    for (part, sixteen) in block.chunks_exact(16).enumerate() {
        let shift = part * 16;
        // SAFETY: the chunk has sixteen bytes, the load needs no alignment, and SSE2 belongs to every x86-64.
        let bits =
            |vector: __m128i| unsafe { u64::from(_mm_movemask_epi8(vector) as u16) } << shift;
        // SAFETY: as above.
        unsafe {
            let bytes = _mm_loadu_si128(sixteen.as_ptr().cast());
            let set = |byte: u8| _mm_set1_epi8(byte.cast_signed());
            // Unsigned `x - low <= span`, as a minimum that changes nothing.
            let between = |vector, low, span| {
                let moved = _mm_sub_epi8(vector, set(low));
                _mm_cmpeq_epi8(_mm_min_epu8(moved, set(span)), moved)
            };
            let blank = _mm_cmpeq_epi8(bytes, set(b' '));
            masks.letters |= bits(between(_mm_or_si128(bytes, set(0x20)), b'a', 25));
            masks.numbers |= bits(between(bytes, b'0', 9));
            masks.blanks |= bits(blank);
            masks.spaces |= bits(_mm_or_si128(blank, between(bytes, b'\t', 4)));
            masks.apostrophes |= bits(_mm_cmpeq_epi8(bytes, set(b'\'')));
            masks.wide |= bits(bytes);
        }
    }
    masks
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn classify(block: &[u8; BLOCK]) -> Masks {
    classify_plainly(block)
}

/// The same for any machine; on x86-64 it is what the tests compare with.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn classify_plainly(block: &[u8; BLOCK]) -> Masks {
    let mut masks = Masks::default();
    for (place, &byte) in block.iter().enumerate() {
        let bit = |is: bool| u64::from(is) << place;
        masks.letters |= bit(byte.is_ascii_alphabetic());
        masks.numbers |= bit(byte.is_ascii_digit());
        masks.spaces |= bit(byte == b' ' || byte.wrapping_sub(b'\t') <= 4);
        masks.blanks |= bit(byte == b' ');
        masks.apostrophes |= bit(byte == b'\'');
        masks.wide |= bit(byte >= 0x80);
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bytes_at_a_time_give_what_one_at_a_time_gives() {
        for byte in 0..=255_u8 {
            let mut block = [b'x'; BLOCK];
            for (place, slot) in block.iter_mut().enumerate() {
                *slot = byte.wrapping_add(place as u8);
            }
            assert_eq!(classify(&block), classify_plainly(&block));
        }
    }
}
