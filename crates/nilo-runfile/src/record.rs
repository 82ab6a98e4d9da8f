//! Records: what a segment is made of after its header.
//!
//! A record is a commit word, a checksum and a body, padded to four bytes.
//! The commit word says kind, flags and body length; it is never zero, and it is stored last, so that an unfinished record reads as the end.
//! The checksum is the CRC32C of the body with the commit word as its starting value, which covers both.

use crate::checksum;
use crate::header::{u32_at, u64_at};
use crate::stack_record;

/// Commit word and checksum.
pub(crate) const HEAD_LEN: usize = 8;
/// The longest body.
pub const MAX_BODY_LEN: usize = (1 << 20) - 1;
/// Flag of a row that has a step.
const FLAG_STEP: u8 = 1;

const KIND_ROW: u8 = 1;
const KIND_TABLE: u8 = 2;
const KIND_EVENT: u8 = 3;
pub(crate) const KIND_STACK: u8 = 4;

/// Kind, flags and body length in 32 bits: length in bits 0–19, kind in 20–27, flags in 28–31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommitWord(pub(crate) u32);

impl CommitWord {
    const fn new(kind: u8, flags: u8, body_len: usize) -> CommitWord {
        CommitWord((flags as u32) << 28 | (kind as u32) << 20 | body_len as u32)
    }

    pub(crate) fn row(columns: usize, has_step: bool) -> CommitWord {
        let flags = if has_step { FLAG_STEP } else { 0 };
        CommitWord::new(KIND_ROW, flags, row_body_len(columns, has_step))
    }

    pub(crate) fn is_row(self) -> bool {
        self.kind() == KIND_ROW
    }

    fn kind(self) -> u8 {
        (self.0 >> 20) as u8
    }

    fn flags(self) -> u8 {
        (self.0 >> 28) as u8
    }

    pub(crate) fn body_len(self) -> usize {
        (self.0 & 0xf_ffff) as usize
    }

    /// Bytes that the whole record takes.
    pub(crate) fn record_len(self) -> usize {
        HEAD_LEN + self.body_len().next_multiple_of(4)
    }

    /// Whether the length is possible for the kind: a cheap sieve before the checksum when looking for the next record in garbage.
    #[inline]
    fn is_plausible(self) -> bool {
        let len = self.body_len();
        if self.kind() == KIND_ROW {
            let fixed = row_body_len(0, self.flags() & FLAG_STEP != 0);
            return len >= fixed && (len - fixed).is_multiple_of(8);
        }
        match self.kind() {
            0 => false,
            KIND_TABLE => len > 4,
            KIND_EVENT => len > 8,
            KIND_STACK => len >= stack_record::FIXED_LEN,
            _ => true,
        }
    }
}

/// The checksum of a record.
#[inline]
pub(crate) fn checksum_of(word: CommitWord, body: &[u8]) -> u32 {
    checksum::crc32c_from(word.0, body)
}

/// Body length of a row.
pub(crate) const fn row_body_len(columns: usize, has_step: bool) -> usize {
    12 + if has_step { 8 } else { 0 } + 8 * columns
}

/// What a row is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowFields<'a> {
    pub(crate) table: u32,
    pub(crate) time_nanos: u64,
    pub(crate) step: Option<i64>,
    pub(crate) values: &'a [f64],
}

/// Fills the body of a row; `body` is exactly [`row_body_len`] long.
#[inline]
pub(crate) fn fill_row(body: &mut [u8], row: &RowFields<'_>) {
    body[0..4].copy_from_slice(&row.table.to_le_bytes());
    body[4..12].copy_from_slice(&row.time_nanos.to_le_bytes());
    let cells = match row.step {
        Some(step) => {
            body[12..20].copy_from_slice(&step.to_le_bytes());
            &mut body[20..]
        }
        None => &mut body[12..],
    };
    for (cell, value) in cells.chunks_exact_mut(8).zip(row.values) {
        cell.copy_from_slice(&value.to_le_bytes());
    }
}

/// A whole record that declares a table; `None` when the declaration is too long.
pub(crate) fn encode_table(table: u32, spec_json: &[u8]) -> Option<Vec<u8>> {
    encode(KIND_TABLE, &[&table.to_le_bytes(), spec_json])
}

/// A whole record that tells of an event; `None` when it is too long.
pub(crate) fn encode_event(time_nanos: u64, event_json: &[u8]) -> Option<Vec<u8>> {
    encode(KIND_EVENT, &[&time_nanos.to_le_bytes(), event_json])
}

