//! Whether a name announces a secret: that of an option, a variable, a header or a setting.

use super::names::{
    BEFORE_PASS, BEFORE_PAT, NOT_BEFORE_PASS, PLACES, SECRET_ENDS, SECRET_KEYS, SECRET_WORDS,
    SERVICES, TEXT_TOKENS,
};

/// Whether a value under this name is a secret: `--hf-token`, `WANDB_API_KEY`, `X-Api-Key`, `apiKey`.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name
        .rsplit(['"', '\'', '{', '(', '/'])
        .find(|part| !part.is_empty());
    let is_variable = name.is_some_and(|name| {
        name.chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    });
    let words: Vec<String> = name.map(words_of).unwrap_or_default();
    let words: Vec<String> = words
        .into_iter()
        .flat_map(|word| split_compound(word, is_variable))
        .collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let Some(last) = words.last() else {
        return false;
    };
    // `--password-stdin` takes no value; what `--secret-file` names is a place.
    if last == "stdin" || PLACES.contains(&last.as_str()) {
        return false;
    }
    if has(SECRET_WORDS) {
        let only_token = !words
            .iter()
            .any(|word| word != "token" && SECRET_WORDS.contains(&word.as_str()));
        return !(only_token && has(TEXT_TOKENS));
    }
    let before = words.iter().rev().nth(1);
    let follows = |list: &[&str]| before.is_some_and(|word| list.contains(&word.as_str()));
    let is_of_service = follows(SERVICES);
    match last.as_str() {
        "auth" | "bearer" | "jwt" | "otp" | "pw" => true,
        // `--forward-pass` and `PWD` are none.
        "pass" => is_variable || words.len() == 1 || follows(BEFORE_PASS),
        // `--file-pat` is a pattern.
        "pat" => is_variable || words.len() == 1 || is_of_service || follows(BEFORE_PAT),
        "pwd" => !is_variable || words.len() > 1,
        "key" => words.len() == 1 || is_variable || is_of_service || has(SECRET_KEYS),
        _ => false,
    }
}

/// Whether a parameter of an address is what opens it: `sig`, `X-Amz-Signature`. Elsewhere these names mean other things.
pub(super) fn is_signature(name: &str) -> bool {
    let words = words_of(name);
    matches!(words.last().map(String::as_str), Some("sig" | "signature"))
}

/// The words of a name in lower case, by dashes, underscores, dots and capital letters.
fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut was_lower = false;
    let mut is_open = false;
    for c in name.chars() {
        if !c.is_alphanumeric() {
            is_open = false;
        } else {
            if !is_open || (was_lower && c.is_uppercase()) {
                words.push(String::new());
                is_open = true;
            }
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
        }
        was_lower = c.is_lowercase();
    }
    words
}

/// `pgpassword` as `pg` and `password`; in variables also `DBPASS` as `db` and `pass`.
fn split_compound(word: String, is_variable: bool) -> Vec<String> {
    let is_secret_end = |end: &str, start: &str| match end {
        "pass" => is_variable && !NOT_BEFORE_PASS.contains(&start),
        "key" => SECRET_KEYS.contains(&start) || SERVICES.contains(&start),
        _ => true,
    };
    let ends = SECRET_ENDS.iter().chain(&["pass", "key"]);
    let parts = ends
        .filter_map(|end| Some((word.strip_suffix(end)?, *end)))
        .find(|(start, end)| !start.is_empty() && is_secret_end(end, start));
    match parts {
        Some((start, end)) => vec![start.to_owned(), end.to_owned()],
        None => vec![word],
    }
}
