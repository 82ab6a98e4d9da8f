//! The second floor of a column: for each 64 rows the first, smallest, largest and last value.
//!
//! A chart of a million points reads these and leaves the columns packed.

use nilo_sample::{ABSENT, is_absent};

use crate::column::{Packed, pack, unpack};

/// Rows under one cell. 64 adds at most half a byte to a point (four values of eight bytes) and leaves sixteen cells for each pixel of a million-point chart.
pub(crate) const ROWS_PER_CELL: usize = 64;

/// Some consecutive values of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PyramidCell {
    pub(crate) first: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) last: f64,
    /// Values that are neither absent nor NaN.
    pub(crate) count: u32,
    pub(crate) nan_count: u32,
    pub(crate) absent_count: u32,
}

impl PyramidCell {
    pub(crate) const EMPTY: PyramidCell = PyramidCell {
        first: ABSENT,
        min: ABSENT,
        max: ABSENT,
        last: ABSENT,
        count: 0,
        nan_count: 0,
        absent_count: 0,
    };

    pub(crate) fn add(&mut self, value: f64) {
        if is_absent(value) {
            self.absent_count += 1;
        } else if value.is_nan() {
            self.nan_count += 1;
        } else {
            if self.count == 0 {
                (self.first, self.min, self.max) = (value, value, value);
            }
            self.min = self.min.min(value);
            self.max = self.max.max(value);
            self.last = value;
            self.count += 1;
        }
    }

    pub(crate) fn of(values: &[f64]) -> PyramidCell {
        let mut cell = PyramidCell::EMPTY;
        for value in values {
            cell.add(*value);
        }
        cell
    }
}

/// The times under one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeCell {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The longest wait between two rows of the cell.
    pub(crate) largest_gap: u64,
}

/// Number of cells over some rows.
pub(crate) fn cell_count(rows: usize) -> usize {
    rows.div_ceil(ROWS_PER_CELL)
}

/// The pyramid of a column: its cells' fields one after the other, then the counts where something is missing.
pub(crate) fn pack_values(values: &[f64]) -> Packed {
    let cells: Vec<PyramidCell> = values.chunks(ROWS_PER_CELL).map(PyramidCell::of).collect();
    let fields: [fn(&PyramidCell) -> f64; 4] = [|c| c.first, |c| c.min, |c| c.max, |c| c.last];
    let numbers: Vec<f64> = fields
        .iter()
        .flat_map(|field| cells.iter().map(field))
        .collect();
    let mut packed = pack(&numbers);
    let is_complete = cells
        .iter()
        .all(|c| c.nan_count == 0 && c.absent_count == 0);
    let mut bytes = vec![u8::from(!is_complete)];
    if !is_complete {
        for cell in &cells {
            bytes.extend_from_slice(&[cell.nan_count as u8, cell.absent_count as u8]);
        }
    }
    bytes.append(&mut packed.bytes);
    Packed {
        encoding: packed.encoding,
        bytes,
    }
}

/// The cells over `rows` values; `None` when the bytes do not hold them.
pub(crate) fn unpack_values(encoding: u8, bytes: &[u8], rows: usize) -> Option<Vec<PyramidCell>> {
    let cells = cell_count(rows);
    let (flag, rest) = bytes.split_first()?;
    let (counts, rest) = match flag {
        0 => (None, rest),
        _ => {
            let (counts, rest) = rest.split_at_checked(cells * 2)?;
            (Some(counts), rest)
        }
    };
    let numbers: Vec<f64> = unpack(encoding, rest, cells * 4)?;
    let cell = |index: usize| {
        let rows_here = (rows - index * ROWS_PER_CELL).min(ROWS_PER_CELL) as u32;
        let (nan_count, absent_count) = counts.map_or((0, 0), |counts| {
            (counts[index * 2].into(), counts[index * 2 + 1].into())
        });
        PyramidCell {
            first: numbers[index],
            min: numbers[cells + index],
            max: numbers[cells * 2 + index],
            last: numbers[cells * 3 + index],
            count: rows_here
                .saturating_sub(nan_count)
                .saturating_sub(absent_count),
            nan_count,
            absent_count,
        }
    };
    Some((0..cells).map(cell).collect())
}

/// The pyramid of the times.
pub(crate) fn pack_times(times: &[u64]) -> Packed {
    let cells: Vec<TimeCell> = times.chunks(ROWS_PER_CELL).map(time_cell).collect();
    let fields: [fn(&TimeCell) -> u64; 3] = [|c| c.first, |c| c.last, |c| c.largest_gap];
    let numbers: Vec<u64> = fields
        .iter()
        .flat_map(|field| cells.iter().map(field))
        .collect();
    pack(&numbers)
}

fn time_cell(times: &[u64]) -> TimeCell {
    let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    TimeCell {
        first: times.first().copied().unwrap_or(0),
        last: times.last().copied().unwrap_or(0),
        largest_gap: gaps.max().unwrap_or(0),
    }
}

/// The time cells over `rows` rows.
pub(crate) fn unpack_times(encoding: u8, bytes: &[u8], rows: usize) -> Option<Vec<TimeCell>> {
    let cells = cell_count(rows);
    let numbers: Vec<u64> = unpack(encoding, bytes, cells * 3)?;
    let cell = |index: usize| TimeCell {
        first: numbers[index],
        last: numbers[cells + index],
        largest_gap: numbers[cells * 2 + index],
    };
    Some((0..cells).map(cell).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cells_are_those_of_the_values(values in prop::collection::vec(prop_oneof![8 => any::<f64>(), 1 => Just(ABSENT)], 1..400)) {
            let packed = pack_values(&values);
            let cells = unpack_values(packed.encoding, &packed.bytes, values.len()).unwrap();
            let expected: Vec<PyramidCell> = values.chunks(ROWS_PER_CELL).map(PyramidCell::of).collect();
            prop_assert_eq!(format!("{cells:?}"), format!("{expected:?}"));
        }

        #[test]
        fn garbage_is_refused_without_panic(encoding in 0u8..3, bytes in prop::collection::vec(any::<u8>(), 0..300), rows in 0usize..5000) {
            let _ = unpack_values(encoding, &bytes, rows);
            let _ = unpack_times(encoding, &bytes, rows);
        }
    }
}
