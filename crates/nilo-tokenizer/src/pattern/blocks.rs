//! Sixty-four bytes at once: one bit a byte for each class. What is not ASCII is left to the caller, but for the letters of
//! large regular scripts.

/// Bytes in a block.
pub(super) const BLOCK: usize = 64;

/// Which bytes of a block are what; bit 0 is the first byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Masks {
    pub(super) letters: u64,
    /// Letters that are capitals.
    pub(super) capitals: u64,
    pub(super) numbers: u64,
    /// `\s`, blanks included.
    pub(super) spaces: u64,
    /// The character U+0020 alone.
    pub(super) blanks: u64,
    /// `[\r\n]`.
    pub(super) line_ends: u64,
    pub(super) apostrophes: u64,
    pub(super) slashes: u64,
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

/// The first bytes of the block's whole characters from U+4000 to U+9FFF and from U+B000 to U+CFFF, which are letters
/// without case but for the hexagrams from U+4DC0 on, and those are not meant: most of Chinese and Korean.
///
/// All characters of a first byte being alike, no table is needed, and no loop over characters.
#[inline(always)]
pub(super) fn ideographs_at(text: &[u8], base: usize) -> u64 {
    let Some(block) = text[base..].first_chunk::<BLOCK>() else {
        return 0;
    };
    let LeadByteMasks {
        leads,
        four,
        hexagrams,
        tails,
    } = lead_byte_masks(block);
    (leads | four & !(hexagrams >> 1)) & tails >> 1 & tails >> 2
}

/// Bytes of three-byte characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LeadByteMasks {
    /// E5 to E9, EB, EC.
    leads: u64,
    /// E4.
    four: u64,
    /// B7, which makes a hexagram after E4.
    hexagrams: u64,
    /// 80 to BF.
    tails: u64,
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn lead_byte_masks(block: &[u8; BLOCK]) -> LeadByteMasks {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8,
        _mm_or_si128, _mm_set1_epi8, _mm_sub_epi8,
    };
    let mut found = LeadByteMasks::default();
    for (part, sixteen) in block.chunks_exact(16).enumerate() {
        let shift = part * 16;
        // SAFETY: the chunk has sixteen bytes, the load needs no alignment, and SSE2 belongs to every x86-64.
        let bits =
            |vector: __m128i| unsafe { u64::from(_mm_movemask_epi8(vector) as u16) } << shift;
        // SAFETY: as above.
        unsafe {
            let bytes = _mm_loadu_si128(sixteen.as_ptr().cast());
            let set = |byte: u8| _mm_set1_epi8(byte.cast_signed());
            let between = |low, span| {
                let moved = _mm_sub_epi8(bytes, set(low));
                _mm_cmpeq_epi8(_mm_min_epu8(moved, set(span)), moved)
            };
            found.leads |= bits(_mm_or_si128(between(0xE5, 4), between(0xEB, 1)));
            found.four |= bits(_mm_cmpeq_epi8(bytes, set(0xE4)));
            found.hexagrams |= bits(_mm_cmpeq_epi8(bytes, set(0xB7)));
            // Signed: 80 to BF are the lowest.
            found.tails |= bits(_mm_cmplt_epi8(bytes, set(0xC0)));
        }
    }
    found
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn lead_byte_masks(block: &[u8; BLOCK]) -> LeadByteMasks {
    lead_byte_masks_scalar(block)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn lead_byte_masks_scalar(block: &[u8; BLOCK]) -> LeadByteMasks {
    let mut found = LeadByteMasks::default();
    for (place, &byte) in block.iter().enumerate() {
        let bit = |is: bool| u64::from(is) << place;
        found.leads |= bit(matches!(byte, 0xE5..=0xE9 | 0xEB..=0xEC));
        found.four |= bit(byte == 0xE4);
        found.hexagrams |= bit(byte == 0xB7);
        found.tails |= bit(matches!(byte, 0x80..=0xBF));
    }
    found
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
            masks.capitals |= bits(between(bytes, b'A', 25));
            masks.numbers |= bits(between(bytes, b'0', 9));
            masks.blanks |= bits(blank);
            masks.spaces |= bits(_mm_or_si128(blank, between(bytes, b'\t', 4)));
            masks.line_ends |= bits(_mm_or_si128(
                _mm_cmpeq_epi8(bytes, set(b'\r')),
                _mm_cmpeq_epi8(bytes, set(b'\n')),
            ));
            masks.slashes |= bits(_mm_cmpeq_epi8(bytes, set(b'/')));
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
        masks.capitals |= bit(byte.is_ascii_uppercase());
        masks.numbers |= bit(byte.is_ascii_digit());
        masks.spaces |= bit(byte == b' ' || byte.wrapping_sub(b'\t') <= 4);
        masks.blanks |= bit(byte == b' ');
        masks.line_ends |= bit(matches!(byte, b'\r' | b'\n'));
        masks.slashes |= bit(byte == b'/');
        masks.apostrophes |= bit(byte == b'\'');
        masks.wide |= bit(byte >= 0x80);
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::super::class::{Class, class_of};
    use super::*;

    #[test]
    fn sixteen_bytes_at_a_time_give_what_one_at_a_time_gives() {
        for byte in 0..=255_u8 {
            let mut block = [b'x'; BLOCK];
            for (place, slot) in block.iter_mut().enumerate() {
                *slot = byte.wrapping_add(place as u8);
            }
            assert_eq!(classify(&block), classify_plainly(&block));
            assert_eq!(lead_byte_masks(&block), lead_byte_masks_scalar(&block));
        }
    }

    #[test]
    fn what_is_an_ideograph_without_a_look_at_the_table_is_one_by_the_table() {
        let mut found = 0;
        for code in 0..0x2_0000_u32 {
            let Some(character) = char::from_u32(code) else {
                continue;
            };
            let mut block = [b'x'; BLOCK];
            character.encode_utf8(&mut block);
            if ideographs_at(&block, 0) != 0 {
                assert_eq!(class_of(code), Class::Caseless, "U+{code:04X}");
                found += 1;
            }
        }
        assert_eq!(found, 0x6000 - 0x40 + 0x2000);
    }
}
