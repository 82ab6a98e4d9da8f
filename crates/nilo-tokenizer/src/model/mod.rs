//! A learnt tokenizer: its vocabulary, merges, special tokens and pattern, and the files in which other libraries read it.
//!
//! | form | holds | cannot hold |
//! |---|---|---|
//! | `tokenizer.json` | everything | |
//! | `vocab.json` + `merges.txt` | vocabulary and merges, also several merges of one text | which tokens are special, the pattern |
//! | ranks for tiktoken | vocabulary, with its order for merges | an alphabet of fewer than 256 bytes, a text that two merges or a special token share |

mod error;
mod hugging_face;
mod ranks;
mod save;
mod vocab_merges;

use std::collections::HashMap;

pub use error::ModelError;
pub use ranks::RanksInfo;
pub use save::SavedFiles;

use crate::Pattern;
use crate::byte_level::ByteLevel;
use crate::merge::Learned;
use error::malformed;

/// The most bytes of a file that are read: ten times the largest vocabularies in use.
pub const MOST_FILE_BYTES: usize = 256 << 20;

/// Two tokens that become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Join {
    /// The id of the left half.
    pub left: u32,
    /// The id of the right half.
    pub right: u32,
    /// The id of both together.
    pub joined: u32,
    /// Of all that can be joined, the lowest is joined first.
    pub rank: u32,
}

/// A special token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialToken {
    /// Its id.
    pub id: u32,
    /// Its text.
    pub text: String,
}

/// A tokenizer.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The bytes of each id; an id without a token has none.
    tokens: Vec<Box<[u8]>>,
    joins: Vec<Join>,
    special_tokens: Vec<SpecialToken>,
    pattern: Pattern,
}

impl Model {
    /// What was learnt, with the pattern that made the words.
    #[must_use]
    pub fn from_learned(learned: Learned, pattern: Pattern) -> Self {
        let mut tokens = learned.tokens;
        let joins: Vec<Join> = learned
            .merges
            .iter()
            .enumerate()
            .map(|(rank, merge)| Join {
                left: merge.left,
                right: merge.right,
                joined: merge.joined,
                rank: rank as u32,
            })
            .collect();
        let in_text: std::collections::HashSet<u32> =
            joins.iter().map(|join| join.joined).collect();
        let mut special_tokens = Vec::new();
        for (id, text) in learned.special_tokens.into_iter().enumerate() {
            // A special token that is a token of texts as well keeps the bytes that it has there.
            if !in_text.contains(&(id as u32)) && tokens[id].len() > 1 {
                tokens[id] = text.as_bytes().into();
            }
            special_tokens.push(SpecialToken {
                id: id as u32,
                text,
            });
        }
        Self {
            tokens,
            joins,
            special_tokens,
            pattern,
        }
    }

    /// How many ids there are: one more than the highest.
    #[must_use]
    pub fn vocabulary_size(&self) -> usize {
        self.tokens.len()
    }

    /// The bytes of a token; `None` for an id that has none.
    #[must_use]
    pub fn token(&self, id: u32) -> Option<&[u8]> {
        self.tokens
            .get(id as usize)
            .map(|token| &**token)
            .filter(|token| !token.is_empty())
    }

    /// All merges, by rank.
    #[must_use]
    pub fn joins(&self) -> &[Join] {
        &self.joins
    }

    /// The special tokens.
    #[must_use]
    pub fn special_tokens(&self) -> &[SpecialToken] {
        &self.special_tokens
    }

    /// How texts fall apart into words.
    #[must_use]
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The id of each byte that has one.
    pub(crate) fn byte_ids(&self) -> [Option<u32>; 256] {
        let specials = self.special_ids();
        let mut ids = [None; 256];
        for (id, token) in self.tokens.iter().enumerate() {
            if let [byte] = **token
                && !specials.contains(&(id as u32))
            {
                ids[usize::from(byte)].get_or_insert(id as u32);
            }
        }
        // A special token of one byte may be the byte's token too.
        for (id, token) in self.tokens.iter().enumerate() {
            if let [byte] = **token {
                ids[usize::from(byte)].get_or_insert(id as u32);
            }
        }
        ids
    }

    fn special_ids(&self) -> std::collections::HashSet<u32> {
        self.special_tokens
            .iter()
            .map(|special| special.id)
            .collect()
    }

    /// Each token as Hugging Face writes it: special tokens as they are, others in the stand-ins of their bytes.
    fn written_tokens(&self) -> Vec<(String, u32)> {
        let level = ByteLevel::default();
        let specials: HashMap<u32, &str> = self
            .special_tokens
            .iter()
            .map(|special| (special.id, &*special.text))
            .collect();
        let tokens = self
            .tokens
            .iter()
            .enumerate()
            .filter(|(_, token)| !token.is_empty());
        tokens
            .map(|(id, token)| {
                let special = specials.get(&(id as u32));
                (
                    special.map_or_else(|| level.text_of(token), |&text| text.to_owned()),
                    id as u32,
                )
            })
            .collect()
    }
}

/// Puts a vocabulary in the order of its ids. Refuses ids far beyond the number of tokens, which would take memory for nothing.
fn tokens_by_id(
    what: &'static str,
    tokens: impl ExactSizeIterator<Item = (Box<[u8]>, u32)>,
) -> Result<Vec<Box<[u8]>>, ModelError> {
    let most = tokens.len() * 2 + (1 << 16);
    let mut by_id: Vec<Box<[u8]>> = Vec::new();
    for (token, id) in tokens {
        let index = id as usize;
        if index >= most {
            return Err(malformed(
                what,
                format!("id {id} is too high for the number of tokens"),
            ));
        }
        if token.is_empty() {
            return Err(malformed(what, format!("the token of id {id} is empty")));
        }
        if by_id.len() <= index {
            by_id.resize_with(index + 1, Box::default);
        }
        if !by_id[index].is_empty() && by_id[index] != token {
            return Err(malformed(what, format!("id {id} is given to two tokens")));
        }
        by_id[index] = token;
    }
    Ok(by_id)
}
