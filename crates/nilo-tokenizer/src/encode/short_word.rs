//! A short word where merges are in any order: the lowest rank is found by looking at all of them, which beats any structure while they fit a few cache lines.

use super::LONGEST_SHORT_WORD;
use super::joins::{APART, Joins};

pub(super) fn encode(joins: &Joins, byte_ids: &[u32; 256], word: &[u8], out: &mut Vec<u32>) {
    let mut ids = [0u32; LONGEST_SHORT_WORD];
    // What the pair that begins at a place joins to.
    let mut ranks = [APART; LONGEST_SHORT_WORD];
    let mut joined = [0u32; LONGEST_SHORT_WORD];
    let mut length = word.len();
    for (id, &byte) in ids.iter_mut().zip(word) {
        *id = byte_ids[usize::from(byte)];
    }
    for index in 1..length {
        let pair = joins.get(ids[index - 1], ids[index]);
        (ranks[index - 1], joined[index - 1]) = (pair.rank, pair.id);
    }
    while length > 1 {
        let mut lowest = 0;
        for index in 1..length - 1 {
            if ranks[index] < ranks[lowest] {
                lowest = index;
            }
        }
        if ranks[lowest] == APART {
            break;
        }
        ids[lowest] = joined[lowest];
        ids.copy_within(lowest + 2..length, lowest + 1);
        ranks.copy_within(lowest + 1..length, lowest);
        joined.copy_within(lowest + 1..length, lowest);
        length -= 1;
        if lowest + 1 < length {
            let pair = joins.get(ids[lowest], ids[lowest + 1]);
            (ranks[lowest], joined[lowest]) = (pair.rank, pair.id);
        }
        if lowest > 0 {
            let pair = joins.get(ids[lowest - 1], ids[lowest]);
            (ranks[lowest - 1], joined[lowest - 1]) = (pair.rank, pair.id);
        }
    }
    out.extend_from_slice(&ids[..length]);
}
