//! What was counted, in numbers, and by which rules.

use serde::{Deserialize, Serialize};

use crate::corpus::{Documents, TextFormat};
use crate::pattern::{Pattern, UNICODE_VERSION};

/// Sums over a corpus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusTotals {
    /// Documents that were not empty.
    pub documents: u64,
    /// Bytes of text, without separators and tokens that were cut out.
    pub text_bytes: u64,
    /// Words, each as often as it occurred.
    pub words: u64,
    /// Different words.
    pub distinct_words: u64,
    /// Bytes in the different words.
    pub distinct_bytes: u64,
    /// Bytes that are not UTF-8; counted as symbols.
    pub invalid_bytes: u64,
}

impl CorpusTotals {
    /// Adds what can be added: different words are not known until they are merged.
    pub(super) fn add(&mut self, other: &CorpusTotals) {
        // Sums of a file from outside may be anything.
        for (sum, more) in [
            (&mut self.documents, other.documents),
            (&mut self.text_bytes, other.text_bytes),
            (&mut self.words, other.words),
            (&mut self.invalid_bytes, other.invalid_bytes),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// The rules that counts depend on. Counts by different rules do not add up to anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// The pattern, as [`Pattern`] prints it.
    pub pattern: String,
    /// The version of Unicode behind the classes of characters.
    pub unicode: String,
    /// Whether each line was a text of its own.
    pub by_lines: bool,
    /// Tokens that were cut out, sorted.
    pub cut_out: Vec<String>,
}

impl Recipe {
    pub(super) fn new(pattern: &Pattern, format: &TextFormat) -> Self {
        let mut cut_out = format.cut_out.clone();
        cut_out.sort();
        Self {
            pattern: pattern.to_string(),
            unicode: UNICODE_VERSION.to_owned(),
            by_lines: format.documents == Documents::Lines,
            cut_out,
        }
    }

    /// The first rule that differs, and its two values.
    pub(super) fn difference(&self, other: &Recipe) -> Option<(&'static str, String, String)> {
        let texts = |by_lines: bool| if by_lines { "lines" } else { "documents" }.to_owned();
        if self.pattern != other.pattern {
            return Some(("the pattern", self.pattern.clone(), other.pattern.clone()));
        }
        if self.by_lines != other.by_lines {
            return Some((
                "what is a text",
                texts(self.by_lines),
                texts(other.by_lines),
            ));
        }
        if self.cut_out != other.cut_out {
            let list = |tokens: &[String]| format!("{tokens:?}");
            return Some(("what is cut out", list(&self.cut_out), list(&other.cut_out)));
        }
        (self.unicode != other.unicode).then(|| {
            (
                "the Unicode version",
                self.unicode.clone(),
                other.unicode.clone(),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_files_from_outside_do_not_overflow() {
        let mut sums = CorpusTotals {
            words: 7,
            text_bytes: u64::MAX,
            ..CorpusTotals::default()
        };
        sums.add(&CorpusTotals {
            words: u64::MAX,
            text_bytes: 1,
            documents: 2,
            ..CorpusTotals::default()
        });
        assert_eq!(
            (sums.words, sums.text_bytes, sums.documents),
            (u64::MAX, u64::MAX, 2)
        );
    }
}
