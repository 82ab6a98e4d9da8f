//! One row of a table as cells: separators, quotes, rows that go over several lines.

use std::io::Read;

use crate::error::ImportError;
use crate::lines::{Lines, MOST_LINE_BYTES};

/// What stands between two cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Separator {
    Char(char),
    /// Any number of spaces.
    Spaces,
    /// Two spaces or more: names with single spaces in them, as psrecord has.
    WideSpaces,
}

/// What separates the names of a header: the commonest of the usual characters, else spaces.
pub(crate) fn separator_of(header: &str) -> Separator {
    let count = |c: char| header.matches(c).count();
    let candidates = [',', ';', '\t', '|'].map(|c| (count(c), c));
    // Of equally many the first counts.
    let best = candidates.into_iter().rev().max_by_key(|(count, _)| *count);
    match best {
        Some((count, c)) if count > 0 => Separator::Char(c),
        _ if header.trim().contains("  ") => Separator::WideSpaces,
        _ => Separator::Spaces,
    }
}

/// The cells of one row, with their quotes taken off.
#[derive(Debug, Default)]
pub(crate) struct CsvRecord {
    pub(crate) line: u64,
    /// Its last line has an end.
    pub(crate) whole: bool,
    text: String,
    ends: Vec<usize>,
}

impl CsvRecord {
    pub(crate) fn cells(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).map(|place| self.cell(place))
    }

    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// A cell; one that is not there is empty.
    pub(crate) fn cell(&self, place: usize) -> &str {
        let Some(end) = self.ends.get(place) else {
            return "";
        };
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..*end]
    }

    /// The next row that is neither blank nor a comment; false at the end of the file.
    pub(crate) fn read<R: Read>(
        &mut self,
        lines: &mut Lines<R>,
        separator: Separator,
    ) -> Result<bool, ImportError> {
        while let Some(line) = lines.next()? {
            if line.text.trim().is_empty() || line.text.trim_start().starts_with('#') {
                continue;
            }
            (self.line, self.whole) = (line.number, line.whole);
            let Separator::Char(separator) = separator else {
                self.split_one(line.text, separator);
                return Ok(true);
            };
            self.clear();
            let mut open = self.split(line.text, separator, false);
            while open {
                let begun = self.line;
                let Some(more) = lines.next()? else {
                    // Cut off inside of the quotes, or never closed.
                    return match self.whole {
                        true => Err(ImportError::OpenQuote { line: begun }),
                        false => Ok(true),
                    };
                };
                self.whole = more.whole;
                self.text.push('\n');
                open = self.split(more.text, separator, true);
                if self.text.len() > MOST_LINE_BYTES {
                    return Err(ImportError::OpenQuote { line: begun });
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Cells of a line that stands alone.
    pub(crate) fn split_one(&mut self, line: &str, separator: Separator) {
        self.clear();
        match separator {
            Separator::Char(separator) => {
                if self.split(line, separator, false) {
                    self.ends.push(self.text.len());
                }
            }
            Separator::Spaces => line.split_whitespace().for_each(|cell| self.push(cell)),
            Separator::WideSpaces => line
                .split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .for_each(|cell| self.push(cell)),
        }
    }

    fn push(&mut self, cell: &str) {
        self.text.push_str(cell);
        self.ends.push(self.text.len());
    }

    /// Adds the cells of a line; true when a quoted cell is still open at its end.
    fn split(&mut self, line: &str, separator: char, mut quoted: bool) -> bool {
        if !quoted && !line.contains('"') {
            line.split(separator).for_each(|cell| self.push(cell));
            return false;
        }
        let mut begins = !quoted;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    self.text.push('"');
                }
                '"' if quoted => quoted = false,
                // Spaces may stand before a quote, as behind the commas of nvidia-smi.
                '"' if begins => quoted = true,
                c if c == separator && !quoted => {
                    self.ends.push(self.text.len());
                    begins = true;
                    continue;
                }
                c => {
                    self.text.push(c);
                    begins &= c == ' ';
                    continue;
                }
            }
            begins = false;
        }
        if !quoted {
            self.ends.push(self.text.len());
        }
        quoted
    }
}
