//! Places where a document can be cut without changing its words, for the three published patterns.
//!
//! A run of letters ends where something follows that is neither a letter nor a mark (o200k counts marks as letters)
//! nor an apostrophe (o200k lets a contraction belong to its word); a run of digits ends where anything else follows.
//! Both ends are decided by what stands before them and that one character, so the left part may end there and the
//! right part may begin there. Nearly every text has such a place every few bytes.

use super::class::{Class, character_at, character_before};

/// The last such place at or before `limit`, and never the very end: what follows it must be seen.
pub(super) fn last_cut(text: &[u8], limit: usize) -> Option<usize> {
    let mut at = limit.min(text.len().checked_sub(1)?);
    while at > 0 {
        if is_cut(text, at) {
            return Some(at);
        }
        at -= 1;
    }
    None
}

/// Whether the text may be cut before the character at `at`.
fn is_cut(text: &[u8], at: usize) -> bool {
    let lead = text[at];
    if lead & 0xC0 == 0x80 || lead == b'\'' {
        return false;
    }
    // The end of the text may have cut a character in two.
    if lead >= 0xC0 && text.len() - at < 4 {
        return false;
    }
    let Some(before) = character_before(text, at) else {
        return false;
    };
    let after = character_at(text, at).class;
    match before.class {
        Class::Number => after != Class::Number,
        class if class.is_letter() => !after.is_letter() && after != Class::Mark,
        _ => false,
    }
}
