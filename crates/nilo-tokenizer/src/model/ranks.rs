//! Ranks for tiktoken: a line for each token, its bytes in base64 and its id, which is the order of merges too.
//!
//! Ids are those of the other forms. Special tokens and the pattern, which tiktoken takes as arguments, go into a small JSON beside it.

use std::collections::{BTreeMap, HashMap};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::error::malformed;
use super::{Join, MOST_FILE_BYTES, Model, ModelError, SpecialToken, tokens_by_id};
use crate::Pattern;

const WHAT: &str = "the file of ranks";
/// Longer tokens are in no vocabulary; all their splits are looked at.
const LONGEST_TOKEN: usize = 4096;

/// What tiktoken takes besides the ranks: `tiktoken.Encoding(name, mergeable_ranks=…, **info)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanksInfo {
    /// The pattern as a regular expression.
    pub pat_str: String,
    /// Ids of the special tokens.
    pub special_tokens: BTreeMap<String, u32>,
    /// How many ids there are.
    pub explicit_n_vocab: usize,
}

impl Model {
    /// The ranks, and what tiktoken takes besides.
    pub fn to_ranks(&self) -> Result<(String, RanksInfo), ModelError> {
        let refuse = |reason: String| Err(ModelError::NoRanks { reason });
        let mut by_bytes: HashMap<&[u8], u32> = HashMap::new();
        let specials = self.special_ids();
        let mut lines = String::new();
        for (id, token) in self.tokens.iter().enumerate() {
            if token.is_empty() || specials.contains(&(id as u32)) {
                continue;
            }
            if by_bytes.insert(token, id as u32).is_some() {
                return refuse(format!(
                    "two ids have the text {:?}",
                    String::from_utf8_lossy(token)
                ));
            }
            STANDARD.encode_string(token, &mut lines);
            lines.push_str(&format!(" {id}\n"));
        }
        if let Some(byte) = (0..=255u8).find(|byte| !by_bytes.contains_key(&[*byte][..])) {
            return refuse(format!("byte {byte:#04x} has no token"));
        }
        let mut last = None;
        for join in &self.joins {
            if specials.contains(&join.joined) {
                let text = String::from_utf8_lossy(&self.tokens[join.joined as usize]);
                return refuse(format!("the special token {text:?} is a merge too"));
            }
            if last.is_some_and(|last| join.joined < last) {
                let text = String::from_utf8_lossy(&self.tokens[join.joined as usize]);
                return refuse(format!(
                    "ids are not in the order of merges, or two merges make {text:?}"
                ));
            }
            last = Some(join.joined);
        }
        Ok((lines, self.ranks_info()))
    }

    fn ranks_info(&self) -> RanksInfo {
        RanksInfo {
            pat_str: self.pattern.for_ranks(),
            special_tokens: self
                .special_tokens
                .iter()
                .map(|special| (special.text.clone(), special.id))
                .collect(),
            explicit_n_vocab: self.tokens.len(),
        }
    }

    /// Reads ranks. Every way to put a token together from two others is a merge, as in tiktoken.
    pub fn from_ranks(
        text: &[u8],
        specials: &BTreeMap<String, u32>,
        pattern: Pattern,
    ) -> Result<Self, ModelError> {
        if text.len() > MOST_FILE_BYTES {
            return Err(ModelError::TooLarge {
                what: WHAT,
                most: MOST_FILE_BYTES,
            });
        }
        let text = std::str::from_utf8(text).map_err(|error| malformed(WHAT, error.to_string()))?;
        let mut ids: HashMap<Box<[u8]>, u32> = HashMap::new();
        for (index, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.is_empty())
        {
            let parsed = line
                .split_once(' ')
                .and_then(|(token, rank)| Some((STANDARD.decode(token).ok()?, rank.parse().ok()?)));
            let Some((token, rank)) = parsed else {
                return Err(malformed(
                    WHAT,
                    format!("line {} is not a token and its rank", index + 1),
                ));
            };
            if token.len() > LONGEST_TOKEN {
                return Err(malformed(
                    WHAT,
                    format!(
                        "the token in line {} is longer than {LONGEST_TOKEN} bytes",
                        index + 1
                    ),
                ));
            }
            if ids.insert(token.into_boxed_slice(), rank).is_some() {
                return Err(malformed(
                    WHAT,
                    format!("the token in line {} came before", index + 1),
                ));
            }
        }
        let special_tokens: Vec<SpecialToken> = specials
            .iter()
            .map(|(text, &id)| SpecialToken {
                id,
                text: text.clone(),
            })
            .collect();
        let all: Vec<(Box<[u8]>, u32)> = ids
            .iter()
            .map(|(token, &id)| (token.clone(), id))
            .chain(
                special_tokens
                    .iter()
                    .map(|special| (special.text.as_bytes().into(), special.id)),
            )
            .collect();
        let tokens = tokens_by_id(WHAT, all.into_iter())?;
        if ids.len() + special_tokens.len()
            > tokens.iter().filter(|token| !token.is_empty()).count()
        {
            return Err(malformed(WHAT, "one id is given to two tokens"));
        }
        let mut joins = Vec::new();
        for (token, &joined) in &ids {
            for middle in 1..token.len() {
                if let (Some(&left), Some(&right)) =
                    (ids.get(&token[..middle]), ids.get(&token[middle..]))
                {
                    joins.push(Join {
                        left,
                        right,
                        joined,
                        rank: joined,
                    });
                }
            }
        }
        joins.sort_unstable_by_key(|join| (join.rank, join.left, join.right));
        Ok(Self {
            tokens,
            joins,
            special_tokens,
            pattern,
        })
    }
}
