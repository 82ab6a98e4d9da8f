//! A large table as a picture needs it: of each column the first, smallest, largest and last value under each pixel, out of the pyramid.
//!
//! The rows are made of these points. Where a column reaches its highest level, the whole row is there as it was recorded, at its own time.
//! Everything else is exact to half a pixel of the thinning, which is to be several times finer than the picture.

use std::io;

use nilo_sample::{ABSENT, ColumnKind, RecordedTable, Subject, TableSpec, Unit};

use crate::block::BlockPosition;
use crate::blocks::read_place;
use crate::column::{unpack, unpack_values};
use crate::downsample::{PixelColumn, Point};
use crate::pixel_fill::PixelFill;
use crate::unpack::PackedRows;

/// Tables with fewer rows for each pixel are read whole: there is little to gain.
const LEAST_ROWS_PER_PIXEL: usize = 16;

/// A table's rows, thinned.
pub(crate) struct ThinnedRows {
    times: Vec<u64>,
    columns: Vec<Vec<f64>>,
    /// Rows that are no further apart than this had others between them.
    pub(crate) pixel_nanos: u64,
}

impl ThinnedRows {
    /// Puts the rows into their table. Steps are not known of them.
    pub(crate) fn append_to(self, table: &mut RecordedTable) {
        table.steps.clear();
        table.times.extend(self.times);
        for (column, values) in table.columns.iter_mut().zip(self.columns) {
            column.extend(values);
        }
    }
}

/// A point of one column.
struct ThinPoint {
    time_nanos: u64,
    /// Points of a recorded row come before others of their time.
    is_made: bool,
    column: usize,
    value: f64,
}

/// Thins the rows of a table that lie in blocks. `None` where they have to be read whole: there are few of them,
/// no picture has them, something in them is not finite and has to be counted, or they are damaged.
pub(crate) fn thin(spec: &TableSpec, packed: &[PackedRows], pixels: usize) -> Option<ThinnedRows> {
    let rows: usize = packed.iter().map(|packed| packed.entry.rows as usize).sum();
    if !is_drawn(&spec.subject) || rows < pixels.saturating_mul(LEAST_ROWS_PER_PIXEL) {
        return None;
    }
    let times = packed.iter().map(|it| it.shift.apply(it.entry.first_time));
    let from = times.min()?;
    let times = packed.iter().map(|it| it.shift.apply(it.entry.last_time));
    let to = times.max()?;
    let mut points = Vec::new();
    for (index, column) in spec.columns.iter().enumerate() {
        if packed.iter().any(|packed| packed.is_column_odd(index)) {
            return None;
        }
        let mut pixels = PixelFill::new(from, to, pixels, None);
        for packed in packed {
            let PackedRows { file, block, .. } = packed;
            let added = pixels.add_packed(file, block, &packed.entry, index, packed.shift);
            added.ok()?;
        }
        let mut pixels = pixels.buckets.finish();
        if column.kind == ColumnKind::Gauge && column.unit == Unit::Bytes {
            put_highest_in_place(&mut pixels, packed, index, &mut points).ok()?;
        }
        let made = pixels
            .iter()
            .flat_map(|pixel| points_of(pixel, column.kind));
        points.extend(made.map(|point| ThinPoint {
            time_nanos: point.time_nanos,
            is_made: true,
            column: index,
            value: point.value,
        }));
    }
    let (times, columns) = rows_of(points, spec);
    Some(ThinnedRows {
        times,
        columns,
        pixel_nanos: to.saturating_sub(from) / pixels.max(1) as u64,
    })
}

/// Tables that pictures are made of.
fn is_drawn(subject: &Subject) -> bool {
    matches!(
        subject,
        Subject::Tree
            | Subject::Process(_)
            | Subject::Cgroup { .. }
            | Subject::Gpu { .. }
            | Subject::Metrics { .. }
    )
}

impl PackedRows {
    fn is_column_odd(&self, column: usize) -> bool {
        let entry = self.entry.columns.get(column).map(|column| &column.summary);
        entry.is_none_or(|cell| {
            cell.nan_count > 0 || cell.count > 0 && !(cell.min.is_finite() && cell.max.is_finite())
        })
    }

