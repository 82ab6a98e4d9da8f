//! o200k's pattern, word by word.
//!
//! `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?`, the same with
//! `+` and `*` exchanged, then `\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`.
//!
//! Letters without case and marks are in both sets. With A the longest run of the first set, the first alternative ends
//! after the lower-case run that follows A; if none follows, it gives back capitals until A ends in a character of both
//! sets. Only where A is nothing but capitals does the second alternative match, and then all of A.

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
        let (end, _) = letters_end(text, at).unwrap_or((next, Letters::Mixed));
        return with_contraction(text, end);
    }
    if first.class == Class::Number {
        return three_numbers_end(text, at);
    }
    let lead = text[at];
    if !matches!(lead, b'\r' | b'\n') {
        match letters_end(text, next) {
            Some((end, Letters::Mixed)) => return with_contraction(text, end),
            // A mark could also be the whole word by the first alternative, which comes first.
            Some((end, Letters::Capitals)) if first.class != Class::Mark => {
                return with_contraction(text, end);
            }
            _ if first.class == Class::Mark => return with_contraction(text, next),
            _ => {}
        }
    }
    if first.class.is_symbol() {
        return symbols_end(text, next, true);
    }
    if lead == b' ' && class_at(text, next).is_some_and(Class::is_symbol) {
        return symbols_end(text, next, true);
    }
    space_end(text, at)
}

/// What the letters of a word are.
enum Letters {
    /// Nothing but capitals: the second alternative.
    Capitals,
    /// Anything else: the first.
    Mixed,
}

/// The end of the letters and marks at `at` that belong to one word; `None` where there are none.
#[inline(always)]
fn letters_end(text: &[u8], at: usize) -> Option<(usize, Letters)> {
    let mut end = at;
    let mut last_of_both = None;
    while end < text.len() {
        let found = character_at(text, end);
        match found.class {
            Class::Upper => end += found.bytes,
            Class::Caseless | Class::Mark => {
                end += found.bytes;
                last_of_both = Some(end);
            }
            Class::Lower => {
                let end = run_end(text, end, |class| {
                    class >= Class::Lower || class == Class::Mark
                });
                return Some((end, Letters::Mixed));
            }
            _ => break,
        }
    }
    match last_of_both {
        Some(end) => Some((end, Letters::Mixed)),
        None if end > at => Some((end, Letters::Capitals)),
        None => None,
    }
}

#[inline(always)]
fn with_contraction(text: &[u8], end: usize) -> usize {
    contraction_end(text, end).unwrap_or(end)
}
