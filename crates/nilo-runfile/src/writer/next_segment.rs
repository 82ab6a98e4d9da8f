//! From one segment to the next, also when the disk is nearly full.

use std::io;

use super::RunWriter;
use crate::header::HEADER_LEN;
use crate::names;
use crate::opening::open_segment;
use crate::segment::{MIN_SEGMENT_BYTES, RESERVED_BYTES, Segment};

/// A disk that has no room for a segment of this size is as good as full: earlier segments are compacted at once.
const LEAST_UNCOMPACTED_BYTES: u64 = 1 << 20;

/// A segment that could not be opened after the one before it became a block, or was deleted.
pub(super) struct DelayedSegment {
    pub(super) number: u32,
    pub(super) capacity: u64,
    pub(super) dropped_rows: u64,
}

impl RunWriter {
    /// Seals the segment and opens the next, smaller when the disk is nearly full. Compaction makes room first:
    /// it needs some itself, so it comes before the last of the disk is taken.
    pub(super) fn next_segment(&mut self, needed: usize) -> io::Result<()> {
        let Some(current) = &self.segment else {
            return self.open_awaited(needed);
        };
        let (number, capacity) = (current.number(), current.capacity());
        match self.open_next(number, capacity, needed, LEAST_UNCOMPACTED_BYTES) {
            Err(error) if is_full(&error) => {}
            outcome => {
                self.go_on_with(outcome?);
                return Ok(());
            }
        }
        self.housekeeper.compact_sealed();
        // Once for each segment: what did not help will not help a second later.
        if self.compacted_when_full.replace(number) != Some(number) {
            let path = names::segment_path(&self.folder, &self.name, number);
            if self.housekeeper.copy_to_block(number, &path) {
                return self.replace_by_block(number, capacity, needed);
            }
        }
        let next = self.open_next(number, capacity / 4, needed, 0)?;
        self.go_on_with(next);
        Ok(())
    }

    /// Deletes a full segment that is in a block, and opens the next in its space.
    pub(super) fn replace_by_block(
        &mut self,
        number: u32,
        capacity: u64,
        needed: usize,
    ) -> io::Result<()> {
        // The file gives its space back once nobody maps it.
        if let Some(full) = self.segment.take() {
            self.sealed_bytes += full.used();
            let path = full.seal();
            let _ = std::fs::remove_file(path);
        }
        self.housekeeper.forget_live();
        self.awaited = Some(DelayedSegment {
            number: number + 1,
            // Half as large as this one, so that there is room for its block.
            capacity: capacity / 4,
            dropped_rows: 0,
        });
        self.open_awaited(needed)
    }

    /// Opens the segment that there was no room for; it takes over the count of what was dropped meanwhile.
    pub(super) fn open_awaited(&mut self, needed: usize) -> io::Result<()> {
        let Some(awaited) = &self.awaited else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let (before, capacity, dropped_rows) =
            (awaited.number - 1, awaited.capacity, awaited.dropped_rows);
        let mut next = self.open_next(before, capacity, needed, 0)?;
        next.count_dropped_rows(dropped_rows);
        self.awaited = None;
        self.go_on_with(next);
        Ok(())
    }

    pub(super) fn go_on_with(&mut self, next: Segment) {
        self.housekeeper.set_live(next.file());
        if let Some(full) = self.segment.replace(next) {
            self.sealed_bytes += full.used();
            let number = full.number();
            self.housekeeper.sealed(number, full.seal());
        }
    }

    /// The segment after `number`, twice as large as `capacity` or smaller when the disk is nearly full, but not smaller than `least_wanted`.
    pub(super) fn open_next(
        &mut self,
        number: u32,
        capacity: u64,
        needed: usize,
        least_wanted: u64,
    ) -> io::Result<Segment> {
        let number = number + 1;
        let least = (needed + HEADER_LEN + RESERVED_BYTES) as u64;
        let wanted = capacity
            .saturating_mul(2)
            .min(self.options.max_segment_bytes);
        open_segment(
            &self.folder,
            &self.name,
            number,
            self.identity,
            wanted.max(least),
            least.max(MIN_SEGMENT_BYTES).max(least_wanted.min(wanted)),
            &mut self.mapped,
        )
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
