//! The rank of a pair, eight bytes each: looked up several times for every token.

use crate::model::Join;

/// Two tokens do not join.
pub(super) const NEVER: u32 = u32::MAX;

/// Ids and ranks that fit: a pair and its rank share 64 bits.
pub(super) const ID_BITS: u32 = 20;
pub(super) const RANK_BITS: u32 = 24;
const EMPTY: u64 = u64::MAX;

/// Ranks by open addressing; at most half full.
#[derive(Debug)]
pub(super) struct RankTable {
    entries: Box<[u64]>,
    shift: u32,
}

impl RankTable {
    /// `None` where ids or ranks are too high.
    pub(super) fn new(ids: usize, joins: &[Join]) -> Option<Self> {
        if ids > 1 << ID_BITS {
            return None;
        }
        let capacity = (joins.len() * 2 + 2).next_power_of_two();
        let mut table = Self {
            entries: vec![EMPTY; capacity].into_boxed_slice(),
            shift: 64 - capacity.trailing_zeros(),
        };
        for join in joins {
            if join.rank >= (1 << RANK_BITS) - 2 {
                return None;
            }
            let pair = pair_of(join.left, join.right);
            let index = table.index(pair);
            table.entries[index] = pair << RANK_BITS | u64::from(join.rank + 1);
        }
        Some(table)
    }

    /// Where a pair stands, or would.
    #[inline(always)]
    fn index(&self, pair: u64) -> usize {
        let mut index = (pair.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        while self.entries[index] >> RANK_BITS != pair && self.entries[index] != EMPTY {
            index = (index + 1) & (self.entries.len() - 1);
        }
        index
    }

    /// The rank of a pair plus one, or [`NEVER`].
    #[inline(always)]
    pub(super) fn get(&self, left: u32, right: u32) -> u32 {
        let entry = self.entries[self.index(pair_of(left, right))];
        if entry == EMPTY {
            NEVER
        } else {
            entry as u32 & ((1 << RANK_BITS) - 1)
        }
    }
}

#[inline(always)]
pub(super) fn pair_of(left: u32, right: u32) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right)
}
