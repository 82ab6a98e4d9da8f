//! Where new segments lie. The driver decides that, and best fit breaks ties by address, so a faithful replay takes the recorded ones.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;

use super::totals::{DriverAction, DriverCall};

/// Recorded addresses of segments of the same size first, then made-up ones that only grow.
#[derive(Debug, Clone)]
pub struct SegmentAddresses {
    segments: HashMap<u64, VecDeque<u64>>,
    mappings: VecDeque<u64>,
    next: u64,
    /// Beginnings and ends of the segments there are, by free list: a damaged record must not make two of them overlap.
    live: BTreeMap<(usize, u64), u64>,
}

/// Made-up addresses begin above those that drivers hand out.
const FIRST_MADE_UP: u64 = 1 << 60;
/// Then they begin again: what was released is free.
const LAST_MADE_UP: u64 = 1 << 63;

impl Default for SegmentAddresses {
    fn default() -> Self {
        Self {
            segments: HashMap::new(),
            mappings: VecDeque::new(),
            next: FIRST_MADE_UP,
            live: BTreeMap::new(),
        }
    }
}

impl SegmentAddresses {
    /// The addresses that the driver gave in a record.
    pub fn recorded<'a>(calls: impl IntoIterator<Item = &'a DriverCall>) -> Self {
        let mut addresses = Self::default();
        for call in calls {
            match call.action {
                DriverAction::SegmentAlloc => addresses
                    .segments
                    .entry(call.size)
                    .or_default()
                    .push_back(call.address),
                DriverAction::SegmentMap => addresses.mappings.push_back(call.address),
                _ => {}
            }
        }
        addresses
    }

    /// The address of a new segment.
    pub(crate) fn segment(&mut self, list: usize, bytes: u64) -> u64 {
        let recorded = self.segments.get_mut(&bytes).and_then(VecDeque::pop_front);
        self.choose(list, recorded, bytes)
    }

    /// The address of a new expandable segment of so many virtual bytes: where pages are mapped next.
    pub(crate) fn expandable(&mut self, list: usize, virtual_bytes: u64) -> u64 {
        let recorded = self.mappings.front().copied();
        self.choose(list, recorded, virtual_bytes)
    }

    /// Pages were mapped into an expandable segment.
    pub(crate) fn mapped(&mut self) {
        self.mappings.pop_front();
    }

    /// A segment is there already.
    pub(crate) fn adopted(&mut self, list: usize, address: u64, bytes: u64) {
        self.live
            .insert((list, address), address.saturating_add(bytes));
    }

    /// A segment is no more.
    pub(crate) fn released(&mut self, list: usize, address: u64) {
        self.live.remove(&(list, address));
    }

    fn choose(&mut self, list: usize, recorded: Option<u64>, bytes: u64) -> u64 {
        let from_record = recorded.filter(|address| {
            address
                .checked_add(bytes)
                .is_some_and(|end| end <= FIRST_MADE_UP)
        });
        let mut address = from_record.filter(|address| self.is_vacant(list, *address, bytes));
        while address.is_none() {
            address = Some(self.next).filter(|address| self.is_vacant(list, *address, bytes));
            self.next += bytes.next_multiple_of(2 << 20) + (2 << 20);
            if self.next >= LAST_MADE_UP {
                self.next = FIRST_MADE_UP;
            }
        }
        let address = address.expect("the loop ends with one");
        self.live.insert((list, address), address + bytes);
        address
    }

    fn is_vacant(&self, list: usize, address: u64, bytes: u64) -> bool {
        let before = self
            .live
            .range((list, 0)..(list, address + bytes))
            .next_back();
        before.is_none_or(|(_, end)| *end <= address)
    }
}
