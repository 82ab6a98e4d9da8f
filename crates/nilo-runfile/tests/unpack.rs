//! Many blocks, decoded by several threads into one table: every row in its place, and damage costs what it hits.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod support;

use std::time::Duration;

use nilo_runfile::{RunWriter, WriterOptions};
use nilo_sample::{NO_STEP, RecordedTable, Recording};
use support::{Scratch, metrics};

/// Enough for several threads: 4 MiB when decoded.
const ROWS: u64 = 130_000;

/// A run of many blocks and a raw tail with two tables. Every row of `busy` has a step.
/// `calm` has few rows in most segments, which keep them as records, and many in some; a third of them have a step.
fn mixed_run() -> Scratch {
    let scratch = Scratch::new();
    let options = WriterOptions {
        first_segment_bytes: 128 << 10,
        max_segment_bytes: 256 << 10,
        ..WriterOptions::default()
    };
    let mut writer = RunWriter::create(scratch.run.path(), "w", options).unwrap();
    let (busy, calm) = (
        writer.define(&metrics("busy", 2)),
        writer.define(&metrics("calm", 1)),
    );
    for index in 0..ROWS {
        let (time, value) = (scratch.start + index, index as f64);
        assert!(writer.append(busy, time, Some(index as i64), &[value, -value]));
        if is_calm_row(&index) {
            let step = index.is_multiple_of(3).then_some(index as i64);
            assert!(writer.append(calm, time, step, &[value]));
        }
    }
    // Blocks are made on a thread of their own, which gets two seconds when the writer closes: too little on a busy machine.
    while segments(&scratch) > 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    writer.close();
    scratch
}

fn segments(scratch: &Scratch) -> usize {
    let files = std::fs::read_dir(scratch.run.path()).unwrap();
    let names = files.map(|file| file.unwrap().file_name());
    let is_segment = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".nilo");
    names.filter(is_segment).count()
}

/// Such that every segment begins with a row of `busy`, whose columns then come first in its block.
fn is_calm_row(index: &u64) -> bool {
    index / 11_000 % 3 == 1 || index.is_multiple_of(1000)
}

fn table(recording: &Recording, columns: usize) -> &RecordedTable {
    let mut tables = recording.tables.iter();
    tables.find(|t| t.columns.len() == columns).unwrap()
}

#[test]
fn rows_of_blocks_and_records_stand_in_their_order() {
    let scratch = mixed_run();
    let recording = scratch.run.load().unwrap();
    assert_eq!(recording.damage, Vec::<String>::new());
    let busy = table(&recording, 2);
    assert!(busy.times.iter().copied().eq(0..ROWS));
    assert!(busy.steps.iter().copied().eq(0..ROWS as i64));
    assert!(
        busy.columns[0]
            .iter()
            .copied()
            .eq((0..ROWS).map(|i| i as f64))
    );
    assert!(
        busy.columns[1]
            .iter()
            .copied()
            .eq((0..ROWS).map(|i| -(i as f64)))
    );

    let calm = table(&recording, 1);
    let logged = (0..ROWS).filter(is_calm_row);
    assert!(calm.times.iter().copied().eq(logged));
    for ((time, step), value) in calm.times.iter().zip(&calm.steps).zip(&calm.columns[0]) {
        let expected = match time.is_multiple_of(3) {
            true => *time as i64,
            false => NO_STEP,
        };
        assert_eq!((*step, *value), (expected, *time as f64));
    }
    assert_eq!(
        scratch.run.follow().poll().unwrap().tables,
        recording.tables
    );
}

/// Damages the times of the first table in some of the blocks; gives the name of their file.
fn damage_times(scratch: &Scratch, is_chosen: impl Fn(usize) -> bool) -> String {
    let (name, mut bytes) = scratch.bytes_of(".nilc");
    let starts = (0..bytes.len()).step_by(8);
    let blocks: Vec<usize> = starts
        .filter(|at| bytes[*at..].starts_with(b"NBLK"))
        .collect();
    assert!(blocks.len() > 8, "{} blocks", blocks.len());
    let chosen = blocks.iter().enumerate().filter(|(at, _)| is_chosen(*at));
    for (_, block) in chosen {
        let len_at = |at| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let columns = block + 96 + len_at(block + 20) + len_at(block + 28);
        bytes[columns + 3] ^= 0x10;
    }
    std::fs::write(scratch.run.path().join(&name), &bytes).unwrap();
    name
}

#[test]
fn damaged_blocks_are_told_and_the_other_rows_stay_whole() {
    let scratch = mixed_run();
    let name = damage_times(&scratch, |block| [2, 3, 7].contains(&block));
    let recording = scratch.run.load().unwrap();
    assert_eq!(recording.damage.len(), 3, "{:?}", recording.damage);
    for (sentence, segment) in recording.damage.iter().zip([2, 3, 7]) {
        assert!(sentence.contains(&format!("segment {segment}: the columns are damaged")));
        assert!(sentence.ends_with(&name), "{sentence}");
    }
    let busy = table(&recording, 2);
    let rows = busy.times.len();
    assert!(rows as u64 > ROWS / 2 && (rows as u64) < ROWS, "{rows}");
    assert_eq!((busy.steps.len(), busy.columns[1].len()), (rows, rows));
    for ((time, step), value) in busy.times.iter().zip(&busy.steps).zip(&busy.columns[0]) {
        assert_eq!((*step, *value), (*time as i64, *time as f64));
    }
    let one = scratch.run.load_column("c1", &|_| true).unwrap();
    assert_eq!(one.tables[0].times, busy.times);
    assert_eq!(one.tables[0].columns[0], busy.columns[1]);
    assert_eq!(one.damage, recording.damage);
    let update = scratch.run.follow().poll().unwrap();
    assert_eq!(update.tables, recording.tables);
}

#[test]
fn a_table_without_a_readable_row_is_left_out() {
    let scratch = mixed_run();
    let raw = scratch.file_names().into_iter();
    for name in raw.filter(|name| name.ends_with(".nilo")) {
        std::fs::remove_file(scratch.run.path().join(name)).unwrap();
    }
    damage_times(&scratch, |_| true);
    let recording = scratch.run.load().unwrap();
    assert_eq!(recording.tables.len(), 1);
    assert_eq!(recording.tables[0].columns.len(), 1);
    assert!(recording.damage.len() > 8);
}
