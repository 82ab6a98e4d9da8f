//! How files hold documents, and what is cut out of them.

use aho_corasick::{AhoCorasick, MatchKind};
use memchr::memmem;
use serde::{Deserialize, Serialize};

use super::CorpusError;

/// What a document is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Documents {
    /// A file.
    #[default]
    Files,
    /// What lies between two occurrences of this text, which itself belongs to none; also a file's end ends one.
    Separated(String),
    /// A line with its line feed, as Hugging Face's `train(files)` has it.
    Lines,
    /// A string in a field of the JSON object on each line.
    JsonLines {
        /// The field's name.
        field: String,
    },
}

/// How text is taken out of files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextFormat {
    /// What a document is.
    pub documents: Documents,
    /// Special tokens that are cut out of the text, each of which ends it like a document's end; those that are to be
    /// trained on as text, as Hugging Face does, are not named here.
    pub cut_out: Vec<String>,
}

/// The format made ready for searching.
#[derive(Debug)]
pub(crate) struct Delimiters {
    tokens: Vec<Vec<u8>>,
    /// How many of them (0 or 1, from the front) part documents; the others only part texts.
    separators: usize,
    searcher: Searcher,
}

#[derive(Debug)]
enum Searcher {
    Nothing,
    One(Box<memmem::Finder<'static>>),
    Several(AhoCorasick),
}

impl Delimiters {
    pub(crate) fn new(format: &TextFormat) -> Result<Self, CorpusError> {
        let mut tokens: Vec<Vec<u8>> = Vec::new();
        if let Documents::Separated(separator) = &format.documents {
            tokens.push(separator.clone().into_bytes());
        }
        let separators = tokens.len();
        for (place, token) in format.cut_out.iter().enumerate() {
            if format.cut_out[..place].contains(token) {
                return Err(CorpusError::DoubledToken {
                    token: token.clone(),
                });
            }
            if !tokens.iter().any(|known| known == token.as_bytes()) {
                tokens.push(token.clone().into_bytes());
            }
        }
        if tokens.iter().any(Vec::is_empty) {
            return Err(CorpusError::EmptyToken);
        }
        let searcher = match &tokens[..] {
            [] => Searcher::Nothing,
            [one] => Searcher::One(Box::new(memmem::Finder::new(one).into_owned())),
            several => Searcher::Several(
                AhoCorasick::builder()
                    .match_kind(MatchKind::LeftmostLongest)
                    .build(several)
                    .map_err(|_| CorpusError::EmptyToken)?,
            ),
        };
        Ok(Self {
            tokens,
            separators,
            searcher,
        })
    }

    /// Length of the longest.
    pub(crate) fn longest(&self) -> usize {
        self.tokens.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The first one at or after `from`: its start, its end, whether it ends a document.
    fn next(&self, text: &[u8], from: usize) -> Option<(usize, usize, bool)> {
        match &self.searcher {
            Searcher::Nothing => None,
            Searcher::One(finder) => {
                let start = from + finder.find(&text[from..])?;
                Some((start, start + self.tokens[0].len(), self.separators > 0))
            }
            Searcher::Several(searcher) => {
                let found = searcher.find(&text[from..])?;
                let ends_document = found.pattern().as_usize() < self.separators;
                Some((from + found.start(), from + found.end(), ends_document))
            }
        }
    }

    /// Hands the texts between delimiters to `visit`, as places, with whether a delimiter that ends a document follows.
    /// The last one ends where the text does. Empty ones come too.
    pub(crate) fn split<E>(
        &self,
        text: &[u8],
        mut visit: impl FnMut(usize, usize, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut from = 0;
        while let Some((start, end, ends_document)) = self.next(text, from) {
            visit(from, start, ends_document)?;
            from = end;
        }
        visit(from, text.len(), false)
    }

    /// The end of the last delimiter that no further bytes could change, and whether a document goes on after it; the
    /// text begins outside of any.
    pub(crate) fn last_end(&self, text: &[u8]) -> Option<(usize, bool)> {
        let sure = text.len().checked_sub(self.longest())?;
        let mut last = None;
        let mut from = 0;
        while let Some((start, end, ends_document)) = self.next(text, from) {
            if start > sure {
                break;
            }
            last = Some((end, !ends_document));
            from = end;
        }
        last
    }

    /// Whether a delimiter might lie across `at` or end there.
    pub(crate) fn touches(&self, text: &[u8], at: usize) -> bool {
        self.tokens.iter().any(|token| {
            let first = at.saturating_sub(token.len());
            (first..at).any(|start| text[start..].starts_with(token))
        })
    }
}
