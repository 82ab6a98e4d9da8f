//! JSON on standard output, which may be a terminal, and in files, which are looked at on one: what acts on a screen is escaped as `\u202e`, and means the same.

use std::io::{self, Write};

use nilo_sample::printable::escape_json;
use serde::Serialize;

/// Writes a value over several lines, with a line end.
pub(crate) fn write_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    out.write_all(json_text(value)?.as_bytes())
}

/// As [`write_json`], with the keys in alphabetical order, which some answers have had from the beginning.
pub(crate) fn write_sorted_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write_json(out, &serde_json::to_value(value)?)
}

/// Writes a value as one line.
pub(crate) fn write_json_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write_escaped(out, &serde_json::to_string(value)?)
}

/// A value over several lines, with a line end, for a file.
pub(crate) fn json_text(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(escape_json(&serde_json::to_string_pretty(value)?) + "\n")
}

fn write_escaped(out: &mut dyn Write, text: &str) -> io::Result<()> {
    out.write_all((escape_json(text) + "\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use nilo_sample::printable::is_printable;

    use super::*;

    #[test]
    fn what_acts_on_a_screen_is_escaped_and_reads_the_same() {
        let text = "a\u{202e}b\u{7f}c\u{9b}d\u{e0041}e\nf größe 🙂";
        let mut out = Vec::new();
        write_json(&mut out, &[text]).unwrap();
        let written = String::from_utf8(out).unwrap();
        assert!(written.chars().all(|c| c == '\n' || is_printable(c)));
        assert!(written.contains("a\\u202eb\\u007fc\\u009bd\\udb40\\udc41e\\nf größe 🙂"));
        let read: Vec<String> = serde_json::from_str(&written).unwrap();
        assert_eq!(read, [text]);
    }
}
