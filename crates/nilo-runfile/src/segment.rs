//! The segment being written: a preallocated mapping, or a file that grows by `write(2)`.
//!
//! Appending to a mapping is a copy, a checksum and one release store; nothing can fail, because the blocks were reserved before.
//! Appending by `write(2)` is one call for each record and may fail, in which case the record was not written.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapMut, MmapOptions};

use crate::checksum::crc32c_of_row;
use crate::clock;
use crate::filesystem;
use crate::header::{CLOSED_LEN_AT, CLOSED_NANOS_AT, DROPPED_ROWS_AT, HEADER_LEN, SegmentHeader};
use crate::record::{self, CommitWord, HEAD_LEN, RowFields};

/// The most that one segment may take.
pub const MAX_SEGMENT_BYTES: u64 = 16 << 20;
/// The least that is worth a file of its own; a full disk is probed down to this size.
pub(crate) const MIN_SEGMENT_BYTES: u64 = 16 << 10;

/// Kept free in every segment for the last events of the stream: what was lost, and how it ended.
/// On a full disk there is no other place for them. The two take about 300 bytes.
pub(crate) const RESERVED_BYTES: usize = 512;

enum Backing {
    Mapped(MmapMut),
    Written { scratch: Vec<u8> },
}

/// A segment that takes records.
pub(crate) struct Segment {
    file: Arc<File>,
    path: PathBuf,
    number: u32,
    used: usize,
    capacity: usize,
    dropped_rows: u64,
    backing: Backing,
}

impl Segment {
    /// Creates the file; on failure nothing is left behind.
    pub(crate) fn create(
        path: &Path,
        header: &SegmentHeader,
        capacity: u64,
        mapped: bool,
    ) -> io::Result<Segment> {
        let file = filesystem::create_new(path)?;
        let capacity = capacity.next_multiple_of(4096).max(4096);
        let backing = Segment::prepare(&file, header, capacity, mapped);
        match backing {
            Ok(backing) => Ok(Segment {
                file: Arc::new(file),
                path: path.to_owned(),
                number: header.segment,
                used: HEADER_LEN,
                capacity: capacity as usize,
                dropped_rows: 0,
                backing,
            }),
            Err(error) => {
                drop(file);
                let _ = std::fs::remove_file(path);
                Err(error)
            }
        }
    }

    fn prepare(
        file: &File,
        header: &SegmentHeader,
        capacity: u64,
        mapped: bool,
    ) -> io::Result<Backing> {
        if mapped {
            filesystem::reserve(file, capacity)?;
        }
        // Not through the mapping: a copy that a kill interrupts would leave half a header.
        file.write_all_at(&header.encode(), 0)?;
        if !mapped {
            return Ok(Backing::Written {
                scratch: Vec::new(),
            });
        }
        // SAFETY: the file is new, its name is ours, and only this process writes to it.
        // Its blocks are reserved, and nobody shortens it before the mapping is gone (see `seal`).
        let map = unsafe { MmapOptions::new().len(capacity as usize).map_mut(file)? };
        Ok(Backing::Mapped(map))
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity as u64
    }

    pub(crate) fn used(&self) -> u64 {
        self.used as u64
    }

