//! cl100k's pattern, word by word.
//!
//! `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

use super::class::{Class, character_at};
use super::runs::{class_at, contraction_end, run_end, space_end, symbols_end, three_numbers_end};

pub(super) fn scan(text: &[u8], mut visit: impl FnMut(usize, usize)) {
    let mut start = 0;
    while start < text.len() {
        let end = word_end(text, start);
        visit(start, end);
        start = end;
    }
}

#[inline(always)]
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
