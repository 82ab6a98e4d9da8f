//! One column of one table, ready to draw, without loading the run.
//!
//! Compacted rows come from the pyramid: whole cells where they are narrower than half a pixel, single rows where they are wider or hold a gap.
//! Rows still in segments are read as they are.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nilo_sample::{RunDescription, Subject, TableSpec};

use crate::axis::{Shift, TimeAxis};
use crate::blocks::{BlockPlace, read_directory, read_part};
use crate::downsample::PixelColumn;
use crate::error::RunfileError;
use crate::folder::RunFolder;
use crate::header::Magic;
use crate::load::{OpenBlocks, StreamParts, open_blocks, open_with_header};
use crate::names::{self, StreamFiles};
use crate::pixel_fill::PixelFill;
use crate::record::Record;
use crate::scan::{AtBadBytes, scan};

/// Raw segments for which another thread is worth its start; with compaction at work there are one or two.
const SEGMENTS_PER_THREAD: usize = 4;

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
    ) -> Result<Vec<PixelColumn>, RunfileError> {
        let description = self.describe()?;
        let files =
            names::list(self.path()).map_err(RunfileError::io("list the run", self.path()))?;
        let mut has_table = false;
        for (writer, stream) in &files.streams {
            if table.writer.as_ref().is_some_and(|wanted| wanted != writer) {
                continue;
            }
            let question = ChartQuery {
                subject: &table.subject,
                column,
                from,
                to,
                pixels,
                gap_nanos,
            };
            let drawing = question.draw(self.path(), writer, stream, &description);
            if drawing.has_column {
                return Ok(drawing.pixels.buckets.finish());
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

/// What is to be drawn.
#[derive(Clone, Copy)]
struct ChartQuery<'a> {
    subject: &'a Subject,
    column: &'a str,
    from: u64,
    to: u64,
    pixels: usize,
    gap_nanos: Option<u64>,
}

/// A stream that is drawn: its files and its clock.
#[derive(Clone, Copy)]
struct ChartStream<'a> {
    folder: &'a Path,
    writer: &'a str,
    segments: &'a BTreeMap<u32, PathBuf>,
    blocks: Option<&'a OpenBlocks>,
    axis: TimeAxis,
}

struct Drawing<'a> {
    question: ChartQuery<'a>,
    pixels: PixelFill,
    has_table: bool,
    has_column: bool,
}

impl<'a> ChartQuery<'a> {
    /// Draws a stream in the order of its segments, several at a time where many have not been compacted.
    fn draw(
        self,
        folder: &Path,
        writer: &str,
        files: &StreamFiles,
        description: &RunDescription,
    ) -> Drawing<'a> {
        let StreamParts {
            segments,
            blocks,
            numbers,
        } = StreamParts::find(folder, writer, files, &mut Vec::new());
        let stream = ChartStream {
            folder,
            writer,
            segments: &segments,
            blocks: blocks.as_ref(),
            axis: TimeAxis::new(description),
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = processors.min(segments.len() / SEGMENTS_PER_THREAD);
        if threads <= 1 {
            return self.draw_segments(&numbers, stream);
        }
        let parts = numbers.chunks(numbers.len().div_ceil(threads));
        std::thread::scope(|scope| {
            let parts: Vec<_> = parts
                .map(|part| (part, scope.spawn(move || self.draw_segments(part, stream))))
                .collect();
            let mut whole = Drawing::new(self);
            for (part, thread) in parts {
                // A thread that failed did not draw its part; it is drawn here.
                let drawn = thread.join();
                whole.append(drawn.unwrap_or_else(|_| self.draw_segments(part, stream)));
            }
            whole
        })
    }

    fn draw_segments(self, numbers: &[u32], stream: ChartStream<'_>) -> Drawing<'a> {
        let mut drawing = Drawing::new(self);
        drawing.add_segments(numbers, stream);
        drawing
    }
}

impl<'a> Drawing<'a> {
    fn new(question: ChartQuery<'a>) -> Drawing<'a> {
        let ChartQuery {
            from,
            to,
            pixels,
            gap_nanos,
            ..
        } = question;
        Drawing {
            question,
            pixels: PixelFill::new(from, to, pixels, gap_nanos),
            has_table: false,
            has_column: false,
        }
    }

    fn append(&mut self, later: Drawing<'_>) {
        self.pixels.buckets.append(later.pixels.buckets);
        self.has_table |= later.has_table;
        self.has_column |= later.has_column;
    }

    /// Draws segments one after the other. What is damaged is left out: `load` and `verify` tell of it.
    fn add_segments(&mut self, numbers: &[u32], stream: ChartStream<'_>) {
        let mut fresh: Option<OpenBlocks> = None;
        for number in numbers {
            if let Some(path) = stream.segments.get(number) {
                if self.add_segment(path, &stream.axis).is_ok() {
                    continue;
                }
                // Compacted since the folder was listed, or damaged.
                let path = names::compacted_path(stream.folder, stream.writer);
                fresh = open_blocks(&path, &mut Vec::new());
            }
            let found = fresh
                .as_ref()
                .or(stream.blocks)
                .and_then(|open| Some((open, open.by_segment.get(number)?)));
            if let Some((OpenBlocks { file, .. }, block)) = found {
                let _ = self.add_block(file, block, &stream.axis);
            }
        }
    }

    /// The position of the column, when the table is the one to draw.
    fn column_of(&mut self, spec_json: &[u8]) -> Option<usize> {
        let spec: TableSpec = serde_json::from_slice(spec_json).ok()?;
        if spec.subject != *self.question.subject {
            return None;
        }
        self.has_table = true;
        let column = spec.column(self.question.column)?;
        self.has_column = true;
        Some(column)
    }

    fn add_segment(&mut self, path: &Path, axis: &TimeAxis) -> Result<(), RunfileError> {
        let (file, header) = open_with_header(path, Magic::Segment)?;
        let shift = axis.shift(&header.clock);
        self.add_records(&file, header.header_len as u64, shift)
            .map_err(RunfileError::io("read", path))
    }

    fn add_records<S: crate::scan::ReadAt + ?Sized>(
        &mut self,
        source: &S,
        start: u64,
        shift: Shift,
    ) -> io::Result<()> {
        // Nearly always one; a table that was forgotten and defined again is a second.
        let mut drawn: Vec<(u32, usize)> = Vec::new();
        scan(source, start, AtBadBytes::Resync, |record| match record {
            Record::Row(row) => {
                let found = drawn.iter().find(|(table, _)| *table == row.table);
                if let Some((_, column)) = found
                    && *column < row.len()
                {
                    let time = shift.apply(row.time_nanos);
                    self.pixels.buckets.add_point(time, row.value(*column));
                }
            }
            Record::Table { table, spec_json } => {
                drawn.retain(|(known, _)| *known != table);
                if let Some(column) = self.column_of(spec_json) {
                    drawn.push((table, column));
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
                self.pixels.add_packed(file, block, table, column, shift)?;
            }
        }
        if block.head.loose_len == 0 {
            return Ok(());
        }
        let loose = read_part(
            file,
            block,
            block.head.loose_at(),
            u64::from(block.head.loose_len),
        )?;
        self.add_records(loose.as_slice(), 0, shift)
    }
}