    /// Bytes that still fit, without those that are reserved.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.used + RESERVED_BYTES)
    }

    /// Bytes that still fit, for the last events of the stream.
    pub(crate) fn last_room(&self) -> usize {
        self.capacity.saturating_sub(self.used)
    }

    /// Appends a row; the caller has checked [`Segment::room`].
    #[inline]
    pub(crate) fn append_row(
        &mut self,
        table: u32,
        time_nanos: u64,
        step: Option<i64>,
        values: &[f64],
    ) -> io::Result<()> {
        let word = CommitWord::row(values.len(), step.is_some());
        let len = word.record_len();
        match &mut self.backing {
            Backing::Mapped(map) => {
                let slot = &mut map[self.used..self.used + len];
                let row = RowFields {
                    table,
                    time_nanos,
                    step,
                    values,
                };
                record::fill_row(&mut slot[HEAD_LEN..], &row);
                let crc = crc32c_of_row(word.0, &row, &slot[HEAD_LEN..]);
                slot[4..8].copy_from_slice(&crc.to_le_bytes());
                commit(slot, word);
            }
            Backing::Written { scratch } => {
                record::encode_row_into(scratch, table, time_nanos, step, values);
                self.file.write_all_at(scratch, self.used as u64)?;
            }
        }
        self.used += len;
        Ok(())
    }

    /// Appends a whole encoded record; the caller has checked [`Segment::room`].
    pub(crate) fn append_record(&mut self, record: &[u8]) -> io::Result<()> {
        match &mut self.backing {
            Backing::Mapped(map) => {
                let slot = &mut map[self.used..self.used + record.len()];
                slot[4..].copy_from_slice(&record[4..]);
                commit(slot, CommitWord(crate::header::u32_at(record, 0)));
            }
            Backing::Written { .. } => self.file.write_all_at(record, self.used as u64)?,
        }
        self.used += record.len();
        Ok(())
    }

    /// Appends several encoded records; the caller has checked [`Segment::room`] for all.
    pub(crate) fn append_records(&mut self, records: &[u8]) -> io::Result<()> {
        let mut rest = records;
        while !rest.is_empty() {
            let len = CommitWord(crate::header::u32_at(rest, 0)).record_len();
            let (record, after) = rest.split_at(len);
            self.append_record(record)?;
            rest = after;
        }
        Ok(())
    }

    /// Counts rows that could not be stored, in the header: that needs no space.
    pub(crate) fn count_dropped_rows(&mut self, rows: u64) {
        self.dropped_rows += rows;
        // When even this fails, the count lives on in memory and in the next `Lost` event.
        let _ = self.set_in_header(DROPPED_ROWS_AT, self.dropped_rows);
    }

    /// Whether the file was deleted: what is written to it is gone with its last handle.
    pub(crate) fn has_no_name(&self) -> bool {
        self.file.metadata().is_ok_and(|told| told.nlink() == 0)
    }

    /// How many rows were appended since so many bytes were used.
    pub(crate) fn rows_since(&self, used: u64) -> u64 {
        let from = used.max(HEADER_LEN as u64);
        let mut records = vec![0; (self.used as u64).saturating_sub(from) as usize];
        if self.file.read_exact_at(&mut records, from).is_err() {
            return 0;
        }
        let mut rest = records.as_slice();
        let mut rows = 0;
        while rest.len() >= HEAD_LEN {
            let word = CommitWord(crate::header::u32_at(rest, 0));
            rows += u64::from(word.is_row());
            rest = rest.get(word.record_len()..).unwrap_or_default();
        }
        rows
    }

    /// Sets a number of the header that is outside of its checksum.
    fn set_in_header(&mut self, at: usize, number: u64) -> io::Result<()> {
        match &mut self.backing {
            Backing::Mapped(map) => {
                let cell = &mut map[at..at + 8];
                // SAFETY: the mapping is page-aligned and the offset a multiple of eight, within the header.
                let cell = unsafe { AtomicU64::from_ptr(cell.as_mut_ptr().cast()) };
                cell.store(number.to_le(), Ordering::Release);
                Ok(())
            }
            Backing::Written { .. } => self.file.write_all_at(&number.to_le_bytes(), at as u64),
        }
    }

    /// Cuts off what a failed `write(2)` may have left after the last whole record.
    pub(crate) fn trim_failed_write(&mut self) {
        if matches!(self.backing, Backing::Written { .. }) {
            let _ = self.file.set_len(self.used as u64);
        }
    }

    /// Ends the segment: says how long it is and when that was, unmaps it, then cuts the file to what was used.
    pub(crate) fn seal(mut self) -> PathBuf {
        // Without it nobody can tell later whether the end is there, which hurts nothing now.
        let _ = self.set_in_header(CLOSED_LEN_AT, self.used as u64);
        let _ = self.set_in_header(CLOSED_NANOS_AT, clock::monotonic_nanos());
        let Segment {
            file,
            path,
            used,
            backing,
            ..
        } = self;
        // The order matters: a store to a mapping beyond the file's end would be a SIGBUS.
        drop(backing);
        let _ = file.set_len(used as u64);
        path
    }
}

/// Stores the commit word, after which the record exists.
#[inline]
fn commit(slot: &mut [u8], word: CommitWord) {
    debug_assert_eq!(slot.as_ptr() as usize % 4, 0);
    // SAFETY: records start at multiples of four in a page-aligned mapping, and `slot` holds at least the head.
    // Other processes only read these bytes.
    let cell = unsafe { AtomicU32::from_ptr(slot.as_mut_ptr().cast()) };
    cell.store(word.0.to_le(), Ordering::Release);
}
