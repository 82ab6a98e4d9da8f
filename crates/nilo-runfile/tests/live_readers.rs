//! Readers beside a writer that never pauses: whatever moment they look, they see every row up to some row, and none is missing before it.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nilo_runfile::{RunFolder, RunWriter, WriteMode, WriterOptions, monotonic_nanos};
use nilo_sample::RecordedTable;
use support::{Scratch, metrics, small_segments};

const READERS: usize = 10;
const FOLLOWERS: usize = 3;

/// The first row that is not the one after its predecessor.
fn first_break(values: &[f64], from: usize) -> Option<usize> {
    (0..values.len()).find(|&index| values[index] != (from + index) as f64)
}

fn read_all_the_time(run: &RunFolder, rows: u32, is_written: &AtomicBool, reads: &AtomicUsize) {
    let mut longest = 0;
    loop {
        // Asked before reading: the last look is at the whole run.
        let is_last = is_written.load(Ordering::Acquire);
        let recording = run.load().unwrap();
        let tables: Vec<&RecordedTable> = recording.tables.iter().collect();
        let values = tables.first().map_or(&[][..], |table| &table.columns[0]);
        let broken = first_break(values, 0);
        assert_eq!(
            broken,
            None,
            "of {} rows; {:?}",
            values.len(),
            recording.damage
        );
        assert_eq!(recording.damage, Vec::<String>::new());
        assert!(values.len() >= longest, "{} after {longest}", values.len());
        longest = values.len();
        reads.fetch_add(1, Ordering::Relaxed);
        if is_last {
            assert_eq!(longest, rows as usize);
            return;
        }
    }
}

fn follow_all_the_time(run: &RunFolder, rows: u32, is_written: &AtomicBool) {
    let mut follower = run.follow();
    let mut seen = 0;
    loop {
        let is_last = is_written.load(Ordering::Acquire);
        let update = follower.poll().unwrap();
        assert_eq!(update.damage, Vec::<String>::new());
        for table in &update.tables {
            assert_eq!(first_break(&table.columns[0], seen), None, "after {seen}");
            seen += table.times.len();
        }
        if is_last {
            assert_eq!(seen, rows as usize);
            return;
        }
    }
}

fn no_reader_sees_a_hole(rows: u32, options: WriterOptions) -> usize {
    let scratch = Scratch::new();
    let (is_written, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| read_all_the_time(&scratch.run, rows, &is_written, &reads));
        }
        for _ in 0..FOLLOWERS {
            scope.spawn(|| follow_all_the_time(&scratch.run, rows, &is_written));
        }
        let mut writer = RunWriter::create(scratch.run.path(), "w", options).unwrap();
        let table = writer.define(&metrics("m", 3));
        for index in 0..rows {
            let index = f64::from(index);
            writer.append(table, monotonic_nanos(), None, &[index, index.sin(), 1.0]);
        }
        assert_eq!(writer.dropped(), 0);
        writer.close();
        is_written.store(true, Ordering::Release);
    });
    reads.into_inner()
}

#[test]
fn no_reader_sees_a_hole_while_segments_are_compacted() {
    let options = WriterOptions {
        mode: WriteMode::Mapped,
        ..small_segments(true)
    };
    println!("{} reads", no_reader_sees_a_hole(200_000, options));
}

#[test]
fn no_reader_sees_a_hole_in_large_segments() {
    // Short runs, one after the other: the end of the rows, where a reader meets the writer, is most of them.
    let options = || WriterOptions {
        mode: WriteMode::Mapped,
        first_segment_bytes: 1 << 20,
        max_segment_bytes: 4 << 20,
        ..WriterOptions::default()
    };
    let reads: usize = (0..10)
        .map(|_| no_reader_sees_a_hole(20_000, options()))
        .sum();
    println!("{reads} reads");
}

#[test]
fn no_reader_sees_a_hole_in_segments_that_are_not_mapped() {
    let options = WriterOptions {
        mode: WriteMode::Written,
        ..small_segments(true)
    };
    println!("{} reads", no_reader_sees_a_hole(200_000, options));
}
