//! Columns of blocks, decoded by several threads straight into the tables that they belong to.
//!
//! A collector notes which rows still lie in blocks and has them decoded together.
//! By then it is known how many there are: each vector is allocated once, and each thread writes to a part of its own.
//! Appending block after block instead takes twice as long on two processors: half of it goes into growing vectors and into the first touch of their pages (`bench/series_reading.py`).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use nilo_sample::{NO_STEP, RecordedTable};

use crate::axis::Shift;
use crate::block::{BlockPosition, TableEntry};
use crate::blocks::{BlockPlace, read_place};
use crate::collect::Tally;
use crate::column::{unpack_into, unpack_values_into};
use crate::thin::thin;
use crate::zeroed::zeroed;

/// More threads than this gain little, and a training job may want the processors.
const MOST_THREADS: usize = 8;
/// Decoding this much takes several times as long as starting a thread.
const BYTES_PER_THREAD: u64 = 1 << 20;

/// Rows of a table that still lie in a block.
pub(crate) struct PackedRows {
    /// The table's position among those given to [`unpack_all`].
    pub(crate) slot: usize,
    /// How many of the table's rows come before them, those in blocks left out.
    pub(crate) follows: usize,
    pub(crate) file: Arc<File>,
    pub(crate) block: BlockPlace,
    pub(crate) entry: TableEntry,
    /// The one column to take; all without one.
    pub(crate) only: Option<usize>,
    pub(crate) shift: Shift,
}

impl PackedRows {
    fn count(&self) -> usize {
        self.entry.rows as usize
    }
}

/// Puts rows into their tables, each table's in the given order. What is damaged is left out and told.
/// With a number of pixels large tables are thinned to that many; returns how wide these are at most.
pub(crate) fn unpack_all(
    tables: &mut [RecordedTable],
    packed: Vec<PackedRows>,
    pixels: Option<usize>,
    tally: &mut Tally,
) -> u64 {
    let mut thinned_nanos = 0;
    let mut by_slot: Vec<Vec<PackedRows>> = Vec::new();
    by_slot.resize_with(tables.len(), Vec::new);
    for rows in packed {
        by_slot[rows.slot].push(rows);
    }
    let mut jobs = Vec::new();
    for (table, packed) in tables.iter_mut().zip(by_slot) {
        let Some(first) = packed.first() else {
            continue;
        };
        let thinned = pixels.and_then(|pixels| thin(&table.spec, &packed, pixels));
        if let Some(thinned) = thinned {
            thinned_nanos = thinned_nanos.max(thinned.pixel_nanos);
            thinned.append_to(table);
            continue;
        }
        match make_room(table, &packed) {
            Some(plain) => lay_out(TableRowsMut::of(table), &plain, packed, &mut jobs),
            None => tally.complain(format!(
                "the rows of table {} do not fit into memory",
                first.entry.table
            )),
        }
    }
    let mut failures = run(jobs);
    failures.sort_by_key(|failure| (failure.slot, failure.rows.start));
    for failures in failures.chunk_by(|one, other| one.slot == other.slot) {
        let table = &mut tables[failures[0].slot];
        cut_out(&mut table.times, failures);
        cut_out(&mut table.steps, failures);
        for column in &mut table.columns {
            cut_out(column, failures);
        }
    }
    for failure in failures {
        tally.complain(failure.sentence);
    }
    thinned_nanos
}

/// The vectors that a table had before there was room for more.
struct TableVectors {
    times: Vec<u64>,
    steps: Vec<i64>,
    columns: Vec<Vec<f64>>,
}

/// Gives a table vectors of zeros, as long as everything that goes into them.
/// `None`, and the table stays as it is, when there is no such memory: a forged block may promise any number of rows.
fn make_room(table: &mut RecordedTable, packed: &[PackedRows]) -> Option<TableVectors> {
    let has_steps = !table.steps.is_empty() || packed.iter().any(|p| p.entry.steps.is_some());
    let rows = table.times.len() + packed.iter().map(PackedRows::count).sum::<usize>();
    let times = zeroed(rows)?;
    let steps = zeroed(if has_steps { rows } else { 0 })?;
    let columns: Option<Vec<_>> = table.columns.iter().map(|_| zeroed(rows)).collect();
    Some(TableVectors {
        columns: std::mem::replace(&mut table.columns, columns?),
        times: std::mem::replace(&mut table.times, times),
        steps: std::mem::replace(&mut table.steps, steps),
    })
}

/// Copies the rows that were there to their places, and makes a job of each stretch in between.
fn lay_out<'a>(
    mut room: TableRowsMut<'a>,
    plain: &TableVectors,
    packed: Vec<PackedRows>,
    jobs: &mut Vec<UnpackTask<'a>>,
) {
    let (mut copied, mut unpacked) = (0, 0);
    for packed in packed {
        room.take(packed.follows - copied).copy(plain, copied);
        copied = packed.follows;
        let first_row = copied + unpacked;
        unpacked += packed.count();
        jobs.push(UnpackTask {
            room: room.take(packed.count()),
            first_row,
            packed,
        });
    }
    room.copy(plain, copied);
}

/// A stretch of a table's rows, to be written.
struct TableRowsMut<'a> {
    times: &'a mut [u64],
    /// Empty in a table without steps.
    steps: &'a mut [i64],
    columns: Vec<&'a mut [f64]>,
}

