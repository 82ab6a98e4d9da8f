//! Lines longer than the terminal is wide, wrapped between words with a hanging indent.
//!
//! A word that does not fit, such as a path, stays in one piece: the terminal wraps it, and it can still be copied.

use std::io::{self, Write};

use crate::screen::Screen;

/// Stays on the line of the number before it.
const UNITS: [&str; 16] = [
    "%", "B", "KiB", "MiB", "GiB", "TiB", "KiB/min", "MiB/min", "GiB/min", "µs", "ms", "s", "min",
    "h", "seconds", "samples",
];
/// How far the rest of a line is indented that has no label.
const INDENT: usize = 2;

/// Writes to a screen, line by line.
pub(crate) struct WrappingWriter<W: Write> {
    out: W,
    columns: Option<usize>,
    line: Vec<u8>,
}

impl<W: Write> WrappingWriter<W> {
    pub(crate) fn new(out: W, screen: Screen) -> WrappingWriter<W> {
        WrappingWriter {
            out,
            columns: screen.columns,
            line: Vec::new(),
        }
    }
}

impl<W: Write> Write for WrappingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(columns) = self.columns else {
            return self.out.write(bytes);
        };
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = wrap(&String::from_utf8_lossy(&self.line), columns);
                self.line.clear();
                self.out.write_all(line.as_bytes())?;
            }
        }
        Ok(bytes.len())
    }

    /// Lines are written when they end; what is left has no end yet.
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A text of one or more lines, each wrapped where the screen is too narrow.
pub(crate) fn wrap_lines(text: &str, screen: Screen) -> String {
    let Some(columns) = screen.columns else {
        return text.to_owned();
    };
    let lines = text.split_inclusive('\n');
    lines.map(|line| wrap(line, columns)).collect()
}

/// One line as several that fit, if it has words to wrap between. A line of a script is meant to be copied, and stays.
fn wrap(line: &str, columns: usize) -> String {
    if width_of(line.trim_end()) <= columns || line.trim_start().starts_with('#') {
        return line.to_owned();
    }
    let indent = hanging_indent(line.trim_end(), columns);
    let mut wrapped = String::new();
    let mut width = 0;
    for piece in pieces(line) {
        let word = piece.trim_end();
        if width > indent && width + width_of(word) > columns && !word.is_empty() {
            wrapped.truncate(wrapped.trim_end_matches(' ').len());
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            width = indent;
        }
        wrapped.push_str(piece);
        width += width_of(piece);
    }
    wrapped
}

/// Words with the blank behind them, numbers with their units.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let end_of_word = |text: &str| text.find(' ').map_or(text.len(), |blank| blank + 1);
        let mut end = end_of_word(rest);
        let (word, next) = rest.split_at(end);
        let next = &next[..end_of_word(next)];
        let unit = next.trim_end().trim_end_matches([',', ';', ')', '.', ':']);
        if word
            .trim_end()
            .ends_with(|last: char| last.is_ascii_digit())
            && UNITS.contains(&unit)
        {
            end += next.len();
        }
        let piece;
        (piece, rest) = rest.split_at(end);
        (!piece.is_empty()).then_some(piece)
    })
}

/// Below the text after a label, where half of the line is left for it.
fn hanging_indent(line: &str, columns: usize) -> usize {
    let own = line.len() - line.trim_start().len();
    let after_label = line.find(": ").and_then(|colon| {
        let text = line[colon + 1..].trim_start();
        let at = line.len() - text.len();
        // One blank is that of a sentence.
        (at > colon + 2).then(|| width_of(&line[..at]))
    });
    match after_label {
        Some(at) if at <= columns / 2 => at,
        _ => own + INDENT,
    }
}

/// Characters that take a column: all but those of colours.
fn width_of(text: &str) -> usize {
    let mut width = 0;
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => {
                chars.by_ref().find(char::is_ascii_alphabetic);
            }
            '\n' => {}
            _ => width += 1,
        }
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_keeps_its_text_below_itself_where_there_is_room() {
        let line = "Peak Measured By:     the kernel's high-water mark of a process (VmHWM)\n";
        assert_eq!(wrap(line, 80), line);
        assert_eq!(
            wrap(line, 50),
            "Peak Measured By:     the kernel's high-water mark\n                      of a process (VmHWM)\n"
        );
        assert_eq!(
            wrap(line, 40),
            "Peak Measured By:     the kernel's\n  high-water mark of a process (VmHWM)\n"
        );
    }

    #[test]
    fn sentences_hang_and_numbers_keep_their_units() {
        assert_eq!(
            wrap("  leak: memory grew by 12 MiB/min, all along", 34),
            "  leak: memory grew by 12 MiB/min,\n    all along"
        );
        assert_eq!(
            wrap("  leak: memory grew by 12 MiB/min, all along", 30),
            "  leak: memory grew by\n    12 MiB/min, all along"
        );
        assert_eq!(wrap("abc def ghi", 7), "abc def\n  ghi");
    }

    #[test]
    fn words_that_do_not_fit_and_colours_stay_whole() {
        let path = "/a/rather/long/path/of/a/run";
        let told = format!("Run:   {path}\n");
        assert_eq!(wrap(&told, 20), told);
        assert_eq!(wrap(&format!("see {path}"), 20), format!("see\n  {path}"));
        let coloured = "How: \u{1b}[1m\u{1b}[33mexited with 3\u{1b}[0m";
        assert_eq!(wrap(coloured, 18), coloured);
    }

    #[test]
    fn each_line_of_a_text_is_wrapped_and_a_line_of_a_script_is_not() {
        let screen = Screen {
            columns: Some(20),
            colour: false,
        };
        assert_eq!(
            wrap_lines("warning: one two three\n   four five six seven\n", screen),
            "warning: one two\n  three\n   four five six\n     seven\n"
        );
        let script = "  #SBATCH --time=01:00:00    # twice the longest\n";
        assert_eq!(wrap_lines(script, screen), script);
    }

    #[test]
    fn a_pipe_takes_any_line() {
        let screen = Screen {
            columns: None,
            colour: false,
        };
        let mut out = Vec::new();
        let long = "word ".repeat(100);
        write!(WrappingWriter::new(&mut out, screen), "{long}").unwrap();
        assert_eq!(out, long.as_bytes());
    }
}
