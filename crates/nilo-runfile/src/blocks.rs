//! Walking over the blocks of a compacted file, and taking one in.

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::axis::TimeAxis;
use crate::block::{
    BLOCK_HEAD_LEN, BLOCK_MAGIC, BlockHead, BlockPosition, TableEntry, decode_directory,
};
use crate::checksum;
use crate::collect::{Collector, Declared, Tally};
use crate::scan::{AtBadBytes, ReadAt, scan};

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
        let filled = ReadAt::read_at(file, &mut bytes, at)?;
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
        let filled = ReadAt::read_at(file, &mut buffer, at)?;
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
    let mut bytes = Vec::new();
    read_part_into(file, block, from, len, &mut bytes)?;
    Ok(bytes)
}

fn read_part_into(
    file: &File,
    block: &BlockPlace,
    from: u64,
    len: u64,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    let is_within = from
        .checked_add(len)
        .is_some_and(|end| end <= block.head.block_len);
    if !is_within {
        return Err(io::ErrorKind::InvalidData.into());
    }
    buffer.resize(len as usize, 0);
    let filled = ReadAt::read_at(file, buffer, block.offset + from)?;
    if filled < buffer.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
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

/// Reads a column's bytes into `buffer`; those with a wrong checksum are invalid data.
pub(crate) fn read_place(
    file: &File,
    block: &BlockPlace,
    place: &BlockPosition,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    let from = block.head.columns_at() + u64::from(place.offset);
    read_part_into(file, block, from, u64::from(place.len), buffer)?;
    match checksum::is_right(place.crc, crc32c::crc32c(buffer)) {
        true => Ok(()),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Takes a block into a collector: its records at once, its columns when the collector unpacks.
pub(crate) fn collect_block(
    file: &Arc<File>,
    block: &BlockPlace,
    axis: &TimeAxis,
    collector: &mut Collector<'_>,
    tally: &mut Tally,
) -> io::Result<()> {
    let head = &block.head;
    let bytes = read_part(file, block, 0, head.columns_at())?;
    let shift = axis.shift(&head.clock);
    let loose_at = head.loose_at() as usize;
    let loose = &bytes[loose_at..];
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
    for entry in tables {
        tally.records += 1;
        tally.rows += u64::from(entry.rows);
        let table = entry.table;
        if let Err(reason) = collector.note_columns(file, block, shift, entry) {
            tally.complain(format!(
                "table {table} of segment {}: {reason}",
                head.segment
            ));
        }
    }
    Ok(())
}
