//! A run whose folder is deleted while it is written: rows find room in a file that has no name any more, and nobody will read them.

use super::RunWriter;
use super::next_segment::DelayedSegment;

/// How often a writer looks whether its file still has a name.
pub(super) const LOOK_NANOS: u64 = 1_000_000_000;

/// Up to where a stream was when its folder was there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FolderLook {
    segment: u32,
    used: u64,
}

impl RunWriter {
    /// Counts what was written since the folder was last seen, if it is gone. Rows are dropped from there on, unless the folder comes back.
    pub fn look_for_folder(&mut self) {
        let Some(segment) = &self.segment else {
            return;
        };
        // A folder that was moved is elsewhere, with all its files.
        let is_deleted = segment.has_no_name() && !self.folder.exists();
        if !is_deleted {
            self.last_look = FolderLook {
                segment: segment.number(),
                used: segment.used(),
            };
            return;
        }
        // A segment that was opened since then shows that the folder was there.
        let seen = match self.last_look.segment == segment.number() {
            true => self.last_look.used,
            false => 0,
        };
        let rows = segment.rows_since(seen);
        self.awaited = Some(DelayedSegment {
            number: segment.number() + 1,
            capacity: segment.capacity() / 2,
            dropped_rows: rows,
        });
        self.sealed_bytes += segment.used();
        self.housekeeper.forget_live();
        drop(self.segment.take());
        self.dropped += rows;
        self.unreported += rows;
        self.lost_with_folder += rows;
        self.note_deleted_folder();
    }

    /// Rows that were stored, and then lost with the folder: told once.
    pub fn take_lost_with_folder(&mut self) -> u64 {
        std::mem::take(&mut self.lost_with_folder)
    }
}
