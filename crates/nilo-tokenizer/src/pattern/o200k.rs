//! o200k's pattern, by windows and word by word.
//!
//! `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?`, the same with
//! `+` and `*` exchanged, then `\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`.
//!
//! Letters without case and marks are in both sets. With A the longest run of the first set, the first alternative ends
//! after the lower-case run that follows A; if none follows, it gives back capitals until A ends in a character of both
//! sets. Only where A is nothing but capitals does the second alternative match, and then all of A.

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
/// * Marks are letters, but those behind symbols that no letter can take along are symbols: the window ends there.
/// * A run of symbols is a start, unless U+0020 stands before it; line ends and slashes after a line end belong to it.
/// * A run of letters is a start, unless white space other than a line end, or one symbol that is a start, stands before
///   it.
/// * A capital after a small letter is a start.
#[inline(always)]
fn starts_in(text: &[u8], base: usize, mut window: ClassWindow) -> u64 {
    let Masks {
        capitals,
        numbers,
        spaces,
        blanks,
        line_ends,
        slashes,
        apostrophes,
        ..
    } = window.masks;
    let letters = window.masks.letters | window.marks;
    let all_symbols = window.within & !(letters | numbers | spaces);
    let taken = filled(line_ends & all_symbols << 1, line_ends | slashes);
    let symbols = all_symbols & !taken;
    let symbol_starts = symbols & !(symbols << 1 | blanks << 1);
    let behind_one = window.behind(symbol_starts);
    window.end_before(window.marks & symbols << 1 & !behind_one);

    let led_in = (spaces & !line_ends) << 1 | behind_one;
    let letter_starts = letters & !(letters << 1 | led_in);
    let both = window.caseless | window.marks;
    let small = letters & !(capitals | both);
    let mut starts = symbol_starts | letter_starts | capitals & small << 1;
    let quotes = symbol_starts & apostrophes & letters << 1;
    if quotes != 0 {
        starts = with_contractions(text, base, starts, quotes);
    }
    let unsure = capitals & both << 1;
    if unsure != 0 {
        // A contraction's end is a start too: letters after it do not follow those before it.
        starts |= capital_starts(&mut window, unsure, small & !(starts >> 1));
    }
    starts |= window.number_starts() | window.space_starts(taken);
    starts & window.within
}

/// The starts among capitals that follow letters without case or marks. After small letters of the same word, which
/// `small` has, they start another; else only if no other letter follows them.
#[inline]
fn capital_starts(window: &mut ClassWindow, mut unsure: u64, small: u64) -> u64 {
    let capitals = window.masks.capitals;
    let both = window.caseless | window.marks;
    let others = (window.masks.letters | window.marks) & !capitals;
    let mut starts = 0;
    while unsure != 0 {
        let place = unsure.trailing_zeros();
        unsure &= unsure - 1;
        let before = (both << (64 - place)).leading_ones();
        let after_small = before < place && small >> (place - before - 1) & 1 != 0;
        let end = place + (capitals >> place).trailing_ones();
        let ends_known = end < 64 && window.within >> end & 1 != 0;
        if after_small || ends_known && others >> end & 1 == 0 {
            starts |= 1 << place;
        } else if !ends_known {
            window.end_before(1 << place);
        }
    }
    starts
}

/// Contractions belong to the letters before them, unless those are a contraction's.
#[inline]
fn with_contractions(text: &[u8], base: usize, mut starts: u64, mut quotes: u64) -> u64 {
    let mut last_end = 0;
    while quotes != 0 {
        let place = quotes.trailing_zeros() as usize;
        quotes &= quotes - 1;
        if base + place == last_end {
            continue;
        }
        if let Some(end) = contraction_end(text, base + place) {
            let bytes = end - base - place;
            starts &= !(((1 << bytes) - 1) << place);
            starts |= 1_u64.checked_shl((end - base) as u32).unwrap_or(0);
            last_end = end;
        }
    }
    starts
}

#[inline]
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
