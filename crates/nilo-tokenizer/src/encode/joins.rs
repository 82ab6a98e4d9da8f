//! Which two ids join to which, and in what order: looked up for every pair of neighbours.

use crate::model::Join;

/// What a pair joins to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joined {
    pub(super) rank: u32,
    pub(super) id: u32,
}

/// Two ids do not join.
pub(super) const APART: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct JoinEntry {
    pair: u64,
    joined: Joined,
}

const EMPTY: JoinEntry = JoinEntry {
    pair: u64::MAX,
    joined: Joined { rank: APART, id: 0 },
};

/// Pairs that join, by open addressing; at most half full.
#[derive(Debug)]
pub(super) struct Joins {
    entries: Box<[JoinEntry]>,
    shift: u32,
}

impl Joins {
    pub(super) fn new(joins: &[Join]) -> Self {
        let capacity = (joins.len() * 2 + 2).next_power_of_two();
        let mut table = Self {
            entries: vec![EMPTY; capacity].into_boxed_slice(),
            shift: 64 - capacity.trailing_zeros(),
        };
        for join in joins {
            let pair = pair_of(join.left, join.right);
            let index = table.index(pair);
            let entry = &mut table.entries[index];
            // Of two merges of one pair the last has its rank, as in Hugging Face.
            *entry = JoinEntry {
                pair,
                joined: Joined {
                    rank: join.rank,
                    id: join.joined,
                },
            };
        }
        table
    }

    /// Where a pair stands, or would.
    #[inline(always)]
    fn index(&self, pair: u64) -> usize {
        let mixed = (pair ^ pair >> 25).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut index = (mixed >> self.shift) as usize;
        while self.entries[index].pair != pair && self.entries[index].pair != u64::MAX {
            index = (index + 1) & (self.entries.len() - 1);
        }
        index
    }

    /// What a pair joins to; its rank is [`APART`] if to nothing.
    #[inline(always)]
    pub(super) fn get(&self, left: u32, right: u32) -> Joined {
        self.entries[self.index(pair_of(left, right))].joined
    }
}

#[inline(always)]
fn pair_of(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}
