//! Secrets in what a program or its user says of a run: settings and tags, by their names, and in command lines among their values.

use std::collections::BTreeMap;

use serde_json::Value;

use super::known_look::hide_known;
use super::secret_name::is_secret_name;
use super::{hide, hide_in_addresses, redact_arguments, redact_text};

/// A program's settings without their secrets: texts under secret names, those that services mark as theirs, and those in command lines. Numbers stay.
pub fn redact_settings(settings: &mut BTreeMap<String, Value>) {
    for (name, value) in settings {
        redact_setting(value, is_secret_path(name));
    }
}

/// A run's tags without their secrets, likewise.
pub fn redact_tags(tags: &mut BTreeMap<String, String>) {
    for (name, text) in tags {
        *text = redact_value(text, is_secret_path(name));
    }
}

fn is_secret_path(name: &str) -> bool {
    name.split('/').any(is_secret_name)
}

fn redact_setting(value: &mut Value, is_secret: bool) {
    match value {
        Value::String(text) => *text = redact_value(text, is_secret),
        Value::Array(items) => {
            if !is_secret {
                redact_argument_list(items);
            }
            items
                .iter_mut()
                .for_each(|item| redact_setting(item, is_secret));
        }
        Value::Object(fields) => fields
            .iter_mut()
            .for_each(|(name, field)| redact_setting(field, is_secret || is_secret_name(name))),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn redact_value(text: &str, is_secret: bool) -> String {
    match is_secret {
        true => hide(text),
        false if is_command_line(text) => redact_text(text),
        false => hide_known(&hide_in_addresses(text)),
    }
}

/// `["--token", "X"]`; what is no text keeps its place.
fn redact_argument_list(items: &mut [Value]) {
    if !items.iter().filter_map(Value::as_str).any(is_option) {
        return;
    }
    let arguments = items.iter().map(|item| item.as_str().unwrap_or_default());
    let arguments: Vec<String> = arguments.map(str::to_owned).collect();
    for (item, hidden) in items.iter_mut().zip(redact_arguments(&arguments)) {
        if let Value::String(text) = item {
            *text = hidden;
        }
    }
}

/// Whether a text has options or assigns a secret. Others are prose, in which a word such as "password:" announces nothing.
fn is_command_line(text: &str) -> bool {
    let assigns = |word: &str| {
        let assigned = word.split_once('=');
        assigned.is_some_and(|(name, _)| is_secret_name(name))
    };
    text.split_whitespace()
        .any(|word| is_option(word) || assigns(word))
}

fn is_option(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    name.len() < word.len() && name.starts_with(|c: char| c.is_ascii_alphabetic())
}
