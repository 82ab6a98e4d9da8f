//! The vocabulary while it grows: each token's text and length, and which text already has an id.

use std::collections::HashMap;

use super::error::MergeError;
use super::options::{Alphabet, MergeOptions};
use super::words::ByteSet;
use crate::byte_level::ByteLevel;

/// Tokens by id.
pub(super) struct Tokens {
    pub(super) texts: Vec<Box<[u8]>>,
    /// Bytes a token takes in a word.
    pub(super) lengths: Vec<u32>,
    pub(super) byte_ids: [u32; 256],
    by_text: HashMap<Box<[u8]>, u32>,
    /// Whether the token occurs in words, so that its pairs may be known already.
    in_use: Vec<bool>,
}

/// Where a merge leads.
pub(super) enum MergedToken {
    /// A token that no word holds yet.
    Fresh(u32),
    /// A token that stands in words already.
    InUse(u32),
}

impl Tokens {
    /// Special tokens first, then the alphabet in the order of its stand-ins.
    pub(super) fn new(options: &MergeOptions, seen: &ByteSet) -> Result<Self, MergeError> {
        let level = ByteLevel::default();
        let mut tokens = Self {
            texts: Vec::new(),
            lengths: Vec::new(),
            byte_ids: [u32::MAX; 256],
            by_text: HashMap::new(),
            in_use: Vec::new(),
        };
        let mut given = std::collections::HashSet::new();
        for (index, special) in options.special_tokens.iter().enumerate() {
            if special.is_empty() {
                return Err(MergeError::EmptySpecialToken { number: index + 1 });
            }
            if !given.insert(special) {
                return Err(MergeError::DoubledSpecialToken {
                    token: special.clone(),
                });
            }
            // Hugging Face compares the written forms: a special token is the same as a merged one if it is written in the stand-ins of its bytes.
            match level.bytes_of(special) {
                Some(text) => drop(tokens.push(text.into())),
                None => {
                    tokens.texts.push(special.as_bytes().into());
                    tokens.lengths.push(special.len() as u32);
                    tokens.in_use.push(false);
                }
            }
        }
        let mut bytes = 0;
        for byte in level.alphabet() {
            if options.alphabet == Alphabet::AllBytes || seen.0[usize::from(byte)] {
                bytes += 1;
                let text: Box<[u8]> = Box::new([byte]);
                let id = tokens.by_text.get(&text).copied();
                tokens.byte_ids[usize::from(byte)] = id.unwrap_or_else(|| tokens.push(text));
            }
        }
        if tokens.texts.len() > options.vocabulary_size {
            return Err(MergeError::VocabularyTooSmall {
                wanted: options.vocabulary_size,
                specials: options.special_tokens.len(),
                bytes,
                needed: tokens.texts.len(),
            });
        }
        for &id in tokens.byte_ids.iter().filter(|&&id| id != u32::MAX) {
            tokens.in_use[id as usize] = true;
        }
        Ok(tokens)
    }

    fn push(&mut self, text: Box<[u8]>) -> u32 {
        let id = self.texts.len() as u32;
        self.lengths.push(text.len() as u32);
        self.texts.push(text.clone());
        self.in_use.push(false);
        self.by_text.insert(text, id);
        id
    }

    /// The token that two tokens make together.
    pub(super) fn join(&mut self, left: u32, right: u32) -> MergedToken {
        let text = [&*self.texts[left as usize], &*self.texts[right as usize]]
            .concat()
            .into_boxed_slice();
        let id = match self.by_text.get(&text) {
            Some(&id) => id,
            None => self.push(text),
        };
        if std::mem::replace(&mut self.in_use[id as usize], true) {
            MergedToken::InUse(id)
        } else {
            MergedToken::Fresh(id)
        }
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }
}
