//! One column of one table, ready to draw, without loading the run.
//!
//! Compacted rows come from the pyramid: whole cells where they are narrower than half a pixel, single rows where they are wider or hold a gap.
//! Rows still in segments are read as they are.

use std::fs::File;
use std::io;
use std::path::Path;

use nilo_sample::{RunDescription, Subject, TableSpec};

use crate::axis::{Shift, TimeAxis};
use crate::block::{Place, TableEntry};
use crate::blocks::{BlockPlace, read_directory, read_part};
use crate::checksum;
use crate::column::{unpack, unpack_values};
use crate::downsample::{Bucket, Buckets};
use crate::error::RunfileError;
use crate::folder::RunFolder;
use crate::header::Magic;
use crate::load::{OpenBlocks, open_blocks, open_with_header};
use crate::names::{self, StreamFiles};
use crate::pyramid::{self, Cell, ROWS_PER_CELL, TimeCell};
use crate::record::Record;
use crate::scan::{AtBadBytes, scan};

/// Which table to draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSelector {
    /// Whom it is about.
    pub subject: Subject,
    /// The writer, such as `recorder-4711`; `None` takes the first that has the table.
    pub writer: Option<String>,
}

impl TableSelector {
    /// The first table about a subject.
    pub fn subject(subject: Subject) -> TableSelector {
        TableSelector {
            subject,
            writer: None,
        }
    }
}

impl RunFolder {
    /// Downsamples one column to about `pixels` buckets over `from..=to`, in nanoseconds since the run began.
    ///
    /// Every value lies in exactly one bucket, so the extremes are exact; times within a bucket are exact to half a pixel.
    /// `gap_nanos` is how long a pause interrupts the line; `None` for tables that hold their value.
    pub fn chart(
        &self,
        table: &TableSelector,
        column: &str,
        from: u64,
        to: u64,
        pixels: usize,
        gap_nanos: Option<u64>,
    ) -> Result<Vec<Bucket>, RunfileError> {
        let description = self.describe()?;
        let files =
            names::list(self.path()).map_err(RunfileError::io("list the run", self.path()))?;
        let mut has_table = false;
        for (writer, stream) in &files.streams {
            if table.writer.as_ref().is_some_and(|wanted| wanted != writer) {
                continue;
            }
            let mut drawing = Drawing {
                subject: &table.subject,
                column,
                buckets: Buckets::new(from, to, pixels, gap_nanos),
                from,
                to,
                gap_nanos,
                has_table: false,
                has_column: false,
            };
            drawing.add_stream(self.path(), writer, stream, &description);
            if drawing.has_column {
                return Ok(drawing.buckets.finish());
            }
            has_table |= drawing.has_table;
        }
        Err(if has_table {
            RunfileError::NoSuchColumn {
                column: column.to_owned(),
            }
        } else {
            RunfileError::NoSuchTable {
                what: format!("{:?}", table.subject),
            }
        })
    }
}

struct Drawing<'a> {
    subject: &'a Subject,
    column: &'a str,
    buckets: Buckets,
    from: u64,
    to: u64,
    gap_nanos: Option<u64>,
    has_table: bool,
    has_column: bool,
}

