//! Texts to ids and back.
//!
//! [`Encoder`] holds what a model's merges come to, is shared by threads, and never changes; each thread has a [`Scratch`] of its own, with the words it met last.
//! Ids are those of Hugging Face `tokenizers` and of tiktoken for the same model.

mod batch;
mod cache;
mod decode;
mod joins;
mod last_join;
mod lineage;
mod linear_word;
mod long_word;
mod parallel;
mod pieces;
mod prefixes;
mod ranks;
mod short_word;
mod stream;
mod verdict_cache;

#[cfg(test)]
mod word_tests;

use aho_corasick::{AhoCorasick, MatchKind};

pub use decode::{UnknownId, UnknownIds};
pub use stream::StreamError;

use crate::model::Model;
use crate::{Pattern, PatternError};
use batch::{QueuedWord, WordBatch};
use cache::Cache;
use joins::Joins;
use linear_word::LinearWords;

/// What is done where the text of a special token stands in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialTokens {
    /// It becomes the special token's id: for texts that one made oneself.
    Recognise,
    /// It is text like any other: for texts of strangers.
    AsText,
}

/// Why a text could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The vocabulary was learnt from texts without this byte.
    #[error("byte {byte:#04x} has no token in the vocabulary")]
    NoToken {
        /// The byte.
        byte: u8,
    },
    /// The pattern gave up.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

/// Texts to ids.
#[derive(Debug)]
pub struct Encoder {
    byte_ids: [u32; 256],
    has_all_bytes: bool,
    words: WordEncoder,
    pattern: Pattern,
    specials: Option<AhoCorasick>,
    special_ids: Vec<u32>,
    longest_special: usize,
}

/// How words are joined.
#[derive(Debug)]
enum WordEncoder {
    /// Where merges are in order: as they are in all that was learnt.
    Linear(LinearWords),
    /// Merges in any order.
    Ordered(Joins),
}

/// What a thread keeps between texts: the ids of words it met, and room to work in.
#[derive(Debug, Default)]
pub struct Scratch {
    cache: Cache,
    room: WordScratch,
}

/// Room to work in.
#[derive(Debug, Default)]
struct WordScratch {
    linear: linear_word::LinearWordScratch,
    long: long_word::LongWordScratch,
}

/// A byte without a token.
const NO_ID: u32 = u32::MAX;
/// Where merges are in any order, longer words are joined with a heap: the time for shorter ones grows with the square of their length, but hardly.
const LONGEST_SHORT_WORD: usize = 48;

impl Encoder {
    /// Prepares a model's merges.
    #[must_use]
    pub fn new(model: &Model) -> Self {
        let special_tokens = model.special_tokens();
        let texts: Vec<&str> = special_tokens
            .iter()
            .map(|special| &*special.text)
            .collect();
        // Of two special tokens that begin at one place the longer is meant.
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&texts);
        let joins = Joins::new(model.joins());
        let byte_ids = model.byte_ids();
        Self {
            byte_ids: byte_ids.map(|id| id.unwrap_or(NO_ID)),
            has_all_bytes: byte_ids.iter().all(Option::is_some),
            words: match LinearWords::new(model, &joins) {
                Some(linear) => WordEncoder::Linear(linear),
                None => WordEncoder::Ordered(joins),
            },
            pattern: model.pattern().clone(),
            specials: finder.ok().filter(|_| !texts.is_empty()),
            special_ids: special_tokens.iter().map(|special| special.id).collect(),
            longest_special: texts.iter().map(|text| text.len()).max().unwrap_or(0),
        }
    }

    /// The ids of a text.
    pub fn encode(&self, text: &[u8], specials: SpecialTokens) -> Result<Vec<u32>, EncodeError> {
        let mut ids = Vec::new();
        self.encode_into(text, specials, &mut Scratch::default(), &mut ids)?;
        Ok(ids)
    }

    /// Appends the ids of a text.
    pub fn encode_into(
        &self,
        text: &[u8],
        specials: SpecialTokens,
        scratch: &mut Scratch,
        ids: &mut Vec<u32>,
    ) -> Result<(), EncodeError> {
        let finder = self
            .specials
            .as_ref()
            .filter(|_| specials == SpecialTokens::Recognise);
        let mut start = 0;
        for found in finder.iter().flat_map(|finder| finder.find_iter(text)) {
            self.encode_text(&text[start..found.start()], scratch, ids)?;
            ids.push(self.special_ids[found.pattern().as_usize()]);
            start = found.end();
        }
        self.encode_text(&text[start..], scratch, ids)
    }

    /// Appends the ids of a text without special tokens.
    fn encode_text(
        &self,
        text: &[u8],
        scratch: &mut Scratch,
        ids: &mut Vec<u32>,
    ) -> Result<(), EncodeError> {
        let mut batch = WordBatch::default();
        let mut missing = None;
        self.pattern.for_each_span(text, |start, end| {
            if batch.push(&scratch.cache, text, start, end) {
                missing = missing.or(self.encode_words(text, batch.take(), scratch, ids));
            }
        })?;
        missing = missing.or(self.encode_words(text, batch.take(), scratch, ids));
        missing.map_or(Ok(()), |byte| Err(EncodeError::NoToken { byte }))
    }

    /// Appends the ids of some words. Returns a byte without a token, if there is one.
    #[inline(never)]
    fn encode_words(
        &self,
        text: &[u8],
        words: &[QueuedWord],
        scratch: &mut Scratch,
        ids: &mut Vec<u32>,
    ) -> Option<u8> {
        let mut missing = None;
        for &QueuedWord { start, end, key } in words {
            if !scratch.cache.recall(key, ids) {
                let before = ids.len();
                let encoded = self.encode_word(&text[start..end], &mut scratch.room, ids);
                missing = missing.or(encoded.err());
                scratch.cache.remember(key, &ids[before..]);
            }
        }
        missing
    }

    /// Joins the bytes of one word. An error names a byte without a token.
    fn encode_word(
        &self,
        word: &[u8],
        room: &mut WordScratch,
        ids: &mut Vec<u32>,
    ) -> Result<(), u8> {
        if !self.has_all_bytes
            && let Some(&byte) = word
                .iter()
                .find(|&&byte| self.byte_ids[usize::from(byte)] == NO_ID)
        {
            return Err(byte);
        }
        match &self.words {
            WordEncoder::Linear(linear) => linear.encode(word, &mut room.linear, ids),
            WordEncoder::Ordered(joins) if word.len() <= LONGEST_SHORT_WORD => {
                short_word::encode(joins, &self.byte_ids, word, ids);
            }
            WordEncoder::Ordered(joins) => {
                long_word::encode(joins, &self.byte_ids, word, &mut room.long, ids);
            }
        }
        Ok(())
    }
}
