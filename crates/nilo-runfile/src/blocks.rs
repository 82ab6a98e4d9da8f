//! Walking over the blocks of a compacted file, and decoding one.

use std::fs::File;
use std::io;

use crate::axis::TimeAxis;
use crate::block::{BLOCK_HEAD_LEN, BLOCK_MAGIC, BlockHead, TableEntry, decode_directory};
use crate::checksum;
use crate::collect::{Collector, Declared, DecodedTable, Tally};
use crate::column::{unpack, unpack_values};
use crate::scan::{AtBadBytes, Source, scan};

const SEARCH_BYTES: usize = 64 << 10;

/// A block's place in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    pub(crate) offset: u64,
    pub(crate) head: BlockHead,
}

/// The blocks of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BlockList {
    pub(crate) blocks: Vec<BlockPlace>,
    /// Where the last whole block ends.
    pub(crate) end: u64,
    pub(crate) torn_tail_bytes: u64,
    pub(crate) holes: Vec<(u64, u64)>,
}

/// Lists blocks from `start` on. Only heads are read.
pub(crate) fn list_blocks(file: &File, start: u64) -> io::Result<BlockList> {
    let length = file.metadata()?.len();
    let mut list = BlockList {
        end: start,
        ..BlockList::default()
    };
    let mut at = start;
    while at < length {
        let mut bytes = [0; BLOCK_HEAD_LEN];
        let filled = Source::read_at(file, &mut bytes, at)?;
        let head = BlockHead::decode(&bytes[..filled]);
        match head {
            Some(head) if at + head.block_len <= length => {
                if at > list.end {
                    list.holes.push((list.end, at - list.end));
                }
                list.blocks.push(BlockPlace { offset: at, head });
                at += head.block_len;
                list.end = at;
            }
            _ => match find_head(file, at + 8, length)? {
                Some(next) => at = next,
                None => break,
            },
        }
    }
    list.torn_tail_bytes = length.saturating_sub(list.end);
    Ok(list)
}

/// The next place, in steps of eight bytes, where a head stands whose block lies within the file.
fn find_head(file: &File, start: u64, length: u64) -> io::Result<Option<u64>> {
    let mut buffer = vec![0; SEARCH_BYTES + BLOCK_HEAD_LEN];
    let mut at = start;
    while at < length {
        let filled = Source::read_at(file, &mut buffer, at)?;
        for offset in (0..SEARCH_BYTES.min(filled)).step_by(8) {
            let rest = &buffer[offset..filled];
            let place = at + offset as u64;
            let fits = |head: BlockHead| place + head.block_len <= length;
            if rest.starts_with(&BLOCK_MAGIC) && BlockHead::decode(rest).is_some_and(fits) {
                return Ok(Some(place));
            }
        }
        at += SEARCH_BYTES as u64;
    }
    Ok(None)
}

/// Reads a part of a block; its length was checked against the file's when the block was listed.
pub(crate) fn read_part(
    file: &File,
    block: &BlockPlace,
    from: u64,
    len: u64,
) -> io::Result<Vec<u8>> {
    let is_within = from
        .checked_add(len)
        .is_some_and(|end| end <= block.head.block_len);
    if !is_within {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; len as usize];
    let filled = Source::read_at(file, &mut bytes, block.offset + from)?;
    if filled < bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// The directory of a block; `None` when it is damaged.
pub(crate) fn read_directory(
    file: &File,
    block: &BlockPlace,
) -> io::Result<Option<Vec<TableEntry>>> {
    let len = u64::from(block.head.directory_len);
    let bytes = read_part(file, block, BLOCK_HEAD_LEN as u64, len)?;
    Ok(decode_directory(&block.head, &bytes))
}

/// Takes a whole block into a collector.
pub(crate) fn collect_block(
    file: &File,
    block: &BlockPlace,
    axis: &TimeAxis,
    collector: &mut Collector<'_>,
    tally: &mut Tally,
) -> io::Result<()> {
    let head = &block.head;
    let bytes = read_part(file, block, 0, head.block_len)?;
    let shift = axis.shift(&head.clock);
    let (loose_at, columns_at) = (head.loose_at() as usize, head.columns_at() as usize);
    let loose = &bytes[loose_at..columns_at];
    if !checksum::is_right(head.loose_crc, crc32c::crc32c(loose)) {
        tally.complain(format!(
            "loose records of segment {} are damaged",
            head.segment
        ));
    }
    // The records have checksums of their own, so what is whole is read all the same.
    let mut declared = Declared::new();
    scan(loose, 0, AtBadBytes::Resync, |record| {
        collector.add(record, shift, &mut declared, tally);
    })?;
    let Some(tables) = decode_directory(head, &bytes[BLOCK_HEAD_LEN..loose_at]) else {
        tally.complain(format!(
            "the directory of segment {} is damaged",
            head.segment
        ));
        return Ok(());
    };
    let columns = &bytes[columns_at..];
    for table in &tables {
        tally.records += 1;
        tally.rows += u64::from(table.rows);
        let outcome = collector.add_columns(table.table, &table.spec_json, shift, |only| {
            decode_table(table, columns, only)
        });
        if let Err(reason) = outcome {
            tally.complain(format!(
                "table {} of segment {}: {reason}",
                table.table, head.segment
            ));
        }
    }
    Ok(())
}

/// Decodes all columns of a table, or one; the directory has bounded what that takes.
fn decode_table(table: &TableEntry, columns: &[u8], only: Option<usize>) -> Option<DecodedTable> {
    let rows = table.rows as usize;
    let times = unpack(table.times.encoding, table.times.get(columns)?, rows)?;
    let steps = match &table.steps {
        Some(place) => Some(unpack(place.encoding, place.get(columns)?, rows)?),
        None => None,
    };
    let wanted = match only {
        Some(only) => std::slice::from_ref(table.columns.get(only)?),
        None => &table.columns,
    };
    let mut decoded = Vec::with_capacity(wanted.len());
    for column in wanted {
        let place = &column.values;
        decoded.push(unpack_values(place.encoding, place.get(columns)?, rows)?);
    }
    Some(DecodedTable {
        times,
        steps,
        columns: decoded,
    })
}
