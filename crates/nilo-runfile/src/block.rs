//! A block: one sealed segment as compressed columns, in the writer's `.nilc` file.
//!
//! Header, directory, loose records, columns.
//! Tables with few rows and all events stay records ("loose"), byte for byte as in the segment: a column of three values is larger than three values.
//! `docs/run-format.md` has the tables of fields.

use crate::bytes::ByteReader;
use crate::checksum;
use crate::column::Packed;
use crate::header::{ClockPair, u32_at, u64_at};
use crate::pyramid::PyramidCell;
use crate::segment::MAX_SEGMENT_BYTES;

/// The header's length.
pub(crate) const BLOCK_HEAD_LEN: usize = 96;
/// The first four bytes of a block.
pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"NBLK";
/// A block never decodes to more than this many times its own length: the writer pads, the reader refuses.
pub(crate) const MAX_EXPANSION: u64 = 1024;

/// The head of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub(crate) block_len: u64,
    pub(crate) segment: u32,
    pub(crate) directory_len: u32,
    pub(crate) directory_crc: u32,
    pub(crate) loose_len: u32,
    pub(crate) loose_crc: u32,
    /// Bytes of all columns when decoded.
    pub(crate) decoded_bytes: u32,
    pub(crate) dropped_rows: u64,
    pub(crate) clock: ClockPair,
    pub(crate) rows: u32,
    pub(crate) events: u32,
}

impl BlockHead {
    pub(crate) fn encode(&self) -> [u8; BLOCK_HEAD_LEN] {
        let mut bytes = [0; BLOCK_HEAD_LEN];
        bytes[0..4].copy_from_slice(&BLOCK_MAGIC);
        bytes[4..8].copy_from_slice(&(BLOCK_HEAD_LEN as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.block_len.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.segment.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.directory_len.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.directory_crc.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.loose_len.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.loose_crc.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.decoded_bytes.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.dropped_rows.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.clock.monotonic_nanos.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.clock.unix_nanos.to_le_bytes());
        bytes[64..80].copy_from_slice(&self.clock.boot_id);
        bytes[80..84].copy_from_slice(&self.rows.to_le_bytes());
        bytes[84..88].copy_from_slice(&self.events.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..92]);
        bytes[92..96].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a head, and refuses one whose parts do not fit into it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<BlockHead> {
        let bytes = bytes.get(..BLOCK_HEAD_LEN)?;
        let is_ours = bytes[0..4] == BLOCK_MAGIC
            && u32_at(bytes, 4) as usize == BLOCK_HEAD_LEN
            && checksum::is_right(u32_at(bytes, 92), crc32c::crc32c(&bytes[..92]));
        if !is_ours {
            return None;
        }
        let mut boot_id = [0; 16];
        boot_id.copy_from_slice(&bytes[64..80]);
        let head = BlockHead {
            block_len: u64_at(bytes, 8),
            segment: u32_at(bytes, 16),
            directory_len: u32_at(bytes, 20),
            directory_crc: u32_at(bytes, 24),
            loose_len: u32_at(bytes, 28),
            loose_crc: u32_at(bytes, 32),
            decoded_bytes: u32_at(bytes, 36),
            dropped_rows: u64_at(bytes, 40),
            clock: ClockPair {
                monotonic_nanos: u64_at(bytes, 48),
                unix_nanos: u64_at(bytes, 56),
                boot_id,
            },
            rows: u32_at(bytes, 80),
            events: u32_at(bytes, 84),
        };
        let fits = head.columns_at() <= head.block_len
            && head.block_len <= 4 * MAX_SEGMENT_BYTES
            && u64::from(head.decoded_bytes) <= 2 * MAX_SEGMENT_BYTES
            && u64::from(head.decoded_bytes) <= head.block_len.saturating_mul(MAX_EXPANSION);
        fits.then_some(head)
    }

    /// Where the loose records begin, from the block's start.
    pub(crate) fn loose_at(&self) -> u64 {
        BLOCK_HEAD_LEN as u64 + u64::from(self.directory_len)
    }

    /// Where the columns begin.
    pub(crate) fn columns_at(&self) -> u64 {
        self.loose_at() + u64::from(self.loose_len)
    }
}

/// Where a packed column lies, counted from the start of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockPosition {
    pub(crate) encoding: u8,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) crc: u32,
}

