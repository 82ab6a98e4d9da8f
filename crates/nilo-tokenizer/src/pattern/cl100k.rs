//! cl100k's pattern, by windows and word by word.
//!
//! `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

use super::blocks::Masks;
use super::class::{Class, character_at};
use super::runs::{class_at, contraction_end, run_end, space_end, symbols_end, three_numbers_end};
use super::window::{self, ClassWindow, filled};

#[inline]
pub(super) fn scan(text: &[u8], visit: impl FnMut(usize, usize)) {
    window::scan(text, starts_in, word_end, visit);
}

/// A bit for each byte of a window that starts a word.
///
/// * A run of symbols does, unless U+0020 stands before it; line ends after it belong to it.
/// * A run of letters does, unless white space other than a line end, or one symbol that is such a start, stands before it.
/// * A contraction takes the letters that it needs from such a symbol's run, and what follows starts a word.
#[inline(always)]
fn starts_in(text: &[u8], base: usize, window: ClassWindow) -> u64 {
    let Masks {
        letters,
        numbers,
        spaces,
        blanks,
        line_ends,
        apostrophes,
        ..
    } = window.masks;
    let symbols = window.within & !(letters | numbers | spaces);
    let symbol_starts = symbols & !(symbols << 1 | blanks << 1);
    let led_in = (spaces & !line_ends) << 1 | window.behind(symbol_starts);
    let letter_starts = letters & !(letters << 1 | led_in);
    let taken = filled(line_ends & symbols << 1, line_ends);
    let mut starts =
        symbol_starts | letter_starts | window.number_starts() | window.space_starts(taken);
    let mut quotes = symbol_starts & apostrophes;
    while quotes != 0 {
        let place = quotes.trailing_zeros() as usize;
        quotes &= quotes - 1;
        if let Some(end) = contraction_end(text, base + place) {
            starts |= 1_u64.checked_shl((end - base) as u32).unwrap_or(0);
        }
    }
    starts & window.within
}

#[inline]
fn word_end(text: &[u8], at: usize) -> usize {
    let first = character_at(text, at);
    let next = at + first.bytes;
    if first.class.is_letter() {
        return run_end(text, next, Class::is_letter);
    }
    if first.class == Class::Number {
        return three_numbers_end(text, at);
    }
    let lead = text[at];
    if lead == b'\''
        && let Some(end) = contraction_end(text, at)
    {
        return end;
    }
    let follows = class_at(text, next);
    if !matches!(lead, b'\r' | b'\n') && follows.is_some_and(Class::is_letter) {
        return run_end(text, next, Class::is_letter);
    }
    if first.class.is_symbol() {
        return symbols_end(text, next, false);
    }
    if lead == b' ' && follows.is_some_and(Class::is_symbol) {
        return symbols_end(text, next, false);
    }
    space_end(text, at)
}
