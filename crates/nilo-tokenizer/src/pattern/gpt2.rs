//! GPT-2's pattern, sixty-four bytes at a time: the starts of words are computed as bits, without a branch a byte.
//!
//! `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+` in terms of neighbours:
//!
//! * A letter, number or symbol starts a word where the character before it is of another class and not U+0020, which
//!   belongs to the word after it.
//! * White space starts a word where a run of it begins, and again at its last character if something else follows.
//! * An apostrophe that starts a word takes `s t d m re ve ll` with it, and whatever follows starts a word.
//!
//! The bytes of a character have the class of the character, so these rules hold for bytes; only white space of several
//! bytes is looked at by itself.

use super::blocks::{BLOCK, Masks, ideographs_at, masks_at};
use super::class::{Class, character_at, wide_character_at};

/// What one block tells the next.
#[derive(Default)]
struct BlockCarry {
    /// Whether the last byte is a letter, a number, a symbol, white space, U+0020; each 0 or 1.
    letter: u64,
    number: u64,
    symbol: u64,
    space: u64,
    blank: u64,
    /// The class of a character that the next block finishes, and how many bytes of it lie there.
    unfinished: Option<(Class, usize)>,
    /// Starts that a contraction takes back or adds there.
    not_starts: u64,
    starts: u64,
}

pub(super) fn scan(text: &[u8], mut visit: impl FnMut(usize, usize)) {
    if text.is_empty() {
        return;
    }
    let mut carry = BlockCarry::default();
    let mut word_start = 0;
    let mut base = 0;
    // The end of the text counts as one more start, so that there is one call of `visit`, which is then inlined.
    while base <= text.len() {
        let rest = text.len() - base;
        let mut starts = if rest > 0 {
            starts_in_block(text, base, &mut carry)
        } else {
            0
        };
        if rest < BLOCK {
            starts |= 1 << rest;
        }
        if base == 0 {
            starts &= !1;
        }
        while starts != 0 {
            let start = base + starts.trailing_zeros() as usize;
            starts &= starts - 1;
            visit(word_start, start);
            word_start = start;
        }
        base += BLOCK;
    }
}

/// A bit for each byte of the block that starts a word.
#[inline(always)]
fn starts_in_block(text: &[u8], base: usize, carry: &mut BlockCarry) -> u64 {
    let mut masks = masks_at(text, base);
    let mut wide_spaces = 0;
    let mut wide_starts = 0;
    if masks.wide != 0 {
        (wide_spaces, wide_starts) = add_wide(text, base, &mut masks, carry);
    }
    let rest = text.len() - base;
    let within = if rest < BLOCK {
        (1 << rest) - 1
    } else {
        u64::MAX
    };
    let Masks {
        letters,
        numbers,
        spaces,
        blanks,
        apostrophes,
        ..
    } = masks;
    let symbols = !(letters | numbers | spaces);
    // The end of the text counts as white space: `(?!\S)` holds there.
    let spaces_or_end = spaces | !within;
    let space_follows = spaces >> 63 != 0
        && (rest <= BLOCK || character_at(text, base + BLOCK).class == Class::Space);

    let after_blank = blanks << 1 | carry.blank;
    let changes = letters & !(letters << 1 | carry.letter)
        | numbers & !(numbers << 1 | carry.number)
        | symbols & !(symbols << 1 | carry.symbol);
    let run_starts = spaces & !(spaces << 1 | carry.space);
    let run_ends = spaces & !(spaces_or_end >> 1 | u64::from(space_follows || rest <= BLOCK) << 63);
    let mut starts = changes & !after_blank | (run_starts | run_ends) & !wide_spaces | wide_starts;
    starts = starts & !carry.not_starts | carry.starts;
    (carry.not_starts, carry.starts) = (0, 0);

    let mut quotes = starts & apostrophes & within;
    while quotes != 0 {
        let place = quotes.trailing_zeros();
        quotes &= quotes - 1;
        if let Some(bytes) = contraction(&text[base + place as usize..]) {
            let taken = 1_u128 << (place + 1);
            let added = 1_u128 << (place + bytes);
            starts = starts & !(taken as u64) | added as u64;
            carry.not_starts |= (taken >> 64) as u64;
            carry.starts |= (added >> 64) as u64;
        }
    }
    carry.letter = letters >> 63;
    carry.number = numbers >> 63;
    carry.symbol = symbols >> 63;
    carry.space = spaces >> 63;
    carry.blank = blanks >> 63;
    starts & within
}

/// The length of the contraction that the text begins with.
#[inline]
fn contraction(text: &[u8]) -> Option<u32> {
    match *text {
        [_, b's' | b't' | b'd' | b'm', ..] => Some(2),
        [_, b'r' | b'v', b'e', ..] | [_, b'l', b'l', ..] => Some(3),
        _ => None,
    }
}

/// Puts the characters of several bytes into the masks. Returns the bytes of white space among them, and which of those
/// start a word.
#[inline]
fn add_wide(text: &[u8], base: usize, masks: &mut Masks, carry: &mut BlockCarry) -> (u64, u64) {
    let mut wide_spaces = 0;
    let mut wide_starts = 0;
    let mut todo = masks.wide;
    if let Some((class, bytes)) = carry.unfinished.take() {
        let bits = (1 << bytes) - 1;
        put(masks, class, bits);
        if class == Class::Space {
            wide_spaces |= bits;
        }
        todo &= !bits;
    }
    let ideographs = ideographs_at(text, base) & todo;
    let ideographs = ideographs | ideographs << 1 | ideographs << 2;
    masks.letters |= ideographs;
    todo &= !ideographs;
    while todo != 0 {
        let place = todo.trailing_zeros() as usize;
        let found = wide_character_at(text, base + place);
        let bits = ((1_u64 << found.bytes) - 1) << place;
        todo &= !bits;
        put(masks, found.class, bits);
        let end = place + found.bytes;
        if end > BLOCK {
            carry.unfinished = Some((found.class, end - BLOCK));
        }
        if found.class == Class::Space {
            wide_spaces |= bits;
            let follows_space = match place {
                0 => carry.space != 0,
                _ => masks.spaces >> (place - 1) & 1 != 0,
            };
            let at = base + end;
            let before_space = at >= text.len() || character_at(text, at).class == Class::Space;
            if !follows_space || !before_space {
                wide_starts |= 1 << place;
            }
        }
    }
    (wide_spaces, wide_starts)
}

#[inline(always)]
fn put(masks: &mut Masks, class: Class, bits: u64) {
    match class {
        Class::Number => masks.numbers |= bits,
        Class::Space => masks.spaces |= bits,
        class if class.is_letter() => masks.letters |= bits,
        _ => {}
    }
}
