//! The last join of a token, in sixteen bytes: several are looked at for each token of a text.

use super::ranks::{ID_BITS, RANK_BITS};

/// The last join of a token.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastJoin {
    /// The rank plus one, which is 0 for a byte, then the right half, then the left.
    join: u64,
    /// A bit for each group of tokens that it may join on its right; the highest says that texts come to this token.
    partners: u64,
}

const KNOWN: u64 = 1 << 63;
const LEFT: u64 = (1 << ID_BITS) - 1;
const GROUPS: u64 = 63;

const _: () = assert!(2 * ID_BITS + RANK_BITS == 64);

impl LastJoin {
    pub(super) fn set_byte(&mut self) {
        self.partners |= KNOWN;
    }

    pub(super) fn set_join(&mut self, rank: u32, left: u32, right: u32) {
        self.join =
            u64::from(rank) << (2 * ID_BITS) | u64::from(right) << ID_BITS | u64::from(left);
        self.partners |= KNOWN;
    }

    pub(super) fn note_partner(&mut self, right: u32) {
        self.partners |= 1 << group(right);
    }

    pub(super) fn is_known(self) -> bool {
        self.partners & KNOWN != 0
    }

    /// Whether it is worth asking for the rank of this token and `right`: most pairs have none.
    #[inline(always)]
    pub(super) fn may_join(self, right: u32) -> bool {
        self.partners >> group(right) & 1 != 0
    }

    /// Its rank plus one; 0 for a byte.
    #[inline(always)]
    pub(super) fn rank(self) -> u32 {
        (self.join >> (2 * ID_BITS)) as u32
    }

    #[inline(always)]
    pub(super) fn left(self) -> u32 {
        (self.join & LEFT) as u32
    }

    #[inline(always)]
    pub(super) fn right(self) -> u32 {
        (self.join >> ID_BITS & LEFT) as u32
    }
}

/// One of 63 groups.
#[inline(always)]
fn group(id: u32) -> u64 {
    (u64::from(id.wrapping_mul(0x9E37_79B1)) * GROUPS) >> 32
}
