//! Places of pairs: one block of memory that lists are cut from in turn, and slid together when it is full.
//!
//! Its size is fixed beforehand, which makes the memory of merging a choice instead of an outcome.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::slot::SymbolSlot;

/// Lists of places.
pub(super) struct OccurrencePool {
    places: Box<[AtomicU32]>,
    used: usize,
    /// Entries of lists that are no longer needed.
    pub(super) garbage: usize,
}

impl OccurrencePool {
    pub(super) fn new(places: usize) -> Self {
        Self {
            places: AtomicU32::zeroed(places),
            used: 0,
            garbage: 0,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.places.len()
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn free(&self) -> usize {
        self.places.len() - self.used
    }

    /// Cuts off a list.
    pub(super) fn take(&mut self, places: u32) -> Option<u32> {
        if places as usize > self.free() {
            return None;
        }
        let start = self.used as u32;
        self.used += places as usize;
        Some(start)
    }

    /// Forgets all lists after this length.
    pub(super) fn truncate(&mut self, used: usize) {
        self.used = used;
        self.garbage = 0;
    }

    #[inline(always)]
    pub(super) fn get(&self, index: u32) -> u32 {
        self.places[index as usize].load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn set(&self, index: u32, place: u32) {
        self.places[index as usize].store(place, Relaxed);
    }
}
