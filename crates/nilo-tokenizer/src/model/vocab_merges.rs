//! `vocab.json` and `merges.txt`: the vocabulary as a JSON object, the merges a line each, both in stand-ins of bytes.

use std::collections::HashMap;

use super::error::malformed;
use super::{Join, MOST_FILE_BYTES, Model, ModelError, SpecialToken, tokens_by_id};
use crate::Pattern;
use crate::byte_level::ByteLevel;

const VOCABULARY: &str = "the vocabulary";
const MERGES: &str = "the list of merges";

impl Model {
    /// The vocabulary as JSON, in the order of ids.
    #[must_use]
    pub fn to_vocab_json(&self) -> String {
        let mut out = String::from("{");
        for (index, (token, id)) in self.written_tokens().iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let token = serde_json::Value::from(token.as_str());
            out.push_str(&format!("{comma}{token}:{id}"));
        }
        out.push('}');
        out
    }

    /// The merges, a line each, in order.
    #[must_use]
    pub fn to_merges_txt(&self) -> String {
        let mut out = String::from("#version: 0.2\n");
        for [left, right] in self.written_joins() {
            out.push_str(&format!("{left} {right}\n"));
        }
        out
    }

    pub(super) fn written_joins(&self) -> impl Iterator<Item = [String; 2]> + '_ {
        let level = ByteLevel::default();
        self.joins.iter().map(move |join| {
            [join.left, join.right].map(|id| level.text_of(&self.tokens[id as usize]))
        })
    }

    /// Reads a vocabulary and its merges. Special tokens are looked up in the vocabulary.
    pub fn from_vocab_merges(
        vocabulary: &[u8],
        merges: &[u8],
        specials: &[String],
        pattern: Pattern,
    ) -> Result<Self, ModelError> {
        for (what, bytes) in [(VOCABULARY, vocabulary), (MERGES, merges)] {
            if bytes.len() > MOST_FILE_BYTES {
                return Err(ModelError::TooLarge {
                    what,
                    most: MOST_FILE_BYTES,
                });
            }
        }
        let vocabulary: HashMap<String, u32> = serde_json::from_slice(vocabulary)
            .map_err(|error| malformed(VOCABULARY, error.to_string()))?;
        let merges =
            std::str::from_utf8(merges).map_err(|error| malformed(MERGES, error.to_string()))?;
        let mut pairs = Vec::new();
        for (index, line) in merges.lines().enumerate() {
            if line.is_empty() || index == 0 && line.starts_with("#version") {
                continue;
            }
            let Some((left, right)) = line.split_once(' ') else {
                return Err(malformed(
                    MERGES,
                    format!("line {} is not two tokens", index + 1),
                ));
            };
            pairs.push([left.to_owned(), right.to_owned()]);
        }
        let mut special_tokens = Vec::new();
        for text in specials {
            let Some(&id) = vocabulary.get(text) else {
                return Err(malformed(
                    VOCABULARY,
                    format!("the special token {text} is not in it"),
                ));
            };
            special_tokens.push(SpecialToken {
                id,
                text: text.clone(),
            });
        }
        from_written(VOCABULARY, &vocabulary, &pairs, special_tokens, pattern)
    }
}

/// Puts a model together from tokens as Hugging Face writes them.
pub(super) fn from_written(
    what: &'static str,
    vocabulary: &HashMap<String, u32>,
    merges: &[[String; 2]],
    special_tokens: Vec<SpecialToken>,
    pattern: Pattern,
) -> Result<Model, ModelError> {
    let level = ByteLevel::default();
    let mut joins = Vec::with_capacity(merges.len());
    let mut in_text = std::collections::HashSet::new();
    for (rank, [left, right]) in merges.iter().enumerate() {
        let id = |token: &str| {
            let missing = || {
                malformed(
                    what,
                    format!(
                        "merge {} needs the token {token}, which is missing",
                        rank + 1
                    ),
                )
            };
            vocabulary.get(token).copied().ok_or_else(missing)
        };
        let join = Join {
            left: id(left)?,
            right: id(right)?,
            joined: id(&format!("{left}{right}"))?,
            rank: rank as u32,
        };
        if level.bytes_of(left).is_none() || level.bytes_of(right).is_none() {
            return Err(malformed(
                what,
                format!(
                    "merge {} is not written in the characters of bytes",
                    rank + 1
                ),
            ));
        }
        in_text.insert(join.joined);
        joins.push(join);
    }
    let specials: HashMap<&str, u32> = special_tokens
        .iter()
        .map(|special| (&*special.text, special.id))
        .collect();
    let written: Vec<(Box<[u8]>, u32)> = vocabulary
        .iter()
        .map(|(token, &id)| {
            let bytes = level.bytes_of(token);
            let special =
                specials.contains_key(&**token) && !in_text.contains(&id) && token.len() > 1;
            let bytes = bytes
                .filter(|_| !special)
                .unwrap_or_else(|| token.clone().into_bytes());
            (bytes.into_boxed_slice(), id)
        })
        .collect();
    let count = written.len();
    let tokens = tokens_by_id(what, written.into_iter())?;
    if tokens.iter().filter(|token| !token.is_empty()).count() < count {
        return Err(malformed(what, "one id is given to two tokens"));
    }
    Ok(Model {
        tokens,
        joins,
        special_tokens,
        pattern,
    })
}