impl BlockPosition {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.encoding);
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
    }

    fn decode(cursor: &mut ByteReader<'_>) -> Option<BlockPosition> {
        Some(BlockPosition {
            encoding: cursor.u8()?,
            offset: cursor.u32()?,
            len: cursor.u32()?,
            crc: cursor.u32()?,
        })
    }

    /// Appends packed bytes to the columns.
    pub(crate) fn put(columns: &mut Vec<u8>, packed: &Packed) -> BlockPosition {
        let place = BlockPosition {
            encoding: packed.encoding,
            offset: columns.len() as u32,
            len: packed.bytes.len() as u32,
            crc: crc32c::crc32c(&packed.bytes),
        };
        columns.extend_from_slice(&packed.bytes);
        place
    }
}

/// A value column in the directory: its place, its pyramid's, and the whole of it in one cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ColumnEntry {
    pub(crate) values: BlockPosition,
    pub(crate) pyramid: BlockPosition,
    pub(crate) summary: PyramidCell,
}

/// A table in the directory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableEntry {
    pub(crate) table: u32,
    pub(crate) rows: u32,
    pub(crate) first_time: u64,
    pub(crate) last_time: u64,
    pub(crate) spec_json: Vec<u8>,
    pub(crate) times: BlockPosition,
    pub(crate) time_pyramid: BlockPosition,
    pub(crate) steps: Option<BlockPosition>,
    pub(crate) columns: Vec<ColumnEntry>,
}

impl TableEntry {
    /// Bytes of the table when decoded.
    pub(crate) fn decoded_bytes(&self) -> u64 {
        let width = 1 + u64::from(self.steps.is_some()) + self.columns.len() as u64;
        u64::from(self.rows) * 8 * width
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.table.to_le_bytes());
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.first_time.to_le_bytes());
        out.extend_from_slice(&self.last_time.to_le_bytes());
        out.extend_from_slice(&(self.spec_json.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.spec_json);
        self.times.encode(out);
        self.time_pyramid.encode(out);
        out.push(u8::from(self.steps.is_some()));
        if let Some(steps) = &self.steps {
            steps.encode(out);
        }
        out.extend_from_slice(&(self.columns.len() as u32).to_le_bytes());
        for column in &self.columns {
            column.values.encode(out);
            column.pyramid.encode(out);
            let cell = &column.summary;
            for value in [cell.first, cell.min, cell.max, cell.last] {
                out.extend_from_slice(&value.to_le_bytes());
            }
            for count in [cell.count, cell.nan_count, cell.absent_count] {
                out.extend_from_slice(&count.to_le_bytes());
            }
        }
    }

    fn decode(cursor: &mut ByteReader<'_>) -> Option<TableEntry> {
        let (table, rows) = (cursor.u32()?, cursor.u32()?);
        let (first_time, last_time) = (cursor.u64()?, cursor.u64()?);
        let spec_len = cursor.u32()? as usize;
        let spec_json = cursor.take(spec_len)?.to_vec();
        let times = BlockPosition::decode(cursor)?;
        let time_pyramid = BlockPosition::decode(cursor)?;
        let steps = match cursor.u8()? {
            0 => None,
            _ => Some(BlockPosition::decode(cursor)?),
        };
        let count = cursor.u32()?;
        let mut columns = Vec::new();
        for _ in 0..count {
            columns.push(ColumnEntry {
                values: BlockPosition::decode(cursor)?,
                pyramid: BlockPosition::decode(cursor)?,
                summary: PyramidCell {
                    first: cursor.f64()?,
                    min: cursor.f64()?,
                    max: cursor.f64()?,
                    last: cursor.f64()?,
                    count: cursor.u32()?,
                    nan_count: cursor.u32()?,
                    absent_count: cursor.u32()?,
                },
            });
        }
        Some(TableEntry {
            table,
            rows,
            first_time,
            last_time,
            spec_json,
            times,
            time_pyramid,
            steps,
            columns,
        })
    }
}

/// The directory's bytes.
pub(crate) fn encode_directory(tables: &[TableEntry]) -> Vec<u8> {
    let mut out = (tables.len() as u32).to_le_bytes().to_vec();
    for table in tables {
        table.encode(&mut out);
    }
    out
}

/// Reads a directory whose bytes are those that the head promises, and whose tables decode to no more than it promises.
pub(crate) fn decode_directory(head: &BlockHead, bytes: &[u8]) -> Option<Vec<TableEntry>> {
    if !checksum::is_right(head.directory_crc, crc32c::crc32c(bytes)) {
        return None;
    }
    let mut cursor = ByteReader::new(bytes);
    let count = cursor.u32()?;
    let mut tables = Vec::new();
    let mut decoded_bytes = 0u64;
    for _ in 0..count {
        let table = TableEntry::decode(&mut cursor)?;
        decoded_bytes = decoded_bytes.saturating_add(table.decoded_bytes());
        if decoded_bytes > u64::from(head.decoded_bytes) {
            return None;
        }
        tables.push(table);
    }
    Some(tables)
}
