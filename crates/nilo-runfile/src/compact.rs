//! Compaction: a sealed segment becomes a block of compressed columns, and its file goes away.
//!
//! The block is appended and synced before the segment is deleted.
//! A crash in between leaves both; the block carries the segment's number, and readers take either one.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nilo_sample::{NO_STEP, TableSpec};

use crate::block::{
    BLOCK_HEAD_LEN, BlockHead, BlockPosition, ColumnEntry, MAX_EXPANSION, TableEntry,
    encode_directory,
};
use crate::column::{pack, pack_values};
use crate::filesystem;
use crate::header::{CLOSED_LEN_AT, CLOSED_NANOS_AT, HEADER_LEN, Magic, SegmentHeader};
use crate::names;
use crate::pyramid::{self, PyramidCell};
use crate::record::{self, Record, RowView};
use crate::scan::{AtBadBytes, scan};

/// Tables with fewer rows in a segment stay records.
const MIN_COLUMN_ROWS: u32 = 128;

/// Appends blocks to one writer's compacted file.
pub(crate) struct Compactor {
    folder: PathBuf,
    writer: String,
    /// The file and where its last whole block ends.
    output: Option<(File, u64)>,
    /// Segments that there was no room for.
    left_over: Vec<(u32, PathBuf)>,
    /// Whether the last one found no room, as opposed to being damaged.
    is_out_of_room: bool,
}

