//! Which neighbours stay apart, as far as asked lately: the few that occur all the time are asked once.

use super::ranks::{ID_BITS, pair_of};

const SLOT_BITS: u32 = 16;
const PAIR_BITS: u32 = 2 * ID_BITS;
/// What the slot does not say of a pair; the verdict goes below it.
const TAG_BITS: u32 = PAIR_BITS - SLOT_BITS;

/// A quarter of a megabyte; a pair takes the slot that it falls to, whoever had it. A slot holds tag and verdict plus one.
#[derive(Debug)]
pub(super) struct VerdictCache(Box<[u32]>);

impl Default for VerdictCache {
    fn default() -> Self {
        Self(vec![0; 1 << SLOT_BITS].into_boxed_slice())
    }
}

impl VerdictCache {
    /// The verdict on two ids; `find` is asked where it is not known.
    #[inline(always)]
    pub(super) fn get(&mut self, left: u32, right: u32, find: impl FnOnce() -> bool) -> bool {
        // An odd factor loses nothing, so slot and tag together tell pairs apart.
        let mixed = pair_of(left, right).wrapping_mul(0x9E_3779_B97F) & ((1 << PAIR_BITS) - 1);
        let slot = &mut self.0[(mixed >> TAG_BITS) as usize];
        let tag = (mixed & ((1 << TAG_BITS) - 1)) as u32;
        let known = slot.wrapping_sub(1);
        if known >> 1 == tag {
            return known & 1 != 0;
        }
        let verdict = find();
        *slot = (tag << 1 | u32::from(verdict)) + 1;
        verdict
    }
}
