//! The reserved address ranges: segments, and the mapped stretches of expandable segments, which grow and shrink.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::snapshot::TraceRow;

/// Memory taken from the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservedRange {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// The stream, by number.
    pub stream: u16,
    /// The memory pool, by number.
    pub pool: u16,
    /// Whether it serves requests of up to 1 MiB.
    pub is_small: bool,
    /// Whether it is a part of an expandable segment.
    pub is_expandable: bool,
}

/// Segments for small requests have 2 MiB, others more.
const SMALL_SEGMENT_BYTES: u64 = 2 << 20;
/// Pages of expandable segments for large requests.
const LARGE_PAGE_BYTES: u64 = 20 << 20;

impl ReservedRange {
    /// The range of a segment or mapping event.
    pub(crate) fn of_event(row: TraceRow, is_expandable: bool) -> Self {
        let is_small = if is_expandable {
            !row.size.is_multiple_of(LARGE_PAGE_BYTES)
        } else {
            row.size <= SMALL_SEGMENT_BYTES
        };
        Self {
            address: row.address,
            size: row.size,
            stream: row.stream,
            pool: row.pool,
            is_small,
            is_expandable,
        }
    }

    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }

    /// The whole pages in a part of it, which could be unmapped; empty unless it is expandable.
    pub(crate) fn whole_pages(&self, start: u64, end: u64) -> Range<u64> {
        let page = match (self.is_expandable, self.is_small) {
            (false, _) => return start..start,
            (true, true) => SMALL_SEGMENT_BYTES,
            (true, false) => LARGE_PAGE_BYTES,
        };
        let first = (start - self.address).next_multiple_of(page);
        let last = end.saturating_sub(self.address) / page * page;
        match first < last {
            true => self.address + first..self.address + last,
            false => start..start,
        }
    }
}

/// The ranges of a device by address; they do not overlap.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReservedRanges {
    ranges: BTreeMap<u64, ReservedRange>,
    total: u64,
}

impl ReservedRanges {
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ReservedRange> + '_ {
        self.ranges.values()
    }

    pub(crate) fn containing(&self, address: u64) -> Option<&ReservedRange> {
        let (_, range) = self.ranges.range(..=address).next_back()?;
        Some(range).filter(|range| address < range.end())
    }

    /// Adds a range; what another one covers already is left out. Mapped stretches that touch become one.
    pub(crate) fn insert(&mut self, mut range: ReservedRange) {
        self.remove(range.address, range.size);
        let end = range.end();
        range.size = end - range.address;
        self.total = self.total.saturating_add(range.size);
        if range.is_expandable {
            let before = self
                .ranges
                .range(..range.address)
                .next_back()
                .map(|(_, before)| *before);
            if let Some(before) =
                before.filter(|before| before.end() == range.address && joins(before, &range))
            {
                range = ReservedRange {
                    size: before.size + range.size,
                    ..before
                };
            }
            let after = self.ranges.get(&end).copied();
            if let Some(after) = after.filter(|after| joins(&range, after)) {
                self.ranges.remove(&after.address);
                range.size += after.size;
            }
        }
        if range.size > 0 {
            self.ranges.insert(range.address, range);
        }
    }

    /// Removes addresses, and cuts the ranges that reach into them.
    pub(crate) fn remove(&mut self, address: u64, size: u64) {
        let end = address.saturating_add(size);
        if end == address {
            return;
        }
        let first = self
            .containing(address)
            .map_or(address, |range| range.address);
        let touched: Vec<u64> = self
            .ranges
            .range(first..end)
            .map(|(start, _)| *start)
            .collect();
        for start in touched {
            let Some(range) = self.ranges.remove(&start) else {
                continue;
            };
            self.total -= range.size;
            if range.address < address {
                self.put(ReservedRange {
                    size: address - range.address,
                    ..range
                });
            }
            if range.end() > end {
                self.put(ReservedRange {
                    address: end,
                    size: range.end() - end,
                    ..range
                });
            }
        }
    }

    fn put(&mut self, range: ReservedRange) {
        self.total += range.size;
        self.ranges.insert(range.address, range);
    }
}

fn joins(left: &ReservedRange, right: &ReservedRange) -> bool {
    left.is_expandable
        && right.is_expandable
        && (left.stream, left.pool) == (right.stream, right.pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(address: u64, size: u64) -> ReservedRange {
        ReservedRange {
            address,
            size,
            stream: 0,
            pool: 0,
            is_small: false,
            is_expandable: true,
        }
    }

    #[test]
    fn mapped_stretches_grow_together_and_are_cut() {
        let mut ranges = ReservedRanges::default();
        ranges.insert(range(100, 50));
        ranges.insert(range(200, 50));
        ranges.insert(range(150, 50));
        assert_eq!(
            ranges
                .iter()
                .map(|range| (range.address, range.size))
                .collect::<Vec<_>>(),
            [(100, 150)]
        );
        ranges.remove(120, 30);
        assert_eq!(
            ranges
                .iter()
                .map(|range| (range.address, range.size))
                .collect::<Vec<_>>(),
            [(100, 20), (150, 100)]
        );
        assert_eq!(ranges.total_bytes(), 120);
        assert!(ranges.containing(130).is_none() && ranges.containing(150).is_some());
    }
}
