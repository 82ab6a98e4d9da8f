//! Pixels of a chart, filled with one column of the tables in blocks.
//!
//! Whole cells of the pyramid are taken where they are narrower than half a pixel, single rows where they are wider or hold a gap.

use std::fs::File;
use std::io;

use crate::axis::Shift;
use crate::block::{BlockPosition, TableEntry};
use crate::blocks::{BlockPlace, read_place};
use crate::column::{unpack, unpack_values};
use crate::downsample::Buckets;
use crate::pyramid::{self, PyramidCell, ROWS_PER_CELL, TimeCell};

/// The pixels, and what is drawn into them.
pub(crate) struct PixelFill {
    from: u64,
    to: u64,
    gap_nanos: Option<u64>,
    pub(crate) buckets: Buckets,
}

impl PixelFill {
    pub(crate) fn new(from: u64, to: u64, pixels: usize, gap_nanos: Option<u64>) -> PixelFill {
        PixelFill {
            from,
            to,
            gap_nanos,
            buckets: Buckets::new(from, to, pixels, gap_nanos),
        }
    }

    /// Adds a column of a table in a block.
    pub(crate) fn add_packed(
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
        let read = |place: &BlockPosition| -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            read_place(file, block, place, &mut bytes)?;
            Ok(bytes)
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
    fn add_whole_cell(&mut self, time: &TimeCell, cell: &PyramidCell, shift: Shift) -> bool {
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
