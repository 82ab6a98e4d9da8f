//! Lines of a file that nobody vouches for: counted, bounded in length, in whatever encoding.

use std::io::{BufRead, BufReader, Read};

use crate::error::ImportError;

/// A header of ten thousand columns fits; a file without line ends does not.
pub(crate) const MOST_LINE_BYTES: usize = 1 << 20;

/// One line, without its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextLine<'a> {
    /// From 1.
    pub(crate) number: u64,
    /// Bytes that are not UTF-8 are replaced.
    pub(crate) text: &'a str,
    /// Whether it has its end: a last line without one may have been cut off.
    pub(crate) whole: bool,
}

/// Reads one line after the other.
pub(crate) struct Lines<R> {
    input: BufReader<R>,
    most_bytes: u64,
    bytes: u64,
    number: u64,
    raw: Vec<u8>,
    text: String,
    /// The line was looked at and is still to be handed out.
    kept: bool,
    whole: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R, most_bytes: u64) -> Lines<R> {
        Lines {
            input: BufReader::with_capacity(1 << 16, input),
            most_bytes,
            bytes: 0,
            number: 0,
            raw: Vec::new(),
            text: String::new(),
            kept: false,
            whole: true,
        }
    }

    /// The next line that is not blank, to find out what it is; it stays the next one.
    pub(crate) fn peek(&mut self) -> Result<Option<TextLine<'_>>, ImportError> {
        while self.kept || self.advance()? {
            self.kept = !self.text.trim().is_empty();
            if self.kept {
                return Ok(Some(self.line()));
            }
        }
        Ok(None)
    }

    /// The next line.
    pub(crate) fn next(&mut self) -> Result<Option<TextLine<'_>>, ImportError> {
        if std::mem::take(&mut self.kept) || self.advance()? {
            Ok(Some(self.line()))
        } else {
            Ok(None)
        }
    }

    fn line(&self) -> TextLine<'_> {
        TextLine {
            number: self.number,
            text: &self.text,
            whole: self.whole,
        }
    }

    fn advance(&mut self) -> Result<bool, ImportError> {
        self.raw.clear();
        let line = self.number;
        // One byte over the limit shows that there is more.
        let mut bounded = (&mut self.input).take(MOST_LINE_BYTES as u64 + 1);
        let read = bounded
            .read_until(b'\n', &mut self.raw)
            .map_err(|source| ImportError::Read { line, source })?;
        if read == 0 {
            return Ok(false);
        }
        self.number += 1;
        self.bytes = self.bytes.saturating_add(read as u64);
        if self.number == 1 {
            check_is_text(&self.raw)?;
        }
        if self.bytes > self.most_bytes {
            let most_bytes = self.most_bytes;
            return Err(ImportError::TooLong { most_bytes });
        }
        if read > MOST_LINE_BYTES {
            return Err(ImportError::LineTooLong {
                line: self.number,
                most_bytes: MOST_LINE_BYTES,
            });
        }
        self.whole = self.raw.last() == Some(&b'\n');
        let mut text = &self.raw[..];
        text = text.strip_suffix(b"\n").unwrap_or(text);
        text = text.strip_suffix(b"\r").unwrap_or(text);
        if self.number == 1 {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(text));
        Ok(true)
    }
}

/// The beginnings of files that are handed over by mistake.
fn check_is_text(beginning: &[u8]) -> Result<(), ImportError> {
    let known: [(&[u8], &str); 8] = [
        (b"\x1f\x8b", "gzip"),
        (b"\x28\xb5\x2f\xfd", "Zstandard"),
        (b"PK\x03\x04", "a ZIP archive (or an XLSX workbook)"),
        (b"PAR1", "Parquet"),
        (b"SQLite format 3", "an SQLite database"),
        (b"\xff\xfe", "UTF-16 text"),
        (b"\xfe\xff", "UTF-16 text"),
        (b"\x7fELF", "a program"),
    ];
    let what = known
        .iter()
        .find(|(magic, _)| beginning.starts_with(magic))
        .map(|(_, what)| *what)
        .or_else(|| beginning.contains(&0).then_some("binary data"));
    match what {
        Some(what) => Err(ImportError::NotText { what }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<String>, ImportError> {
        let mut lines = Lines::new(bytes, 1 << 30);
        let mut found = Vec::new();
        while let Some(line) = lines.next()? {
            found.push(line.text.to_owned());
        }
        Ok(found)
    }

    #[test]
    fn ends_marks_and_bad_bytes_are_taken_off() {
        let found = all(b"\xef\xbb\xbfa,b\r\n\nc\xff\nd").unwrap();
        assert_eq!(found, ["a,b", "", "c\u{fffd}", "d"]);
    }

    #[test]
    fn the_first_line_is_looked_at_and_read_again() {
        let mut lines = Lines::new(&b"\n\nfirst\nsecond"[..], 1 << 30);
        assert_eq!(lines.peek().unwrap().unwrap().text, "first");
        assert_eq!(lines.peek().unwrap().unwrap().text, "first");
        let first = lines.next().unwrap().unwrap();
        assert_eq!((first.text, first.number, first.whole), ("first", 3, true));
        let second = lines.next().unwrap().unwrap();
        assert_eq!((second.number, second.whole), (4, false));
        assert!(lines.next().unwrap().is_none());
    }

    #[test]
    fn other_files_are_named() {
        for (bytes, word) in [
            (&b"\x1f\x8b\x08rest"[..], "gzip"),
            (b"\xff\xfet\0,\0", "UTF-16"),
            (b"PAR1....", "Parquet"),
            (b"abc\0def", "binary"),
        ] {
            let said = all(bytes).unwrap_err().to_string();
            assert!(said.contains(word), "{said}");
        }
    }

    #[test]
    fn lines_and_files_without_an_end_are_refused() {
        let endless = vec![b'x'; MOST_LINE_BYTES + 2];
        assert!(matches!(
            all(&endless),
            Err(ImportError::LineTooLong { line: 1, .. })
        ));
        let mut lines = Lines::new(&b"aaaa\nbbbb\n"[..], 7);
        assert!(lines.next().is_ok());
        assert!(matches!(lines.next(), Err(ImportError::TooLong { .. })));
    }
}
