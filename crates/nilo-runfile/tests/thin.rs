//! A thinned run has the extremes of the whole one, at their places.

#![allow(clippy::unwrap_used)]

mod support;

use nilo_runfile::RunWriter;
use nilo_sample::rows::{ProcessRow, TreeRow};
use nilo_sample::{ProcessId, Recording, SeriesView, Subject, TableSpec, TypedRow};
use support::{Scratch, metrics, small_segments, wait_for_blocks};

const ROWS: u64 = 40_000;
const STEP: u64 = 1000;
const PIXELS: usize = 200;
const PROCESS: ProcessId = ProcessId {
    pid: 7,
    start_ticks: 0,
};

/// A tree, its process and a metric, with a pause in the middle and a spike of one row.
fn recorded(compact: bool, odd: f64) -> Scratch {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", small_segments(compact)).unwrap();
    let tree = writer.define(&TableSpec::tree());
    let process = writer.define(&TableSpec::process(PROCESS));
    let metric = writer.define(&metrics("m", 2));
    for index in 0..ROWS {
        let pause = if index >= 17_777 { 5000 * STEP } else { 0 };
        let time = scratch.start + index * STEP + pause;
        let wave = 1e9 + 1e8 * (index as f64 / 500.0).sin();
        let bytes = if index == 23_456 { 5e9 } else { wave.floor() };
        let of_tree = TreeRow {
            memory_bytes: bytes,
            rss_bytes: bytes,
            high_water_bytes: if index == 31_234 { 6e9 } else { bytes },
            cpu_nanos: index as f64,
            processes: if index == 23_456 { 3.0 } else { 1.0 },
            ..TreeRow::ABSENT
        };
        assert!(writer.append(tree, time, None, &of_tree.values()));
        let of_process = ProcessRow {
            rss_bytes: bytes,
            memory_bytes: bytes / 2.0,
            cpu_nanos: index as f64,
            ..ProcessRow::ABSENT
        };
        assert!(writer.append(process, time, None, &of_process.values()));
        let value = if index == 3000 { odd } else { wave };
        assert!(writer.append(metric, time, Some(index as i64), &[value, 1.0]));
    }
    if compact {
        wait_for_blocks(scratch.run.path());
    }
    writer.close();
    scratch
}

fn read(scratch: &Scratch) -> (Recording, Recording) {
    let thinned = scratch.run.load_thinned(PIXELS, &|_| true).unwrap();
    (scratch.run.load().unwrap(), thinned)
}

fn minimum(series: SeriesView<'_>) -> f64 {
    series
        .present()
        .map(|(_, value)| value)
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn a_thinned_run_has_the_extremes_and_the_ends_of_every_column() {
    let (whole, thinned) = read(&recorded(true, 0.5));
    assert!(thinned.damage.is_empty());
    assert_eq!(thinned.events, whole.events);
    for table in &whole.tables {
        let few = thinned.table(&table.spec.subject).unwrap();
        assert!(few.times.is_sorted());
        // The last rows still lie in segments.
        assert!(few.times.len() < 20_000, "{} rows", few.times.len());
        assert_eq!(few.times.last(), table.times.last());
        for column in &table.spec.columns {
            let (all, few) = (
                table.series(&column.name).unwrap(),
                few.series(&column.name).unwrap(),
            );
            let values = |series: SeriesView<'_>| series.max().map(|(_, value)| value);
            assert_eq!(values(few), values(all), "{}", column.name);
            assert_eq!(minimum(few), minimum(all), "{}", column.name);
            assert_eq!(few.last(), all.last(), "{}", column.name);
            assert_eq!(few.present().next(), all.present().next());
        }
    }
}

#[test]
fn the_row_of_a_highest_level_is_whole_and_at_its_time() {
    let (whole, thinned) = read(&recorded(true, 0.5));
    for column in ["memory_bytes", "high_water_bytes"] {
        let at = |recording: &Recording| {
            let tree = recording.table(&Subject::Tree).unwrap();
            let (time, _) = tree.series(column).unwrap().max().unwrap();
            let row = tree.times.partition_point(|it| *it < time);
            let columns = tree.columns.iter().map(|column| column[row].to_bits());
            (time, columns.collect::<Vec<_>>())
        };
        assert_eq!(at(&thinned), at(&whole), "{column}");
    }
}

#[test]
fn a_table_that_holds_its_values_has_one_in_every_row() {
    let (_, thinned) = read(&recorded(true, 0.5));
    let process = thinned.table(&Subject::Process(PROCESS)).unwrap();
    let memory = process.series("memory_bytes").unwrap();
    assert_eq!(memory.present().count(), process.times.len());
}

#[test]
fn a_pause_is_the_only_one_longer_than_two_pixels() {
    let (_, thinned) = read(&recorded(true, 0.5));
    let tree = thinned.table(&Subject::Tree).unwrap();
    let long = |pair: &&[u64]| pair[1] - pair[0] > 2 * thinned.thinned_nanos;
    let pauses: Vec<&[u64]> = tree.times.windows(2).filter(long).collect();
    assert_eq!(
        pauses,
        [[17_776 * STEP, 17_777 * STEP + 5000 * STEP].as_slice()]
    );
}

#[test]
fn what_is_not_finite_is_read_whole_so_that_it_can_be_counted() {
    for odd in [f64::NAN, f64::INFINITY] {
        let (whole, thinned) = read(&recorded(true, odd));
        let metric = |recording: &Recording| {
            let table = recording.table(&metrics("m", 2).subject).unwrap();
            (table.times.clone(), table.steps.clone())
        };
        assert_eq!(metric(&thinned), metric(&whole));
        assert!(thinned.table(&Subject::Tree).unwrap().times.len() < 20_000);
    }
}

#[test]
fn small_runs_and_rows_still_in_segments_are_read_whole() {
    let (whole, thinned) = read(&recorded(false, 0.5));
    assert_eq!(thinned.thinned_nanos, 0);
    assert_eq!(format!("{thinned:?}"), format!("{whole:?}"));
    let scratch = recorded(true, 0.5);
    let compacted = &scratch.run;
    let many = compacted.load_thinned(8192, &|_| true).unwrap();
    assert_eq!(many.thinned_nanos, 0);
    assert_eq!(
        format!("{many:?}"),
        format!("{:?}", compacted.load().unwrap())
    );
}
