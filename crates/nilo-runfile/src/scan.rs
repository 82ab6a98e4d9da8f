//! Walking over the records of a file that may be growing, torn or damaged.
//!
//! Files are read with `pread` into a window, never mapped: a file cut short while it is read is then an early end and not a SIGBUS.
//! What is unreadable is stepped over until the next whole record with a right checksum; the work for that is bounded.
//! A file that is being written needs care: a read takes its pages one after the other, so it may miss a record
//! and see later ones. Before bytes are called unreadable they are read again, which shows what was written meanwhile.

use std::fs::File;
use std::io;

use crate::filesystem;
use crate::record::{HEAD_LEN, NextRecord, Record, read_front};

/// Small enough to stay in the processor's cache and in the allocator's hands from file to file.
const WINDOW_BYTES: usize = 64 << 10;
/// A run of zeros longer than every segment is the end, however large a hostile file claims to be.
const MAX_ZERO_RUN: u64 = 64 << 20;
/// Checksums tried while looking for the next record may cover this many bytes more than the file has, eight times over.
const RESYNC_BUDGET: u64 = 16 << 20;
/// Bytes that looked like the beginning of a record are read again at most so many times.
const MAX_SECOND_LOOKS: u32 = 64;

/// Bytes that can be read at an offset.
pub(crate) trait ReadAt {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        filesystem::read_at(self, buffer, offset)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.len());
        let count = buffer.len().min(self.len() - start);
        buffer[..count].copy_from_slice(&self[start..start + count]);
        Ok(count)
    }
}

/// What to do at bytes that are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtBadBytes {
    /// Stop: they may become one.
    Stop,
    /// Look for the next record at every fourth byte.
    Resync,
    /// Look at every byte: several processes append, and one may have been cut off.
    ResyncUnaligned,
}

/// How a walk ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ScanEnd {
    /// Where the last whole record ends.
    pub(crate) end: u64,
    /// Records seen.
    pub(crate) records: u64,
    /// Bytes after the end that are not zero: a record cut off in the middle.
    pub(crate) torn_tail_bytes: u64,
    /// Offset and length of what was stepped over.
    pub(crate) holes: Vec<(u64, u64)>,
    /// The rest was given up: finding records in it would take too long.
    pub(crate) gave_up: bool,
}