impl<'a> TableRowsMut<'a> {
    fn of(table: &'a mut RecordedTable) -> TableRowsMut<'a> {
        TableRowsMut {
            times: &mut table.times,
            steps: &mut table.steps,
            columns: table.columns.iter_mut().map(Vec::as_mut_slice).collect(),
        }
    }

    /// Cuts off the first rows.
    fn take(&mut self, count: usize) -> TableRowsMut<'a> {
        let columns = self.columns.iter_mut();
        TableRowsMut {
            times: take_front(&mut self.times, count),
            steps: take_front(&mut self.steps, count),
            columns: columns.map(|column| take_front(column, count)).collect(),
        }
    }

    fn copy(self, plain: &TableVectors, first: usize) {
        let rows = first..first + self.times.len();
        self.times.copy_from_slice(&plain.times[rows.clone()]);
        match plain.steps.get(rows.clone()) {
            Some(steps) if !self.steps.is_empty() => self.steps.copy_from_slice(steps),
            _ => self.steps.fill(NO_STEP),
        }
        for (column, values) in self.columns.into_iter().zip(&plain.columns) {
            column.copy_from_slice(&values[rows.clone()]);
        }
    }
}

fn take_front<'a, T>(slice: &mut &'a mut [T], count: usize) -> &'a mut [T] {
    slice
        .split_off_mut(..count.min(slice.len()))
        .unwrap_or_default()
}

/// Rows in a block, and where they go.
struct UnpackTask<'a> {
    packed: PackedRows,
    first_row: usize,
    room: TableRowsMut<'a>,
}

/// Rows that stay zeros, since they could not be decoded.
struct UndecodedRows {
    slot: usize,
    rows: Range<usize>,
    sentence: String,
}

/// Does jobs, several at a time where there is much to do.
fn run(jobs: Vec<UnpackTask<'_>>) -> Vec<UndecodedRows> {
    let bytes: u64 = jobs.iter().map(UnpackTask::decoded_bytes).sum();
    let threads = match usize::try_from(bytes / BYTES_PER_THREAD) {
        Ok(0 | 1) => 1,
        Ok(threads) => std::thread::available_parallelism().map_or(1, |p| threads.min(p.get())),
        Err(_) => MOST_THREADS,
    };
    let threads = threads.min(jobs.len()).min(MOST_THREADS);
    let queue = Mutex::new(jobs.into_iter());
    let failures = Mutex::new(Vec::new());
    let work = || {
        let mut buffer = Vec::new();
        loop {
            let job = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(job) = job else { return };
            if let Err(failure) = job.run(&mut buffer) {
                let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                failures.push(failure);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Where no thread can be had, this one does it all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    failures
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
}

impl UnpackTask<'_> {
    fn decoded_bytes(&self) -> u64 {
        let width = 2 + self.room.columns.len();
        (self.room.times.len() * 8 * width) as u64
    }

    fn run(self, buffer: &mut Vec<u8>) -> Result<(), UndecodedRows> {
        let UnpackTask {
            packed,
            first_row,
            mut room,
        } = self;
        packed
            .decode(&mut room, buffer)
            .map_err(|error| UndecodedRows {
                slot: packed.slot,
                rows: first_row..first_row + packed.count(),
                sentence: format!(
                    "table {} of segment {}: {}",
                    packed.entry.table,
                    packed.block.head.segment,
                    match error.kind() {
                        io::ErrorKind::InvalidData => "the columns are damaged".to_owned(),
                        _ => error.to_string(),
                    }
                ),
            })
    }
}

impl PackedRows {
    /// Reads and decodes the columns that are wanted and no others.
    fn decode(&self, room: &mut TableRowsMut<'_>, buffer: &mut Vec<u8>) -> io::Result<()> {
        let mut read = |place: &BlockPosition, decode: &mut dyn FnMut(&[u8]) -> Option<()>| {
            read_place(&self.file, &self.block, place, buffer)?;
            decode(buffer).ok_or(io::Error::from(io::ErrorKind::InvalidData))
        };
        let entry = &self.entry;
        read(&entry.times, &mut |bytes| {
            unpack_into(entry.times.encoding, bytes, room.times)
        })?;
        for time in &mut *room.times {
            *time = self.shift.apply(*time);
        }
        match &entry.steps {
            Some(steps) => read(steps, &mut |bytes| {
                unpack_into(steps.encoding, bytes, room.steps)
            })?,
            None => room.steps.fill(NO_STEP),
        }
        // The collector has seen to it that there are as many columns as the table declares.
        let columns = entry.columns.iter().skip(self.only.unwrap_or(0));
        for (column, room) in columns.zip(&mut room.columns) {
            read(&column.values, &mut |bytes| {
                unpack_values_into(column.values.encoding, bytes, room)
            })?;
        }
        Ok(())
    }
}

/// Removes the rows of failures, which are sorted, in one pass: a hostile file may have many.
fn cut_out<T: Copy>(numbers: &mut Vec<T>, failures: &[UndecodedRows]) {
    if numbers.is_empty() {
        return; // A table without steps.
    }
    let ends = failures.iter().skip(1).map(|next| next.rows.start);
    let ends = ends.chain([numbers.len()]);
    let mut kept = failures.first().map_or(numbers.len(), |f| f.rows.start);
    for (failure, end) in failures.iter().zip(ends) {
        let rows = failure.rows.end..end;
        let count = rows.len();
        numbers.copy_within(rows, kept);
        kept += count;
    }
    numbers.truncate(kept);
}
