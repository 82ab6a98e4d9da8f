//! Parts that cl100k and o200k have in common: runs of a class, contractions in any case, what becomes of white space.

use super::class::{Class, character_at};

/// The end of the run of characters from `at` on whose class `belongs`.
#[inline(always)]
pub(super) fn run_end(text: &[u8], mut at: usize, belongs: impl Fn(Class) -> bool) -> usize {
    while at < text.len() {
        let found = character_at(text, at);
        if !belongs(found.class) {
            break;
        }
        at += found.bytes;
    }
    at
}

/// The end of up to three numbers, of which the first is at `at`: `\p{N}{1,3}`.
#[inline(always)]
pub(super) fn three_numbers_end(text: &[u8], mut at: usize) -> usize {
    for _ in 0..3 {
        if at >= text.len() {
            break;
        }
        let found = character_at(text, at);
        if found.class != Class::Number {
            break;
        }
        at += found.bytes;
    }
    at
}

/// The class at `at`, if the text goes on that far.
#[inline(always)]
pub(super) fn class_at(text: &[u8], at: usize) -> Option<Class> {
    (at < text.len()).then(|| character_at(text, at).class)
}

/// The end of `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at `at`. The long s (U+017F) is an s in another case.
#[inline]
pub(super) fn contraction_end(text: &[u8], at: usize) -> Option<usize> {
    match text[at..] {
        [
            b'\'',
            b's' | b'S' | b't' | b'T' | b'm' | b'M' | b'd' | b'D',
            ..,
        ] => Some(at + 2),
        [b'\'', b'r' | b'R' | b'v' | b'V', b'e' | b'E', ..]
        | [b'\'', b'l' | b'L', b'l' | b'L', ..] => Some(at + 3),
        [b'\'', 0xC5, 0xBF, ..] => Some(at + 3),
        _ => None,
    }
}

/// The end of the word that white space at `at` begins: `\s*[\r\n]+|\s+(?!\S)|\s+`.
#[inline]
pub(super) fn space_end(text: &[u8], at: usize) -> usize {
    let mut end = at;
    let mut last_start = at;
    let mut after_line_end = None;
    while end < text.len() {
        let found = character_at(text, end);
        if found.class != Class::Space {
            break;
        }
        last_start = end;
        end += found.bytes;
        if matches!(text[last_start], b'\r' | b'\n') {
            after_line_end = Some(end);
        }
    }
    match after_line_end {
        Some(place) => place,
        None if end == text.len() || last_start == at => end,
        None => last_start,
    }
}

/// The end of `SYMBOLS[\r\n]*` (with `/` where `slashes`) from `at` on, where a symbol stands.
#[inline(always)]
pub(super) fn symbols_end(text: &[u8], at: usize, slashes: bool) -> usize {
    let mut end = run_end(text, at, Class::is_symbol);
    while end < text.len() && (matches!(text[end], b'\r' | b'\n') || slashes && text[end] == b'/') {
        end += 1;
    }
    end
}