/// Calls `on_record` for each record from `start` on.
pub(crate) fn scan<S: ReadAt + ?Sized>(
    source: &S,
    start: u64,
    at_bad_bytes: AtBadBytes,
    mut on_record: impl FnMut(Record<'_>),
) -> io::Result<ScanEnd> {
    let mut window = ReadWindow::new(source, start);
    let mut outcome = ScanEnd {
        end: start,
        ..ScanEnd::default()
    };
    let stride = match at_bad_bytes {
        AtBadBytes::ResyncUnaligned => 1,
        _ => 4,
    };
    let mut spent = 0;
    let mut zero_run = 0;
    // One past the last byte known to be neither zero nor part of a record.
    let mut last_garbage = start;
    let mut gap = UnreadTail::none();
    loop {
        let begin = window.offset();
        if begin > outcome.end
            && matches!(read_front(window.rest()), NextRecord::Record(..))
            && gap.was_written_meanwhile(source)?
        {
            window = ReadWindow::new(source, outcome.end);
            last_garbage = outcome.end;
            continue;
        }
        let run = read_run(window.rest(), &mut on_record);
        if run.records > 0 {
            if begin > outcome.end {
                outcome.holes.push((outcome.end, begin - outcome.end));
            }
            window.advance(run.len);
            outcome.records += run.records;
            outcome.end = window.offset();
            zero_run = 0;
        }
        let cost = match run.stopped_by {
            Stop::NeedsBytes(count) => {
                if window.fill(count)? {
                    continue;
                }
                4
            }
            Stop::Bad { cost } => cost,
        };
        let rest = window.rest();
        if rest.is_empty() {
            break;
        }
        if at_bad_bytes == AtBadBytes::Stop {
            let garbage = last_nonzero(&rest[..HEAD_LEN.min(rest.len())]);
            last_garbage = window.offset() + garbage;
            break;
        }
        if window.offset() == outcome.end {
            gap.begin(outcome.end, rest);
        }
        let zeros = leading_zeros(rest, stride);
        if zeros > 0 {
            zero_run += zeros as u64;
            window.advance(zeros);
            if zero_run > MAX_ZERO_RUN {
                break;
            }
            continue;
        }
        zero_run = 0;
        spent += cost as u64;
        if spent > RESYNC_BUDGET + 8 * (window.offset() - start) {
            outcome.gave_up = true;
            break;
        }
        let step = stride.min(rest.len());
        last_garbage = window.offset() + last_nonzero(&rest[..step]);
        window.advance(step);
    }
    outcome.torn_tail_bytes = last_garbage.saturating_sub(outcome.end);
    Ok(outcome)
}

/// The bytes after the last record as they were first seen.
struct UnreadTail {
    offset: u64,
    /// The head of the record that may be there; short at the end of the file.
    seen: [u8; HEAD_LEN],
    seen_len: usize,
    was_looked_at: bool,
    looks_left: u32,
}

impl UnreadTail {
    fn none() -> UnreadTail {
        UnreadTail {
            offset: u64::MAX,
            seen: [0; HEAD_LEN],
            seen_len: 0,
            was_looked_at: true,
            looks_left: MAX_SECOND_LOOKS,
        }
    }

    fn begin(&mut self, offset: u64, bytes: &[u8]) {
        if self.offset == offset {
            return;
        }
        self.offset = offset;
        self.seen_len = bytes.len().min(HEAD_LEN);
        self.seen[..self.seen_len].copy_from_slice(&bytes[..self.seen_len]);
        self.was_looked_at = false;
    }

    /// Whether a record may have been written here since; asked when a later record was found.
    /// Records are written in order, so by then this one is whole, and one more look at it is enough.
    fn was_written_meanwhile<S: ReadAt + ?Sized>(&mut self, source: &S) -> io::Result<bool> {
        if std::mem::replace(&mut self.was_looked_at, true) {
            return Ok(false);
        }
        let mut now = [0; HEAD_LEN];
        let len = source.read_at(&mut now, self.offset)?;
        if now[..len] != self.seen[..self.seen_len] {
            return Ok(true);
        }
        // The head was there already: perhaps the body was not.
        if self.seen == [0; HEAD_LEN] || self.looks_left == 0 {
            return Ok(false);
        }
        self.looks_left -= 1;
        let mut fresh = ReadWindow::new(source, self.offset);
        loop {
            match read_front(fresh.rest()) {
                NextRecord::Record(..) => return Ok(true),
                NextRecord::Bad { .. } => return Ok(false),
                NextRecord::NeedsBytes(count) => {
                    if !fresh.fill(count)? {
                        return Ok(false);
                    }
                }
            }
        }
    }
}

/// Records one after the other, and what comes after them.
struct ContiguousRecords {
    records: u64,
    len: usize,
    stopped_by: Stop,
}

enum Stop {
    NeedsBytes(usize),
    Bad { cost: usize },
}

/// The inner loop: it touches nothing but the bytes and the caller's closure.
#[inline]
fn read_run(bytes: &[u8], on_record: &mut impl FnMut(Record<'_>)) -> ContiguousRecords {
    let (mut records, mut len) = (0, 0);
    let stopped_by = loop {
        match read_front(&bytes[len..]) {
            NextRecord::Record(record, record_len) => {
                on_record(record);
                records += 1;
                len += record_len;
            }
            NextRecord::NeedsBytes(count) => break Stop::NeedsBytes(count),
            NextRecord::Bad { cost } => break Stop::Bad { cost },
        }
    };
    ContiguousRecords {
        records,
        len,
        stopped_by,
    }
}

/// Length of the zero bytes at the front, a multiple of `stride`.
fn leading_zeros(bytes: &[u8], stride: usize) -> usize {
    let words = bytes.chunks_exact(64).take_while(|c| **c == [0; 64]);
    let coarse = words.count() * 64;
    let fine = bytes[coarse..]
        .chunks_exact(stride)
        .take_while(|chunk| chunk.iter().all(|byte| *byte == 0));
    coarse + fine.count() * stride
}

/// One past the last byte that is not zero.
fn last_nonzero(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at as u64 + 1)
}

/// A part of the source in memory.
struct ReadWindow<'a, S: ?Sized> {
    source: &'a S,
    buffer: Vec<u8>,
    /// Offset of the buffer's first byte.
    base: u64,
    filled: usize,
    position: usize,
    at_end: bool,
}

