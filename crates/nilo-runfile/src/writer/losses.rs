//! What a writer could not store: counted in memory and in the segment's header, and told in the stream once there is room again.

use std::io;

use nilo_sample::Event;

use super::{RunWriter, SegmentSpace};
use crate::clock;
use crate::record;

/// How long a full disk is left alone before the next try.
const RETRY_NANOS: u64 = 1_000_000_000;
/// Why rows are lost once the run's folder is gone.
const FOLDER_DELETED: &str = "the folder of the run was deleted";

/// Why there is no room for a record.
pub(super) enum NoRoom {
    /// Records are being lost, and it is too early to try again.
    AsBefore,
    /// This process is a fork of the one that opened the writer.
    IsFork,
    Failed(io::Error),
}

impl RunWriter {
    /// Rows and events that could not be stored.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether the last row or event was dropped.
    #[inline]
    pub fn is_losing(&self) -> bool {
        self.unreported > 0
    }

    /// Why the last of them could not be stored.
    pub fn dropped_reason(&self) -> Option<&str> {
        self.dropped_reason.as_deref()
    }

    /// Whether rows are lost because the run's folder is gone: nothing of the stream can be read any more.
    pub fn has_lost_its_folder(&self) -> bool {
        self.dropped_reason.as_deref() == Some(FOLDER_DELETED)
    }

    /// Writes the `Lost` event for what was dropped.
    pub(super) fn report_losses(&mut self, time_nanos: u64, allowed: SegmentSpace) -> bool {
        let event = Event::Lost {
            rows: self.unreported,
            reason: self.dropped_reason.clone().unwrap_or_default(),
        };
        let record = serde_json::to_vec(&event)
            .ok()
            .and_then(|json| record::encode_event(time_nanos, &json));
        let Some(record) = record else {
            return false;
        };
        match self.store(&record, allowed) {
            Ok(()) => {
                self.unreported = 0;
                true
            }
            Err(error) => {
                self.note_failure(&error);
                false
            }
        }
    }

    pub(super) fn note_deleted_folder(&mut self) {
        self.retry_at_nanos = clock::monotonic_nanos().saturating_add(RETRY_NANOS);
        self.dropped_reason = Some(FOLDER_DELETED.to_owned());
    }

    pub(super) fn note_failure(&mut self, error: &io::Error) {
        self.retry_at_nanos = clock::monotonic_nanos().saturating_add(RETRY_NANOS);
        self.dropped_reason = Some(match error.kind() {
            io::ErrorKind::StorageFull => "disk full".to_owned(),
            io::ErrorKind::QuotaExceeded => "disk quota exceeded".to_owned(),
            // Looked at here, when a new file could not be made, and at no row.
            io::ErrorKind::NotFound if !self.folder.exists() => FOLDER_DELETED.to_owned(),
            _ => error.to_string(),
        });
    }

    #[cold]
    pub(super) fn fail(&mut self, error: &io::Error) -> bool {
        self.note_failure(error);
        self.drop_row_again()
    }

    #[cold]
    pub(super) fn drop_row(&mut self, reason: &str) -> bool {
        if self.dropped_reason.as_deref() != Some(reason) {
            self.dropped_reason = Some(reason.to_owned());
        }
        self.drop_row_again()
    }

    /// Counts one more row dropped for the reason already known.
    pub(super) fn drop_row_again(&mut self) -> bool {
        self.dropped += 1;
        // A forked child must not touch the parent's files, not even the counter.
        if self.generation.is_current() {
            self.unreported += 1;
            match (&mut self.segment, &mut self.awaited) {
                (Some(segment), _) => segment.count_dropped_rows(1),
                (None, Some(awaited)) => awaited.dropped_rows += 1,
                (None, None) => {}
            }
        }
        false
    }
}