/// Gives an encoded event another time. Allocates nothing: it serves a signal handler.
pub(crate) fn set_event_time(record: &mut [u8], time_nanos: u64) {
    let word = CommitWord(u32_at(record, 0));
    let body = &mut record[HEAD_LEN..HEAD_LEN + word.body_len()];
    body[..8].copy_from_slice(&time_nanos.to_le_bytes());
    let crc = checksum_of(word, body);
    record[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// A whole record of several parts; `None` when it is too long.
pub(crate) fn encode(kind: u8, parts: &[&[u8]]) -> Option<Vec<u8>> {
    let body_len: usize = parts.iter().map(|part| part.len()).sum();
    if body_len > MAX_BODY_LEN {
        return None;
    }
    let word = CommitWord::new(kind, 0, body_len);
    let mut record = vec![0; HEAD_LEN];
    record.reserve(word.record_len());
    for part in parts {
        record.extend_from_slice(part);
    }
    let crc = checksum_of(word, &record[HEAD_LEN..]);
    record[0..4].copy_from_slice(&word.0.to_le_bytes());
    record[4..8].copy_from_slice(&crc.to_le_bytes());
    record.resize(word.record_len(), 0);
    Some(record)
}

/// A whole row record, for writers that hand bytes to `write(2)`.
pub(crate) fn encode_row_into(
    record: &mut Vec<u8>,
    table: u32,
    time_nanos: u64,
    step: Option<i64>,
    values: &[f64],
) {
    let word = CommitWord::row(values.len(), step.is_some());
    record.clear();
    record.resize(word.record_len(), 0);
    let (head, body) = record.split_at_mut(HEAD_LEN);
    let row = RowFields {
        table,
        time_nanos,
        step,
        values,
    };
    fill_row(body, &row);
    head[0..4].copy_from_slice(&word.0.to_le_bytes());
    head[4..8].copy_from_slice(&checksum_of(word, body).to_le_bytes());
}

/// A record, read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Record<'a> {
    Row(RowView<'a>),
    Table {
        table: u32,
        spec_json: &'a [u8],
    },
    Event {
        time_nanos: u64,
        event_json: &'a [u8],
    },
    /// The declaration of a stack, for [`crate::stack_record`].
    Stack(&'a [u8]),
    /// A kind that a later version knows.
    Other,
}

/// A row's bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RowView<'a> {
    pub(crate) table: u32,
    pub(crate) time_nanos: u64,
    pub(crate) step: Option<i64>,
    cells: &'a [u8],
}

impl RowView<'_> {
    pub(crate) fn len(&self) -> usize {
        self.cells.len() / 8
    }

    /// The value of a column that exists.
    pub(crate) fn value(&self, column: usize) -> f64 {
        f64::from_bits(u64_at(self.cells, column * 8))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.cells
            .chunks_exact(8)
            .map(|cell| f64::from_bits(u64_at(cell, 0)))
    }
}

/// What lies at the front of some bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NextRecord<'a> {
    /// A whole record and the bytes it takes.
    Record(Record<'a>, usize),
    /// The bytes end before the record does; this many are needed.
    NeedsBytes(usize),
    /// Zero, impossible, or with a wrong checksum; `cost` bytes were read to find out.
    Bad { cost: usize },
}

/// Looks at the front of `bytes`.
#[inline(always)]
pub(crate) fn read_front(bytes: &[u8]) -> NextRecord<'_> {
    if bytes.len() < HEAD_LEN {
        return NextRecord::NeedsBytes(HEAD_LEN);
    }
    let word = CommitWord(u32_at(bytes, 0));
    if !word.is_plausible() {
        return NextRecord::Bad { cost: 4 };
    }
    let record_len = word.record_len();
    if bytes.len() < record_len {
        return NextRecord::NeedsBytes(record_len);
    }
    let body = &bytes[HEAD_LEN..HEAD_LEN + word.body_len()];
    if !checksum::is_right(u32_at(bytes, 4), checksum_of(word, body)) {
        return NextRecord::Bad { cost: record_len };
    }
    // Nearly all records are rows; the others take a call.
    let record = if word.kind() == KIND_ROW {
        let has_step = word.flags() & FLAG_STEP != 0;
        Record::Row(RowView {
            table: u32_at(body, 0),
            time_nanos: u64_at(body, 4),
            step: has_step.then(|| u64_at(body, 12) as i64),
            cells: &body[row_body_len(0, has_step)..],
        })
    } else {
        read_other(word, body)
    };
    NextRecord::Record(record, record_len)
}

#[cold]
fn read_other(word: CommitWord, body: &[u8]) -> Record<'_> {
    match word.kind() {
        KIND_TABLE => Record::Table {
            table: u32_at(body, 0),
            spec_json: &body[4..],
        },
        KIND_EVENT => Record::Event {
            time_nanos: u64_at(body, 0),
            event_json: &body[8..],
        },
        KIND_STACK => Record::Stack(body),
        _ => Record::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_five_values_with_a_step_takes_68_bytes() {
        let mut record = Vec::new();
        encode_row_into(&mut record, 1, 2, Some(3), &[0.0; 5]);
        assert_eq!(record.len(), 68);
        match read_front(&record) {
            NextRecord::Record(Record::Row(row), 68) => {
                assert_eq!((row.table, row.time_nanos, row.step), (1, 2, Some(3)));
                assert_eq!(row.len(), 5);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_noticed() {
        let mut record = Vec::new();
        encode_row_into(&mut record, 1, 2, Some(3), &[4.0, f64::NAN]);
        for at in 0..record.len() {
            for bit in 0..8 {
                let mut bytes = record.clone();
                bytes[at] ^= 1 << bit;
                assert!(
                    !matches!(read_front(&bytes), NextRecord::Record(..)),
                    "byte {at} bit {bit}"
                );
            }
        }
    }

    #[test]
    fn text_is_padded_to_four_bytes() {
        for len in 1..9 {
            let record = encode_event(7, &vec![b'x'; len]).unwrap();
            assert_eq!(record.len() % 4, 0);
            assert!(matches!(
                read_front(&record),
                NextRecord::Record(Record::Event { time_nanos: 7, event_json }, _) if event_json.len() == len
            ));
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_refused() {
        assert!(encode_event(0, &vec![b'x'; MAX_BODY_LEN]).is_none());
    }
}
