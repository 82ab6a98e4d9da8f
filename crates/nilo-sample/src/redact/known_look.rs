//! Secrets that are recognised without a name: passwords in addresses, and what services begin theirs with.

use super::REDACTED;
use super::names::KNOWN_BEGINNINGS;

/// `scheme://user:password@host`
pub(super) fn hide_url_password(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else {
        return word.to_owned();
    };
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let Some(at) = rest[..authority].rfind('@') else {
        return word.to_owned();
    };
    let (user, host) = rest.split_at(at);
    match user.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:{REDACTED}{host}"),
        // A token may be all that stands there.
        None if user.len() >= 20 => format!("{scheme}://{REDACTED}{host}"),
        None => word.to_owned(),
    }
}

/// Hides what begins as the secrets of well-known services do.
pub(super) fn hide_known(word: &str) -> String {
    let mut hidden = word.to_owned();
    for (beginning, least) in KNOWN_BEGINNINGS {
        let mut from = 0;
        while let Some(found) = hidden[from..].find(beginning) {
            let start = from + found;
            let value = start + beginning.len();
            let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            let len = hidden[value..].find(|c: char| !belongs(c));
            let end = len.map_or(hidden.len(), |len| value + len);
            let tail = &hidden[value..end];
            let is_whole_word = !hidden[..start].ends_with(|c: char| c.is_ascii_alphanumeric());
            let looks_random =
                tail.chars().any(|c| c.is_ascii_digit()) || !tail.contains(['-', '_', '.']);
            if is_whole_word && tail.len() >= *least && looks_random {
                hidden.replace_range(start..end, REDACTED);
                from = start + REDACTED.len();
            } else {
                from = value;
            }
        }
    }
    hidden
}
