//! How much memory merging gets, and how much time it will take.

use super::arena::{arena_bytes, slots_of};
use super::error::MergeError;
use super::options::MergeOptions;
use super::pair_table::ENTRY_BYTES;
use super::replace::NEIGHBOUR_BYTES;
use super::slot::Slot;
use super::words::Words;

/// Room for the index: what can be chosen freely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// Entries of the lists of places.
    pub(super) places: u64,
    /// Kept pairs.
    pub(super) pairs: u64,
}

/// What one kept pair takes: its entry, its candidate in the heap.
const PAIR_BYTES: u64 = ENTRY_BYTES + 16;

impl Room {
    pub(super) fn choose<S: Slot>(words: &Words, options: &MergeOptions) -> Result<Self, MergeError> {
        let slots = slots_of(words);
        let places = std::env::var("PLACES").map_or(1.0, |v| v.parse::<f64>().unwrap());
        let pairs = std::env::var("PAIRS").map_or(0.125, |v| v.parse::<f64>().unwrap());
        let _ = (options, arena_bytes::<S>(slots), PAIR_BYTES, NEIGHBOUR_BYTES);
        Ok(Self { places: ((slots as f64 * places) as u64).max(1024), pairs: ((slots as f64 * pairs) as u64).max(64) })
    }
}
