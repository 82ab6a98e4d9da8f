//! One merge over a part of its places: the symbols are replaced, and what stood beside them is added up.
//!
//! Neighbours are added up in arrays with an element for each token, so that the table of pairs is asked once for each different neighbour and not once for each place.

use super::arena::Arena;
use super::pool::OccurrencePool;
use super::slot::SymbolSlot;

/// What one neighbour adds up to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Neighbour {
    pub(super) weight: u64,
    pub(super) places: u32,
    /// Where the next place of the pair with this neighbour goes in the pool.
    pub(super) cursor: u32,
}

/// Bytes of one token's elements.
pub(super) const NEIGHBOUR_BYTES: u64 = 2 * size_of::<Neighbour>() as u64;
/// The pair with this neighbour is not kept.
pub(super) const NOT_KEPT: u32 = u32::MAX;

/// All neighbours on one side.
pub(super) struct SideNeighbours {
    pub(super) by_id: Vec<Neighbour>,
    pub(super) touched: Vec<u32>,
}

impl SideNeighbours {
    #[inline(always)]
    fn add(&mut self, id: u32, weight: u64) {
        let neighbour = &mut self.by_id[id as usize];
        if neighbour.places == 0 {
            self.touched.push(id);
        }
        neighbour.weight += weight;
        neighbour.places += 1;
    }

    fn clear(&mut self) {
        for id in self.touched.drain(..) {
            self.by_id[id as usize] = Neighbour::default();
        }
    }
}

/// The neighbours that one thread met.
pub(super) struct Neighbours {
    pub(super) left: SideNeighbours,
    pub(super) right: SideNeighbours,
    /// Places where two merged tokens stand side by side.
    pub(super) adjacent: Neighbour,
}

/// The merge: what becomes what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Merging {
    pub(super) left: u32,
    pub(super) right: u32,
    pub(super) joined: u32,
    pub(super) left_length: u32,
    pub(super) length: u32,
}

impl Neighbours {
    pub(super) fn new(tokens: usize) -> Self {
        let side = || SideNeighbours {
            by_id: vec![Neighbour::default(); tokens],
            touched: Vec::new(),
        };
        Self {
            left: side(),
            right: side(),
            adjacent: Neighbour::default(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.left.clear();
        self.right.clear();
        self.adjacent = Neighbour::default();
    }

    /// Replaces at the places of a list, in ascending order, and keeps at the list's front those that were not out of date. Returns how many.
    pub(super) fn replace<S: SymbolSlot>(
        &mut self,
        arena: &Arena<S>,
        pool: &OccurrencePool,
        list: std::ops::Range<u32>,
        merging: Merging,
    ) -> u32 {
        let mut kept = list.start;
        for index in list.clone() {
            let place = pool.get(index);
            if self.replace_at(arena, place, merging) {
                pool.set(kept, place);
                kept += 1;
            }
        }
        kept - list.start
    }

    #[inline(always)]
    pub(super) fn replace_at<S: SymbolSlot>(
        &mut self,
        arena: &Arena<S>,
        place: u32,
        merging: Merging,
    ) -> bool {
        let slots = &*arena.slots;
        let first = place as usize;
        let second = first + merging.left_length as usize;
        if slots[first].get() != merging.left || slots[second].get() != merging.right {
            return false;
        }
        let end = first + merging.length as usize;
        let before = slots[first - 1].get();
        let behind = slots[end].get();
        slots[first].set(merging.joined);
        // A place in another list may still point here; it must not look alive.
        slots[second].set(S::DEAD);
        slots[end - 1].set(merging.joined);
        let weight = arena.weight(place);
        if before == merging.joined {
            self.adjacent.weight += weight;
            self.adjacent.places += 1;
        } else if before != S::SEPARATOR {
            self.left.add(before, weight);
        }
        if behind != S::SEPARATOR {
            self.right.add(behind, weight);
        }
        true
    }

    /// Notes the places of the pairs that the merge made, at the cursors.
    pub(super) fn note_places<S: SymbolSlot>(
        &mut self,
        arena: &Arena<S>,
        pool: &OccurrencePool,
        list: std::ops::Range<u32>,
        merging: Merging,
        lengths: &[u32],
    ) {
        let slots = &*arena.slots;
        for index in list {
            let place = pool.get(index);
            let before = slots[place as usize - 1].get();
            if before != S::SEPARATOR && before != merging.joined {
                note(
                    &mut self.left.by_id[before as usize].cursor,
                    pool,
                    place - lengths[before as usize],
                );
            }
            let behind = slots[(place + merging.length) as usize].get();
            if behind == merging.joined {
                note(&mut self.adjacent.cursor, pool, place);
            } else if behind != S::SEPARATOR {
                note(&mut self.right.by_id[behind as usize].cursor, pool, place);
            }
        }
    }
}

#[inline(always)]
fn note(cursor: &mut u32, pool: &OccurrencePool, place: u32) {
    if *cursor != NOT_KEPT {
        pool.set(*cursor, place);
        *cursor += 1;
    }
}