impl<'a, S: ReadAt + ?Sized> ReadWindow<'a, S> {
    fn new(source: &'a S, start: u64) -> ReadWindow<'a, S> {
        ReadWindow {
            source,
            buffer: Vec::new(),
            base: start,
            filled: 0,
            position: 0,
            at_end: false,
        }
    }

    #[inline]
    fn rest(&self) -> &[u8] {
        &self.buffer[self.position..self.filled]
    }

    fn offset(&self) -> u64 {
        self.base + self.position as u64
    }

    fn advance(&mut self, count: usize) {
        self.position += count;
    }

    /// Gets more bytes, so that `count` are at hand; `false` when the source has no more.
    fn fill(&mut self, count: usize) -> io::Result<bool> {
        if self.at_end {
            return Ok(false);
        }
        self.buffer.copy_within(self.position..self.filled, 0);
        self.base += self.position as u64;
        self.filled -= self.position;
        self.position = 0;
        // More than asked for, so that long candidates in garbage do not move the window at every step.
        let wanted = count + WINDOW_BYTES;
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let offset = self.base + self.filled as u64;
        let got = self
            .source
            .read_at(&mut self.buffer[self.filled..], offset)?;
        self.filled += got;
        // Short reads mean the end: `read_at` fills the buffer otherwise.
        self.at_end = self.filled < self.buffer.len();
        Ok(got > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{encode_event, encode_row_into};

    fn rows(count: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut record = Vec::new();
        for index in 0..count {
            encode_row_into(&mut record, 0, index, None, &[index as f64]);
            bytes.extend_from_slice(&record);
        }
        bytes
    }

    fn times(bytes: &[u8], at_bad_bytes: AtBadBytes) -> (Vec<u64>, ScanEnd) {
        let mut times = Vec::new();
        let end = scan(bytes, 0, at_bad_bytes, |record| {
            if let Record::Row(row) = record {
                times.push(row.time_nanos);
            }
        })
        .unwrap();
        (times, end)
    }

    #[test]
    fn everything_before_every_cut_is_read() {
        let whole = rows(5);
        for cut in 0..whole.len() {
            let (times, end) = times(&whole[..cut], AtBadBytes::Resync);
            assert_eq!(times.len(), cut / 28);
            assert_eq!(end.end as usize, cut / 28 * 28);
            assert!(end.holes.is_empty());
        }
    }

    #[test]
    fn a_damaged_record_costs_itself_and_nothing_else() {
        let mut bytes = rows(5);
        bytes[28 + 20] ^= 4;
        let (found, end) = times(&bytes, AtBadBytes::Resync);
        assert_eq!(found, [0, 2, 3, 4]);
        assert_eq!(end.holes, [(28, 28)]);
        let (found, _) = times(&bytes, AtBadBytes::Stop);
        assert_eq!(found, [0]);
    }

    #[test]
    fn records_larger_than_the_window_are_read() {
        let mut bytes = encode_event(1, &vec![b'x'; 900_000]).unwrap();
        bytes.extend(rows(2));
        let (found, end) = times(&bytes, AtBadBytes::Resync);
        assert_eq!(found, [0, 1]);
        assert_eq!(end.records, 3);
    }

    #[test]
    fn zeros_after_the_end_are_not_a_torn_tail() {
        let mut bytes = rows(2);
        bytes.extend([0; 4096]);
        assert_eq!(times(&bytes, AtBadBytes::Resync).1.torn_tail_bytes, 0);
        bytes[60] = 1;
        assert!(times(&bytes, AtBadBytes::Resync).1.torn_tail_bytes > 0);
    }

    #[test]
    fn looking_for_records_in_garbage_is_bounded() {
        // Every word claims an event of 1 MB, so each step would cost a checksum over that much.
        let word = (3u32 << 20 | 1_000_000).to_le_bytes();
        let bytes: Vec<u8> = word.iter().copied().cycle().take(4 << 20).collect();
        let (_, end) = times(&bytes, AtBadBytes::Resync);
        assert!(end.gave_up);
        assert!(end.torn_tail_bytes > 0);
    }

    #[test]
    fn appenders_that_lost_their_alignment_are_read() {
        let mut bytes = rows(1);
        bytes.extend([9, 9, 9]);
        bytes.extend(rows(2));
        assert_eq!(times(&bytes, AtBadBytes::ResyncUnaligned).0, [0, 0, 1]);
    }

    /// A file whose writer goes on between two reads: the first read of each byte shows `early`, later ones `late`.
    struct Growing {
        early: Vec<u8>,
        late: Vec<u8>,
        is_late: std::cell::Cell<bool>,
    }

    impl ReadAt for Growing {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let bytes = match self.is_late.replace(true) {
                true => &self.late,
                false => &self.early,
            };
            ReadAt::read_at(&bytes[..], buffer, offset)
        }
    }

    #[test]
    fn records_written_while_the_file_is_read_leave_no_hole() {
        let late = rows(9);
        // The read began before record 3 was there and came to records 5 to 8 after they were; once in zeros, once in a half-written record.
        for from in [3 * 28, 3 * 28 + 12] {
            let mut early = late.clone();
            early[from..5 * 28].fill(0);
            let source = Growing {
                early,
                late: late.clone(),
                is_late: std::cell::Cell::new(false),
            };
            let mut times = Vec::new();
            let end = scan(&source, 0, AtBadBytes::Resync, |record| {
                if let Record::Row(row) = record {
                    times.push(row.time_nanos);
                }
            })
            .unwrap();
            assert_eq!(times, [0, 1, 2, 3, 4, 5, 6, 7, 8], "from {from}");
            assert_eq!((end.holes, end.torn_tail_bytes), (vec![], 0));
        }
    }
}
