//! A chart from the files is the chart of the loaded run.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod support;

use nilo_runfile::downsample::m4;
use nilo_runfile::{PixelColumn, RunWriter, RunfileError, TableSelector};
use nilo_sample::{ABSENT, Subject};
use proptest::prelude::*;
use support::{Scratch, metrics, small_segments};

const ROWS: u64 = 40_000;
const STEP: u64 = 1000;

fn recorded(compact: bool) -> Scratch {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", small_segments(compact)).unwrap();
    let table = writer.define(&metrics("m", 2));
    for index in 0..ROWS {
        // A pause of a hundred rows in the middle, one spike, some values missing.
        let time = index * STEP + if index >= 17_777 { 100 * STEP } else { 0 };
        let value = match index {
            23_456 => 1e12,
            _ if index % 1000 == 3 => ABSENT,
            _ if index % 1000 == 5 => f64::NAN,
            _ => (index as f64 / 500.0).sin(),
        };
        assert!(writer.append(table, scratch.start + time, None, &[value, 1.0]));
    }
    writer.close();
    scratch
}

fn selector() -> TableSelector {
    TableSelector::subject(metrics("m", 2).subject)
}

fn extremes(buckets: &[PixelColumn]) -> (f64, f64) {
    let full = || buckets.iter().filter(|bucket| bucket.count > 0);
    let max = full()
        .map(|b| b.max.value)
        .fold(f64::NEG_INFINITY, f64::max);
    let min = full().map(|b| b.min.value).fold(f64::INFINITY, f64::min);
    (min, max)
}

#[test]
fn raw_and_compacted_charts_hide_neither_spike_nor_gap() {
    for compact in [false, true] {
        let scratch = recorded(compact);
        for pixels in [1, 10, 300, 2000, 100_000] {
            let to = (ROWS + 100) * STEP;
            let chart = scratch
                .run
                .chart(&selector(), "c0", 0, to, pixels, Some(10 * STEP));
            let chart = chart.unwrap();
            assert_eq!(extremes(&chart).1, 1e12);
            let gaps = chart.iter().filter(|b| b.gap_before).count();
            assert_eq!(gaps, 1, "compact {compact}, {pixels} pixels");
            let total: u64 = chart
                .iter()
                .map(|b| b.count + b.nan_count + b.absent_count)
                .sum();
            assert_eq!(total, ROWS);
            assert!(chart.len() <= 2 * pixels);
        }
    }
}

#[test]
fn what_is_not_there_is_named() {
    let scratch = recorded(true);
    let chart = |table: &TableSelector, column| scratch.run.chart(table, column, 0, 1, 1, None);
    assert!(matches!(
        chart(&TableSelector::subject(Subject::Tree), "c0"),
        Err(RunfileError::NoSuchTable { .. })
    ));
    assert!(matches!(
        chart(&selector(), "c9"),
        Err(RunfileError::NoSuchColumn { .. })
    ));
}

#[test]
fn charts_of_any_range_agree_with_the_loaded_run() {
    let (raw, compacted) = (recorded(false), recorded(true));
    let loaded = raw.run.load().unwrap();
    let series = loaded.tables[0].series("c0").unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(40));
    let ranges = (0..ROWS * STEP, 0..ROWS * STEP, 1usize..3000);
    runner
        .run(&ranges, |(a, b, pixels)| {
            let (from, to) = (a.min(b), a.max(b));
            let gap = Some(10 * STEP);
            let expected = m4(series.times, series.values, from, to, pixels, gap);
            let chart = raw
                .run
                .chart(&selector(), "c0", from, to, pixels, gap)
                .unwrap();
            prop_assert_eq!(format!("{:?}", &chart), format!("{:?}", &expected));
            let chart = compacted
                .run
                .chart(&selector(), "c0", from, to, pixels, gap)
                .unwrap();
            prop_assert_eq!(extremes(&chart), extremes(&expected));
            let rows = |buckets: &[PixelColumn]| -> u64 {
                buckets
                    .iter()
                    .map(|b| b.count + b.nan_count + b.absent_count)
                    .sum()
            };
            prop_assert_eq!(rows(&chart), rows(&expected));
            Ok(())
        })
        .unwrap();
}
