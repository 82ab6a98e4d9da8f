//! One word in time that grows with its length, however long it is and whatever it is made of.
//!
//! From the left, the longest token that fits the one before it is taken; where none fits, the last one was wrong, and
//! the next shorter is tried in its place. The tokens up to a place are those of the text up to there (see `lineage.rs`),
//! so a place that led nowhere leads nowhere for good: each place is come to once, and from each the tokens that begin
//! there are tried once. The work is at most the length of the word times that of the longest token.

use super::joins::Joins;
use super::lineage::Lineage;
use super::prefixes::{NONE, Prefixes};
use super::verdict_cache::VerdictCache;
use crate::model::Model;

/// What a model's merges come to.
#[derive(Debug)]
pub(super) struct LinearWords {
    lineage: Lineage,
    prefixes: Prefixes,
}

/// Room to work in, kept from word to word.
#[derive(Debug, Default)]
pub(super) struct LinearWordScratch {
    verdicts: VerdictCache,
    /// A bit for each place of the word that led nowhere; all are clear between words.
    dead: Vec<u64>,
    /// Tokens that were tried, and bytes that were looked at for them.
    #[cfg(test)]
    pub(super) steps: usize,
}

impl LinearWords {
    /// `None` where merges are not in the order that this way needs, or are too many.
    pub(super) fn new(model: &Model, joins: &Joins) -> Option<Self> {
        let lineage = Lineage::new(model, joins)?;
        let tokens = lineage
            .ids()
            .map(|id| Some((model.token(id)?, id)))
            .collect::<Option<Vec<_>>>()?;
        Some(Self {
            prefixes: Prefixes::new(tokens)?,
            lineage,
        })
    }

    /// Appends the ids of a word, of which every byte has a token.
    pub(super) fn encode(&self, word: &[u8], room: &mut LinearWordScratch, out: &mut Vec<u32>) {
        let first = out.len();
        let mut dead_ends = false;
        let mut place = 0;
        let mut last = NONE;
        while place < word.len() {
            let (mut token, mut length) = self.prefixes.longest(&word[place..]);
            #[cfg(test)]
            {
                room.steps += length;
            }
            while dead_ends && room.is_dead(place + length)
                || last != NONE && !self.stay_apart(last, token, room)
            {
                token = self.prefixes.shorter(token);
                while token == NONE {
                    // The word has tokens, so the first place leads somewhere, and there is a token to take back.
                    if !dead_ends {
                        dead_ends = true;
                        room.dead
                            .resize(room.dead.len().max(word.len() / 64 + 1), 0);
                    }
                    room.dead[place / 64] |= 1 << (place % 64);
                    place -= self.prefixes.length(last);
                    token = self.prefixes.shorter(last);
                    out.pop();
                    last = out[first..].last().copied().unwrap_or(NONE);
                }
                length = self.prefixes.length(token);
            }
            out.push(token);
            last = token;
            place += length;
        }
        if dead_ends {
            room.dead.truncate(KEPT_DEAD);
            let used = room.dead.len().min(word.len() / 64 + 1);
            room.dead[..used].fill(0);
        }
    }

    #[inline(always)]
    fn stay_apart(&self, left: u32, right: u32, room: &mut LinearWordScratch) -> bool {
        #[cfg(test)]
        {
            room.steps += 1;
        }
        room.verdicts
            .get(left, right, || self.lineage.stay_apart(left, right))
    }
}

/// Rooms larger than this, for words of four megabytes, are given back.
const KEPT_DEAD: usize = 1 << 16;

impl LinearWordScratch {
    #[inline(always)]
    fn is_dead(&self, place: usize) -> bool {
        self.dead[place / 64] >> (place % 64) & 1 != 0
    }
}