    /// The first row in which a column has a value.
    fn row_with(&self, column: usize, value: f64) -> io::Result<Option<(u64, Vec<f64>)>> {
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        let rows = self.entry.rows as usize;
        let read = |place: &BlockPosition| -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            read_place(&self.file, &self.block, place, &mut bytes)?;
            Ok(bytes)
        };
        let values = |index: usize| {
            let place = self.entry.columns.get(index).ok_or_else(bad)?.values;
            unpack_values(place.encoding, &read(&place)?, rows).ok_or_else(bad)
        };
        let Some(row) = values(column)?.iter().position(|it| *it == value) else {
            return Ok(None);
        };
        let times = &self.entry.times;
        let times: Vec<u64> = unpack(times.encoding, &read(times)?, rows).ok_or_else(bad)?;
        let all = (0..self.entry.columns.len()).map(|index| Ok(values(index)?[row]));
        Ok(Some((
            self.shift.apply(times[row]),
            all.collect::<io::Result<_>>()?,
        )))
    }
}

/// Moves the highest point of a column to its time, and adds the row that it is from.
fn put_highest_in_place(
    pixels: &mut [PixelColumn],
    packed: &[PackedRows],
    column: usize,
    points: &mut Vec<ThinPoint>,
) -> io::Result<()> {
    let full = pixels.iter_mut().filter(|pixel| pixel.count > 0);
    let highest = full.reduce(|best, next| match next.max.value > best.max.value {
        true => next,
        false => best,
    });
    let Some(highest) = highest else {
        return Ok(());
    };
    let value = highest.max.value;
    let has_it = |it: &&PackedRows| it.entry.columns[column].summary.max == value;
    let Some(packed) = packed.iter().find(has_it) else {
        return Ok(());
    };
    if let Some((time_nanos, row)) = packed.row_with(column, value)? {
        highest.max.time_nanos = time_nanos;
        points.extend(
            row.into_iter()
                .enumerate()
                .map(|(column, value)| ThinPoint {
                    time_nanos,
                    is_made: false,
                    column,
                    value,
                }),
        );
    }
    Ok(())
}

/// The points of a pixel in the order of time. Within one, a counter is known at its beginning and its end alone.
fn points_of(pixel: &PixelColumn, kind: ColumnKind) -> impl Iterator<Item = Point> + use<> {
    let PixelColumn {
        first,
        min,
        max,
        last,
        ..
    } = *pixel;
    let mut points = match (pixel.count, kind) {
        (0, _) => vec![first],
        (_, ColumnKind::Counter) => vec![first, last],
        _ => vec![first, min, max, last],
    };
    points.sort_by_key(|point| point.time_nanos);
    points.dedup_by_key(|point| (point.time_nanos, point.value.to_bits()));
    points.into_iter()
}

/// Rows out of points: those of one time are one row, or several where a column has several of that time.
/// A table that holds its values has the value in force elsewhere, others have none.
fn rows_of(mut points: Vec<ThinPoint>, spec: &TableSpec) -> (Vec<u64>, Vec<Vec<f64>>) {
    points.sort_by_key(|point| (point.time_nanos, point.is_made, point.column));
    let mut times = Vec::new();
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); spec.columns.len()];
    let mut in_force = vec![ABSENT; spec.columns.len()];
    for of_time in points.chunk_by(|a, b| a.time_nanos == b.time_nanos) {
        let mut by_column: Vec<Vec<f64>> = vec![Vec::new(); spec.columns.len()];
        for point in of_time {
            let known = &mut by_column[point.column];
            if !known
                .iter()
                .any(|value| value.to_bits() == point.value.to_bits())
            {
                known.push(point.value);
            }
        }
        let rows = by_column.iter().map(Vec::len).max().unwrap_or(0);
        for row in 0..rows {
            times.push(of_time[0].time_nanos);
            for (index, values) in by_column.iter().enumerate() {
                let value = match (values.get(row), spec.hold) {
                    (Some(value), _) => *value,
                    (None, true) => in_force[index],
                    (None, false) => ABSENT,
                };
                in_force[index] = value;
                columns[index].push(value);
            }
        }
    }
    (times, columns)
}
