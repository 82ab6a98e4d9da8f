//! JSON on standard output, which may be a terminal: what acts on a screen is escaped as `\u202e`, and means the same.

use std::io::{self, Write};

use nilo_sample::printable::is_printable;
use serde::Serialize;

/// Writes a value over several lines, with a line end.
pub(crate) fn write_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write_escaped(out, &serde_json::to_string_pretty(value)?)
}

/// As [`write_json`], with the keys in alphabetical order, which some answers have had from the beginning.
pub(crate) fn write_sorted_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write_json(out, &serde_json::to_value(value)?)
}

/// Writes a value as one line.
pub(crate) fn write_json_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write_escaped(out, &serde_json::to_string(value)?)
}

fn write_escaped(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let mut escaped = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        // Line ends are the layout's: those inside of texts are escaped already.
        if c == '\n' || is_printable(c) {
            escaped.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    escaped.push('\n');
    out.write_all(escaped.as_bytes())
}

#[cfg(test)]
mod tests {
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
