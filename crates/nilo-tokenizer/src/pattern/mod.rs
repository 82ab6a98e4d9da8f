//! Where words end: the published patterns of GPT-2, cl100k and o200k as hand-written scanners, any other as a regular expression.
//!
//! The end of the text that is handed in is the end of a document: what follows cannot change its words.
//! Long documents are therefore cut only where [`Pattern::safe_cut`] says that nothing depends on both sides.

mod blocks;
mod cl100k;
mod class;
mod custom;
mod cut;
mod gpt2;
mod o200k;
mod runs;
mod tables;
mod window;

#[cfg(test)]
mod custom_tests;
#[cfg(test)]
mod pattern_tests;

use std::fmt;
use std::str::FromStr;

pub use custom::{CustomPattern, PatternError};
pub use tables::UNICODE_VERSION;

/// The rule that splits text into words, which merges never cross.
#[derive(Debug, Clone, Default)]
pub enum Pattern {
    /// GPT-2's, the one behind Hugging Face's `ByteLevel`.
    #[default]
    Gpt2,
    /// That of GPT-4.
    Cl100k,
    /// That of GPT-4o.
    O200k,
    /// A regular expression of the user's.
    Custom(CustomPattern),
    /// No rule: a document is one word.
    None,
}

/// GPT-2's pattern as published.
pub const GPT2_REGEX: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// cl100k's pattern as first published. Later releases of tiktoken write `\s++$` before `\s*[\r\n]`, by which blank
/// text after the last line feed of a document joins it; this form keeps them apart, as Hugging Face's copies do.
pub const CL100K_REGEX: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// o200k's pattern as published.
pub const O200K_REGEX: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

impl Pattern {
    /// Hands each word of a document to `visit`, in order; together they are the whole text.
    ///
    /// Only a custom pattern can fail: where its regular expression gives up on a text (see [`PatternError`]).
    #[inline]
    pub fn for_each_word<'t>(
        &self,
        text: &'t [u8],
        mut visit: impl FnMut(&'t [u8]),
    ) -> Result<(), PatternError> {
        self.for_each_span(text, |start, end| visit(&text[start..end]))
    }

    /// The same with the places of the words instead of their bytes.
    #[inline]
    pub fn for_each_span(
        &self,
        text: &[u8],
        mut visit: impl FnMut(usize, usize),
    ) -> Result<(), PatternError> {
        match self {
            Pattern::Gpt2 => gpt2::scan(text, visit),
            Pattern::Cl100k => cl100k::scan(text, visit),
            Pattern::O200k => o200k::scan(text, visit),
            Pattern::Custom(custom) => return custom.scan(text, visit),
            Pattern::None if text.is_empty() => {}
            Pattern::None => visit(0, text.len()),
        }
        Ok(())
    }

    /// The words of a document. Finds all of them before it returns the first; [`Self::for_each_word`] does not.
    pub fn words<'t>(
        &self,
        text: &'t [u8],
    ) -> Result<impl Iterator<Item = &'t [u8]> + use<'t>, PatternError> {
        let mut words = Vec::new();
        self.for_each_word(text, |word| words.push(word))?;
        Ok(words.into_iter())
    }

    /// The last place in `text` where it can be cut in two without changing a word, whatever follows it; `None` where
    /// there is no such place, and always for custom patterns and for none, since theirs may look at the whole document.
    pub fn safe_cut(&self, text: &[u8]) -> Option<usize> {
        self.safe_cut_before(text, text.len())
    }

    /// The last safe cut at or before `limit`.
    pub(crate) fn safe_cut_before(&self, text: &[u8], limit: usize) -> Option<usize> {
        match self {
            Pattern::Gpt2 | Pattern::Cl100k | Pattern::O200k => cut::last_cut(text, limit),
            Pattern::Custom(_) | Pattern::None => None,
        }
    }

    /// The regular expression that gives the same words, for other libraries; `None` for no pattern.
    pub fn regex(&self) -> Option<&str> {
        match self {
            Pattern::Gpt2 => Some(GPT2_REGEX),
            Pattern::Cl100k => Some(CL100K_REGEX),
            Pattern::O200k => Some(O200K_REGEX),
            Pattern::Custom(custom) => Some(custom.as_str()),
            Pattern::None => None,
        }
    }
}

/// What tiktoken is told where there is no pattern: the whole text is one word.
const WHOLE_TEXT: &str = r"(?s:.+)";
/// Around a pattern, and around the same behind it, for what lies between its matches.
const OF_GAPS: [&str; 3] = ["(?:", ")|(?:(?!(?:", r"))[\s\S])+"];

impl Pattern {
    /// The regular expression for tiktoken, which drops what a pattern does not match: here that is matched as well.
    pub fn for_ranks(&self) -> String {
        match self {
            Pattern::Custom(custom) => {
                let [before, between, after] = OF_GAPS;
                let regex = custom.as_str();
                format!("{before}{regex}{between}{regex}{after}")
            }
            _ => self.regex().unwrap_or(WHOLE_TEXT).to_owned(),
        }
    }

    /// Reads what [`Pattern::for_ranks`] writes, or any other.
    pub fn from_ranks(text: &str) -> Result<Pattern, PatternError> {
        if text == WHOLE_TEXT {
            return Ok(Pattern::None);
        }
        let around = OF_GAPS.iter().map(|part| part.len()).sum::<usize>();
        let length = text.len().saturating_sub(around) / 2;
        let start = OF_GAPS[0].len();
        if let Some(regex) = text.get(start..start + length)
            && let Ok(pattern) = CustomPattern::new(regex).map(Pattern::Custom)
            && pattern.for_ranks() == text
        {
            return Ok(pattern);
        }
        text.parse()
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    /// `gpt2`, `cl100k`, `o200k` or `none`; anything else is a regular expression.
    fn from_str(text: &str) -> Result<Self, PatternError> {
        Ok(match text {
            "gpt2" | GPT2_REGEX => Pattern::Gpt2,
            "cl100k" | CL100K_REGEX => Pattern::Cl100k,
            "o200k" | O200K_REGEX => Pattern::O200k,
            "none" => Pattern::None,
            regex => Pattern::Custom(CustomPattern::new(regex)?),
        })
    }
}

/// As [`Pattern::from_str`] reads it.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pattern::Gpt2 => "gpt2",
            Pattern::Cl100k => "cl100k",
            Pattern::O200k => "o200k",
            Pattern::Custom(custom) => custom.as_str(),
            Pattern::None => "none",
        })
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}
