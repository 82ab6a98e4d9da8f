//! A regular expression of the user's as the rule for words, in the dialect of `fancy-regex` (which tiktoken uses too).
//!
//! Matches are words, and so is the text between them. Bytes that are not UTF-8 are cut out first: a run of them is a word.

use fancy_regex::Regex;

/// Why a regular expression cannot split text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is not a regular expression.
    #[error("the pattern is not a regular expression: {reason}")]
    Syntax {
        /// What is wrong, in one line.
        reason: String,
    },
    /// It would make words of no bytes.
    #[error("the pattern matches the empty string, so it does not say where words end: {pattern}")]
    MatchesEmpty {
        /// The expression.
        pattern: String,
    },
    /// It tried too many ways to match.
    #[error(
        "the pattern needs too many steps on a text of {text_bytes} bytes, at byte {at}: {reason}"
    )]
    GaveUp {
        /// Length of the text in question.
        text_bytes: usize,
        /// Where the search began.
        at: usize,
        /// What the engine says.
        reason: String,
    },
}

impl PatternError {
    /// The way out, for a `hint:` line.
    pub fn hint(&self) -> &'static str {
        match self {
            PatternError::Syntax { .. } => {
                "name a pattern (gpt2, cl100k, o200k, none) or correct the expression"
            }
            PatternError::MatchesEmpty { .. } => {
                "replace a `*` by a `+`, so that each match takes at least one character"
            }
            PatternError::GaveUp { .. } => {
                "make repetitions possessive (`++`) or the documents shorter"
            }
        }
    }
}

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct CustomPattern {
    regex: Regex,
}

/// Texts on which an expression that can match nothing is likely to do so.
const PROBES: [&str; 8] = [
    "",
    "a",
    "Ab c",
    "a1",
    "1 ",
    " \n",
    ".,x",
    "\u{4E00}\u{301}\u{A0}",
];

impl CustomPattern {
    /// Compiles the expression and refuses one that matches the empty string.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let regex = Regex::new(pattern).map_err(|error| PatternError::Syntax {
            reason: one_line(&error.to_string()),
        })?;
        let custom = Self { regex };
        for probe in PROBES {
            for found in custom.regex.find_iter(probe) {
                let found = found.map_err(|error| custom.gave_up(probe, 0, &error))?;
                if found.start() == found.end() {
                    return Err(PatternError::MatchesEmpty {
                        pattern: pattern.to_owned(),
                    });
                }
            }
        }
        Ok(custom)
    }

    /// The expression.
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }

    pub(super) fn scan(
        &self,
        text: &[u8],
        mut visit: impl FnMut(usize, usize),
    ) -> Result<(), PatternError> {
        let mut offset = 0;
        let mut invalid_start = 0;
        for piece in text.utf8_chunks() {
            let valid = piece.valid();
            if !valid.is_empty() {
                if invalid_start < offset {
                    visit(invalid_start, offset);
                }
                self.scan_text(valid, |start, end| visit(offset + start, offset + end))?;
                offset += valid.len();
                invalid_start = offset;
            }
            offset += piece.invalid().len();
        }
        if invalid_start < offset {
            visit(invalid_start, offset);
        }
        Ok(())
    }

    fn scan_text(
        &self,
        text: &str,
        mut visit: impl FnMut(usize, usize),
    ) -> Result<(), PatternError> {
        let mut done = 0;
        let mut search_from = 0;
        while search_from < text.len() {
            let found = match self.regex.find_from_pos(text, search_from) {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(error) => return Err(self.gave_up(text, search_from, &error)),
            };
            if found.end() == found.start() {
                // An empty match that the probes did not provoke ends no word.
                let next = text[found.start()..]
                    .chars()
                    .next()
                    .map_or(1, char::len_utf8);
                search_from = found.start() + next;
                continue;
            }
            if done < found.start() {
                visit(done, found.start());
            }
            visit(found.start(), found.end());
            done = found.end();
            search_from = done;
        }
        if done < text.len() {
            visit(done, text.len());
        }
        Ok(())
    }

    fn gave_up(&self, text: &str, at: usize, error: &fancy_regex::Error) -> PatternError {
        PatternError::GaveUp {
            text_bytes: text.len(),
            at,
            reason: one_line(&error.to_string()),
        }
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