impl Compactor {
    pub(crate) fn new(folder: &Path, writer: &str) -> Compactor {
        Compactor {
            folder: folder.to_owned(),
            writer: writer.to_owned(),
            output: None,
            left_over: Vec::new(),
            is_out_of_room: false,
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Compacts one segment, and those before it that there was no room for.
    /// On any trouble (a full disk, say) a segment stays as it is, which every reader understands.
    pub(crate) fn compact(&mut self, number: u32, path: PathBuf) {
        self.left_over.push((number, path));
        self.compact_left_over();
    }

    /// Tries again what there was no room for.
    pub(crate) fn compact_left_over(&mut self) {
        // The newest first: the last segments on a full disk are small.
        while let Some((number, path)) = self.left_over.pop() {
            if self.copy_to_block(number, &path) {
                let _ = std::fs::remove_file(path);
            } else if self.is_out_of_room {
                self.left_over.push((number, path));
                return;
            }
        }
    }

    /// Stores a segment as a block; its file is left alone.
    pub(crate) fn copy_to_block(&mut self, number: u32, path: &Path) -> bool {
        let compacted = filesystem::open_regular(path)
            .ok()
            .and_then(|file| encode_block(&file))
            .filter(|(header, _)| header.segment == number);
        let stored = compacted.map(|(header, block)| self.append(&header, &block));
        let is_stored = matches!(stored, Some(Ok(())));
        self.is_out_of_room = matches!(stored, Some(Err(_)));
        return_memory();
        is_stored
    }

    fn append(&mut self, header: &SegmentHeader, block: &[u8]) -> io::Result<()> {
        let (file, end) = match &mut self.output {
            Some(output) => output,
            None => {
                let path = names::compacted_path(&self.folder, &self.writer);
                let file = filesystem::create_new(&path)?;
                let own = SegmentHeader {
                    magic: Magic::Compacted,
                    segment: 0,
                    dropped_rows: 0,
                    closed_len: 0,
                    closed_nanos: 0,
                    ..header.clone()
                };
                if let Err(error) = file.write_all_at(&own.encode(), 0) {
                    let _ = std::fs::remove_file(&path);
                    return Err(error);
                }
                self.output.insert((file, HEADER_LEN as u64))
            }
        };
        let written = file
            .write_all_at(block, *end)
            .and_then(|()| file.sync_data());
        match written {
            Ok(()) => {
                *end += block.len() as u64;
                // After the block is on disk: what is said to be there is there.
                let _ = file.write_all_at(&end.to_le_bytes(), CLOSED_LEN_AT as u64);
                let closed = header.closed_nanos.to_le_bytes();
                let _ = file.write_all_at(&closed, CLOSED_NANOS_AT as u64);
                Ok(())
            }
            Err(error) => {
                let _ = file.set_len(*end);
                Err(error)
            }
        }
    }
}

/// Large freed buffers otherwise stay with the allocator, and the recorder promises to be small.
fn return_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// A table's rows by column.
#[derive(Default)]
struct GatheredTable {
    spec_json: Vec<u8>,
    columns: Vec<Vec<f64>>,
    times: Vec<u64>,
    steps: Vec<i64>,
    has_steps: bool,
}

impl GatheredTable {
    fn add(&mut self, row: &RowView<'_>) {
        self.times.push(row.time_nanos);
        self.steps.push(row.step.unwrap_or(NO_STEP));
        self.has_steps |= row.step.is_some();
        for (column, value) in self.columns.iter_mut().zip(row.values()) {
            column.push(value);
        }
    }
}

/// The block of a whole segment; `None` when the segment is damaged and better left alone.
pub(crate) fn encode_block(file: &File) -> Option<(SegmentHeader, Vec<u8>)> {
    let mut head = [0; HEADER_LEN];
    filesystem::read_at(file, &mut head, 0).ok()?;
    let header = SegmentHeader::decode(&head).ok()?;
    let start = header.header_len as u64;

    let mut row_counts: HashMap<u32, u32> = HashMap::new();
    let first_pass = scan(file, start, AtBadBytes::Resync, |record| {
        if let Record::Row(row) = record {
            *row_counts.entry(row.table).or_default() += 1;
        }
    })
    .ok()?;
    if !first_pass.holes.is_empty() || first_pass.torn_tail_bytes > 0 || first_pass.gave_up {
        return None;
    }

    let mut order: Vec<u32> = Vec::new();
    let mut gathered: HashMap<u32, GatheredTable> = HashMap::new();
    let mut loose: Vec<u8> = Vec::new();
    let mut scratch = Vec::new();
    let (mut rows, mut events) = (0u32, 0u32);
    scan(file, start, AtBadBytes::Stop, |record| match record {
        Record::Table { table, spec_json } => {
            let is_large = row_counts
                .get(&table)
                .is_some_and(|n| *n >= MIN_COLUMN_ROWS);
            let spec: Option<TableSpec> = serde_json::from_slice(spec_json).ok();
            match spec {
                Some(spec) if is_large && !gathered.contains_key(&table) => {
                    order.push(table);
                    let fresh = GatheredTable {
                        spec_json: spec_json.to_vec(),
                        columns: vec![Vec::new(); spec.columns.len()],
                        ..GatheredTable::default()
                    };
                    gathered.insert(table, fresh);
                }
                _ => loose.extend(record::encode_table(table, spec_json).unwrap_or_default()),
            }
        }
        Record::Row(row) => {
            rows += 1;
            match gathered.get_mut(&row.table) {
                Some(table) if table.columns.len() == row.len() => table.add(&row),
                _ => {
                    let values: Vec<f64> = row.values().collect();
                    record::encode_row_into(
                        &mut scratch,
                        row.table,
                        row.time_nanos,
                        row.step,
                        &values,
                    );
                    loose.extend_from_slice(&scratch);
                }
            }
        }
        Record::Event {
            time_nanos,
            event_json,
        } => {
            events += 1;
            loose.extend(record::encode_event(time_nanos, event_json).unwrap_or_default());
        }
        Record::Stack(body) => {
            loose.extend(record::encode(record::KIND_STACK, &[body]).unwrap_or_default());
        }
        Record::Other => {}
    })
    .ok()?;

    let mut columns = Vec::new();
    let mut tables = Vec::new();
    for table in order {
        if let Some(gathered) = gathered.remove(&table) {
            tables.push(store_table(table, gathered, &mut columns));
        }
    }
    Some((
        header.clone(),
        assemble(&header, &tables, &loose, &columns, rows, events),
    ))
}

/// Packs a table's columns, freeing each as it goes.
fn store_table(table: u32, gathered: GatheredTable, columns: &mut Vec<u8>) -> TableEntry {
    let times = BlockPosition::put(columns, &pack(&gathered.times));
    let time_pyramid = BlockPosition::put(columns, &pyramid::pack_times(&gathered.times));
    let steps = gathered
        .has_steps
        .then(|| BlockPosition::put(columns, &pack(&gathered.steps)));
    let entries = gathered.columns.into_iter().map(|values| ColumnEntry {
        pyramid: BlockPosition::put(columns, &pyramid::pack_values(&values)),
        values: BlockPosition::put(columns, &pack_values(&values)),
        summary: PyramidCell::of(&values),
    });
    let entries = entries.collect();
    TableEntry {
        table,
        rows: gathered.times.len() as u32,
        first_time: gathered.times.first().copied().unwrap_or(0),
        last_time: gathered.times.last().copied().unwrap_or(0),
        spec_json: gathered.spec_json,
        times,
        time_pyramid,
        steps,
        columns: entries,
    }
}

fn assemble(
    header: &SegmentHeader,
    tables: &[TableEntry],
    loose: &[u8],
    columns: &[u8],
    rows: u32,
    events: u32,
) -> Vec<u8> {
    let directory = encode_directory(tables);
    let decoded_bytes: u64 = tables.iter().map(TableEntry::decoded_bytes).sum();
    let parts_len = BLOCK_HEAD_LEN + directory.len() + loose.len() + columns.len();
    let block_len = (parts_len as u64)
        .max(decoded_bytes.div_ceil(MAX_EXPANSION))
        .next_multiple_of(8);
    let head = BlockHead {
        block_len,
        segment: header.segment,
        directory_len: directory.len() as u32,
        directory_crc: crc32c::crc32c(&directory),
        loose_len: loose.len() as u32,
        loose_crc: crc32c::crc32c(loose),
        decoded_bytes: decoded_bytes as u32,
        dropped_rows: header.dropped_rows,
        clock: header.clock,
        rows,
        events,
    };
    let mut block = Vec::with_capacity(block_len as usize);
    block.extend_from_slice(&head.encode());
    block.extend_from_slice(&directory);
    block.extend_from_slice(loose);
    block.extend_from_slice(columns);
    block.resize(block_len as usize, 0);
    block
}