impl Drawing<'_> {
    /// Walks over a stream in the order of its segments. What is damaged is left out: `load` and `verify` tell of it.
    fn add_stream(
        &mut self,
        folder: &Path,
        writer: &str,
        stream: &StreamFiles,
        description: &RunDescription,
    ) {
        let axis = TimeAxis::new(description);
        let open = |path: &Path| open_blocks(path, &mut Vec::new());
        let mut blocks = stream.compacted.as_deref().and_then(open);
        let compacted = blocks.iter().flat_map(|open| open.by_segment.keys());
        let mut numbers: Vec<u32> = compacted.chain(stream.segments.keys()).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            if let Some(path) = stream.segments.get(&number) {
                if self.add_segment(path, &axis).is_ok() {
                    continue;
                }
                // Compacted since the folder was listed, or damaged.
                blocks = open(&names::compacted_path(folder, writer)).or(blocks);
            }
            let found = blocks
                .as_ref()
                .and_then(|open| Some((open, open.by_segment.get(&number)?)));
            if let Some((OpenBlocks { file, .. }, block)) = found {
                let _ = self.add_block(file, block, &axis);
            }
        }
    }

    /// The position of the column, when the table is the one to draw.
    fn column_of(&mut self, spec_json: &[u8]) -> Option<usize> {
        let spec: TableSpec = serde_json::from_slice(spec_json).ok()?;
        if spec.subject != *self.subject {
            return None;
        }
        self.has_table = true;
        let column = spec.column(self.column)?;
        self.has_column = true;
        Some(column)
    }

    fn add_segment(&mut self, path: &Path, axis: &TimeAxis) -> Result<(), RunfileError> {
        let (file, header) = open_with_header(path, Magic::Segment)?;
        let shift = axis.shift(&header.clock);
        self.add_records(&file, header.header_len as u64, shift)
            .map_err(RunfileError::io("read", path))
    }

    fn add_records<S: crate::scan::Source + ?Sized>(
        &mut self,
        source: &S,
        start: u64,
        shift: Shift,
    ) -> io::Result<()> {
        let mut drawn: Option<(u32, usize)> = None;
        scan(source, start, AtBadBytes::Resync, |record| match record {
            Record::Row(row) => {
                if let Some((table, column)) = drawn
                    && row.table == table
                    && column < row.len()
                {
                    let time = shift.apply(row.time_nanos);
                    self.buckets.add_point(time, row.value(column));
                }
            }
            Record::Table { table, spec_json } => {
                if let Some(column) = self.column_of(spec_json) {
                    drawn = Some((table, column));
                }
            }
            _ => {}
        })?;
        Ok(())
    }

    fn add_block(&mut self, file: &File, block: &BlockPlace, axis: &TimeAxis) -> io::Result<()> {
        let shift = axis.shift(&block.head.clock);
        let Some(tables) = read_directory(file, block)? else {
            return Ok(());
        };
        for table in &tables {
            if let Some(column) = self.column_of(&table.spec_json) {
                // A table has its rows either in columns or among the loose records.
                return self.add_columns(file, block, table, column, shift);
            }
        }
        let loose = read_part(
            file,
            block,
            block.head.loose_at(),
            u64::from(block.head.loose_len),
        )?;
        self.add_records(loose.as_slice(), 0, shift)
    }

    fn add_columns(
        &mut self,
        file: &File,
        block: &BlockPlace,
        table: &TableEntry,
        column: usize,
        shift: Shift,
    ) -> io::Result<()> {
        let Some(entry) = table.columns.get(column) else {
            return Ok(());
        };
        let is_outside =
            shift.apply(table.last_time) < self.from || shift.apply(table.first_time) > self.to;
        if is_outside {
            return Ok(());
        }
        let rows = table.rows as usize;
        let read = |place: &Place| -> io::Result<Vec<u8>> {
            let from = block.head.columns_at() + u64::from(place.offset);
            let bytes = read_part(file, block, from, u64::from(place.len))?;
            match checksum::is_right(place.crc, crc32c::crc32c(&bytes)) {
                true => Ok(bytes),
                false => Err(io::ErrorKind::InvalidData.into()),
            }
        };
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        let times = read(&table.time_pyramid)?;
        let times = pyramid::unpack_times(table.time_pyramid.encoding, &times, rows);
        let cells = read(&entry.pyramid)?;
        let cells = pyramid::unpack_values(entry.pyramid.encoding, &cells, rows);
        let (times, cells) = (times.ok_or_else(bad)?, cells.ok_or_else(bad)?);
        let mut unpacked: Option<(Vec<u64>, Vec<f64>)> = None;
        for (index, (time, cell)) in times.iter().zip(&cells).enumerate() {
            if self.add_whole_cell(time, cell, shift) {
                continue;
            }
            if unpacked.is_none() {
                let times = unpack(table.times.encoding, &read(&table.times)?, rows);
                let values = unpack_values(entry.values.encoding, &read(&entry.values)?, rows);
                unpacked = times.zip(values);
            }
            let (times, values) = unpacked.as_ref().ok_or_else(bad)?;
            let range = index * ROWS_PER_CELL..((index + 1) * ROWS_PER_CELL).min(rows);
            for (time, value) in times[range.clone()].iter().zip(&values[range]) {
                self.buckets.add_point(shift.apply(*time), *value);
            }
        }
        Ok(())
    }

    /// Adds a cell as a whole where that is exact enough: inside the range, narrow, without a gap. Cells outside are done with, too.
    fn add_whole_cell(&mut self, time: &TimeCell, cell: &Cell, shift: Shift) -> bool {
        let (first, last) = (shift.apply(time.first), shift.apply(time.last));
        if last < self.from || first > self.to {
            return true;
        }
        let is_inside = first >= self.from && last <= self.to && first <= last;
        let is_narrow = last.saturating_sub(first) <= self.buckets.pixel_nanos() / 2;
        let has_gap = self.gap_nanos.is_some_and(|gap| time.largest_gap > gap);
        if is_inside && is_narrow && !has_gap {
            self.buckets.add_cell(first, last, cell);
            true
        } else {
            false
        }
    }
}
