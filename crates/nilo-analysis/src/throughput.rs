//! How much training got through: totals and rates from the running totals of each tracker of each writer.
//!
//! Rates are of the time from a writer's first batch to its last row, so that loading a model does not count against training,
//! without the pauses that the writer says there were (`counted_nanos` stands still): evaluations, checkpoints.
//! A first batch is in the rates where the writer says how long it took; otherwise it is in the total alone.
//! What several ranks or trackers get through at once is added up. A batch is a training step, which ranks take together:
//! the rank that took the most of them speaks for all, over its own time.

use std::collections::BTreeMap;

use nilo_sample::units::{NANOS_PER_SEC, to_secs};
use nilo_sample::{RecordedTable, Recording, SeriesView, Subject};
use schemars::JsonSchema;
use serde::Serialize;

use crate::spans::{concurrency, union_nanos};

/// "Recent" is the last minute, or the last tenth of a shorter run.
const RECENT_NANOS: u64 = 60 * NANOS_PER_SEC;

/// It is not less than so many batches, or all of them where there are fewer: of one alone, much of the time may have been left out.
const RECENT_BATCHES: usize = 5;

/// What a run got through.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ThroughputSummary {
    /// Time during which at least one process counted, without pauses.
    pub counted_secs: f64,
    /// Length of the stretch at the end that `recent_per_sec` is about, without pauses: a minute or a tenth of a shorter run, and five batches at least.
    pub recent_secs: f64,
    /// Batches: training steps, which the ranks of a distributed run take together. Absent when nobody counted them, like those below.
    pub batches: Option<CounterSummary>,
    /// Samples of all ranks.
    pub samples: Option<CounterSummary>,
    /// Tokens of all ranks.
    pub tokens: Option<CounterSummary>,
}

/// One counter over all writers.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct CounterSummary {
    /// How many in all.
    pub total: f64,
    /// Of them those that `mean_per_sec` is of: without a first batch of which nobody said when it began.
    pub timed: f64,
    /// How many a second; absent when none was timed.
    pub mean_per_sec: Option<f64>,
    /// How many a second at the end.
    pub recent_per_sec: Option<f64>,
}

impl ThroughputSummary {
    /// The counters that there are, with their names.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, CounterSummary)> + use<> {
        [
            ("batches", self.batches),
            ("samples", self.samples),
            ("tokens", self.tokens),
        ]
        .into_iter()
        .filter_map(|(name, counter)| Some((name, counter?)))
    }
}

/// Summarizes the running totals; `None` when there are none.
pub fn summarize_throughput(recording: &Recording) -> Option<ThroughputSummary> {
    let counted = |table: &&RecordedTable| {
        matches!(table.spec.subject, Subject::Throughput { .. }) && !table.times.is_empty()
    };
    let tables: Vec<&RecordedTable> = recording.tables.iter().filter(counted).collect();
    let all = CountedTime::of(&tables)?;
    let steps = of_rank_with_most_batches(&tables);
    let batches = CountedTime::of(&steps).and_then(|time| summarize(&steps, "batches", time));
    let samples = summarize(&tables, "samples", all);
    let tokens = summarize(&tables, "tokens", all);
    let found = [batches, samples, tokens];
    let recent_nanos = found.iter().flatten().map(|counted| counted.recent_nanos);
    let recent_nanos = recent_nanos.reduce(f64::max)?;
    let [batches, samples, tokens] = found.map(|counted| counted.map(|counted| counted.summary));
    Some(ThroughputSummary {
        counted_secs: to_secs(all.counted_nanos),
        recent_secs: to_secs(recent_nanos as u64),
        batches,
        samples,
        tokens,
    })
}

/// The time over which something was counted.
#[derive(Debug, Clone, Copy)]
struct CountedTime {
    counted_nanos: u64,
    recent_nanos: u64,
    end_nanos: u64,
}

impl CountedTime {
    fn of(tables: &[&RecordedTable]) -> Option<CountedTime> {
        let span = |table: &&RecordedTable| {
            let began = first_batch_began(table).or(table.times.first().copied())?;
            Some((began, *table.times.last()?))
        };
        let mut spans: Vec<(u64, u64)> = tables.iter().filter_map(span).collect();
        let end_nanos = spans.iter().map(|(_, to)| *to).max()?;
        // Ranks pause together, attempts one after the other.
        let paused: f64 = tables.iter().map(|table| paused_nanos(table)).sum();
        let paused = (paused / concurrency(&mut spans)) as u64;
        let counted_nanos = union_nanos(&mut spans).saturating_sub(paused);
        Some(CountedTime {
            counted_nanos,
            recent_nanos: RECENT_NANOS.min(counted_nanos / 10),
            end_nanos,
        })
    }
}

/// Tables of the rank that took the most batches, the first of several: one that ended early took fewer of the steps.
/// All tables where nobody has a rank.
fn of_rank_with_most_batches<'a>(tables: &[&'a RecordedTable]) -> Vec<&'a RecordedTable> {
    let mut by_rank: BTreeMap<u32, f64> = BTreeMap::new();
    for table in tables {
        if let Some(rank) = table.spec.rank {
            let counts = table.series("batches").map(|series| series.values);
            let counts = counts.unwrap_or_default().iter().copied();
            let counts = counts.filter(|count| count.is_finite());
            *by_rank.entry(rank).or_default() += growth_of([0.0].into_iter().chain(counts));
        }
    }
    let most = by_rank
        .into_iter()
        .reduce(|most, next| if next.1 > most.1 { next } else { most });
    let is_spoken_for = |table: &&&RecordedTable| {
        table
            .spec
            .rank
            .is_none_or(|it| most.is_some_and(|(rank, _)| rank == it))
    };
    tables.iter().filter(is_spoken_for).copied().collect()
}

/// A counter, and how long the stretch at the end is that its recent rate is of.
#[derive(Debug, Clone, Copy)]
struct CounterWithRecent {
    summary: CounterSummary,
    recent_nanos: f64,
}

fn summarize(
    tables: &[&RecordedTable],
    column: &str,
    time: CountedTime,
) -> Option<CounterWithRecent> {
    let readings = |table: &&RecordedTable| Some(readings_of(table, table.series(column)?));
    let writers: Vec<Vec<CounterReading>> = tables.iter().filter_map(readings).collect();
    let mut total = None;
    let mut growth = None;
    for readings in &writers {
        let Some(first) = readings.first().map(|reading| reading.count) else {
            continue;
        };
        let grown = growth_of(readings.iter().map(|reading| reading.count));
        *total.get_or_insert(0.0) += first + grown;
        if readings.len() > 1 {
            *growth.get_or_insert(0.0) += grown;
        }
    }
    let recent = recent_growth(&writers, time);
    let rates = recent.iter().map(|(nanos, grown)| grown / (nanos / 1e9));
    let per_sec = |count: f64| count / to_secs(time.counted_nanos);
    let finite = |value: &f64| value.is_finite();
    let summary = CounterSummary {
        // A program that counts batches alone writes zeros for the rest.
        total: total.filter(|total| *total > 0.0)?,
        timed: growth.unwrap_or(0.0),
        mean_per_sec: growth.map(per_sec).filter(finite),
        recent_per_sec: rates.reduce(|sum, rate| sum + rate).filter(finite),
    };
    let recent_nanos = recent.iter().map(|(nanos, _)| *nanos);
    Some(CounterWithRecent {
        summary,
        recent_nanos: recent_nanos.reduce(f64::max).unwrap_or(0.0),
    })
}

/// A counter at a time, with the time that counted until then.
#[derive(Debug, Clone, Copy)]
struct CounterReading {
    time_nanos: u64,
    count: f64,
    counted_nanos: f64,
}

fn readings_of(table: &RecordedTable, counter: SeriesView<'_>) -> Vec<CounterReading> {
    let counted = table.series("counted_nanos");
    let rows = counter.times.iter().zip(counter.values).enumerate();
    let reading = |(row, (time, count)): (usize, (&u64, &f64))| CounterReading {
        time_nanos: *time,
        count: *count,
        counted_nanos: counted_at(counted, row, *time),
    };
    let began = first_batch_began(table).map(|time_nanos| CounterReading {
        time_nanos,
        count: 0.0,
        counted_nanos: 0.0,
    });
    let written = rows
        .map(reading)
        .filter(|reading| reading.count.is_finite() && reading.count >= 0.0);
    let readings: Vec<CounterReading> = began.into_iter().chain(written).collect();
    match began.is_some() && readings.len() == 1 {
        true => Vec::new(),
        false => readings,
    }
}

/// When a writer's first batch began, where it says how much time had counted when that was done.
fn first_batch_began(table: &RecordedTable) -> Option<u64> {
    let counted = table.series("counted_nanos")?.values.first()?;
    let done_nanos = table.times.first()?;
    let is_told = counted.is_finite() && *counted > 0.0;
    is_told.then(|| done_nanos.saturating_sub(*counted as u64))
}

/// Without a clock of the writer's own, all time counts.
fn counted_at(counted: Option<SeriesView<'_>>, row: usize, time_nanos: u64) -> f64 {
    let written = counted.and_then(|counted| counted.values.get(row).copied());
    written
        .filter(|nanos| nanos.is_finite() && *nanos >= 0.0)
        .unwrap_or(time_nanos as f64)
}

/// How long a writer's clock stood still between its first and last row.
fn paused_nanos(table: &RecordedTable) -> f64 {
    let (Some(first), Some(last)) = (table.times.first(), table.times.last()) else {
        return 0.0;
    };
    let counted = table.series("counted_nanos");
    let clock = table.times.iter().enumerate();
    let counted = growth_of(clock.map(|(row, time)| counted_at(counted, row, *time)));
    (last.saturating_sub(*first) as f64 - counted).max(0.0)
}

/// The sum of all rises: a counter that falls was begun anew.
fn growth_of(values: impl Iterator<Item = f64>) -> f64 {
    let mut before = None;
    let mut growth = 0.0;
    for value in values {
        growth += match before {
            None => 0.0,
            Some(before) if value >= before => value - before,
            Some(_) => value,
        };
        before = Some(value);
    }
    growth
}

/// The time that counted in the recent stretch, and what was counted in it, of each writer that counted until then.
/// They are looked at over the same stretch, in which each has done enough batches.
fn recent_growth(writers: &[Vec<CounterReading>], time: CountedTime) -> Vec<(f64, f64)> {
    let from_nanos = time.end_nanos - time.recent_nanos;
    let goes_on = |readings: &&Vec<CounterReading>| {
        let last = readings.last();
        last.is_some_and(|last| last.time_nanos > from_nanos)
    };
    let writers: Vec<&Vec<CounterReading>> = writers.iter().filter(goes_on).collect();
    let begins = writers.iter().map(|readings| recent_start(readings, time));
    let from_nanos = begins.min().unwrap_or(from_nanos);
    let stretches = writers.iter().map(|readings| {
        let after = readings.partition_point(|reading| reading.time_nanos <= from_nanos);
        let recent = &readings[after.saturating_sub(1)..];
        let nanos = growth_of(recent.iter().map(|reading| reading.counted_nanos));
        (nanos, growth_of(recent.iter().map(|reading| reading.count)))
    });
    stretches.filter(|(nanos, _)| *nanos > 0.0).collect()
}

/// When the recent stretch of a writer begins.
fn recent_start(readings: &[CounterReading], time: CountedTime) -> u64 {
    let mut batches = 0;
    let mut counted_nanos = 0.0;
    for pair in readings.windows(2).rev() {
        counted_nanos += growth_of(pair.iter().map(|reading| reading.counted_nanos));
        batches += usize::from(pair[0].count != pair[1].count);
        if batches >= RECENT_BATCHES && counted_nanos >= time.recent_nanos as f64 {
            return pair[0].time_nanos;
        }
    }
    readings.first().map_or(0, |reading| reading.time_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::TableSpec;
    use nilo_sample::fixture;
    use nilo_sample::rows::ThroughputRow;

    /// A writer that had seen so many samples at these seconds; 100 tokens each, batches not counted.
    fn counted(writer: &str, rows: &[(u64, f64)]) -> RecordedTable {
        let mut table = fixture::table(TableSpec::throughput(0));
        table.writer = writer.to_owned();
        for (secs, samples) in rows {
            let row = ThroughputRow {
                samples: *samples,
                tokens: samples * 100.0,
                ..ThroughputRow::ABSENT
            };
            fixture::tick(&mut table, secs * NANOS_PER_SEC, row);
        }
        table
    }

    fn summary_of(tables: Vec<RecordedTable>) -> Option<ThroughputSummary> {
        let mut recording = fixture::recording();
        recording.tables = tables;
        summarize_throughput(&recording)
    }

    #[test]
    fn known_answers() {
        let mut rows: Vec<(u64, f64)> = (0..=90).map(|s| (10 + s, s as f64 * 2.0)).collect();
        // The last ten seconds are ten times as fast.
        rows.extend((1..=10).map(|s| (100 + s, 180.0 + s as f64 * 20.0)));
        let found = summary_of(vec![counted("a", &rows)]).unwrap();
        assert_eq!((found.counted_secs, found.recent_secs), (100.0, 10.0));
        assert_eq!(found.batches, None);
        let samples = found.samples.unwrap();
        assert_eq!(samples.total, 380.0);
        assert_eq!(
            (samples.mean_per_sec, samples.recent_per_sec),
            (Some(3.8), Some(20.0))
        );
        assert_eq!(found.tokens.unwrap().mean_per_sec, Some(380.0));
    }

    #[test]
    fn ranks_add_up_and_attempts_follow_each_other() {
        let rows = [(0, 0.0), (50, 50.0), (100, 100.0)];
        let found = summary_of(vec![counted("a", &rows), counted("b", &rows)]).unwrap();
        let samples = found.samples.unwrap();
        assert_eq!((samples.total, samples.mean_per_sec), (200.0, Some(2.0)));
        assert_eq!(samples.recent_per_sec, Some(2.0));
        let later = [(1000, 0.0), (1050, 100.0), (1100, 200.0)];
        let found = summary_of(vec![counted("a", &rows), counted("b", &later)]).unwrap();
        let samples = found.samples.unwrap();
        assert_eq!((samples.total, samples.mean_per_sec), (300.0, Some(1.5)));
        assert_eq!(samples.recent_per_sec, Some(2.0));
    }

    #[test]
    fn trackers_of_one_process_add_up() {
        let of_tracker = |tracker: u32, rows: &[(u64, f64)]| {
            let mut table = counted("a", rows);
            table.spec = TableSpec::throughput(tracker);
            table
        };
        // The second begins later, and both end together.
        let tables = vec![
            of_tracker(0, &[(0, 8.0), (50, 48.0), (100, 88.0)]),
            of_tracker(1, &[(50, 100.0), (75, 160.0), (100, 220.0)]),
        ];
        let found = summary_of(tables).unwrap();
        assert_eq!(found.counted_secs, 100.0);
        let samples = found.samples.unwrap();
        assert_eq!((samples.total, samples.mean_per_sec), (308.0, Some(2.0)));
        assert_eq!(samples.recent_per_sec, Some(0.8 + 2.4));
    }

    #[test]
    fn pauses_do_not_count() {
        let paused = |writer: &str| {
            let mut table = fixture::table(TableSpec::throughput(0));
            table.writer = writer.to_owned();
            // Ten samples a second; the clock stands still between 10 and 100 seconds.
            for (secs, counted) in [(0, 0), (5, 5), (10, 10), (100, 10), (105, 15), (110, 20)] {
                let row = ThroughputRow {
                    samples: 10.0 * counted as f64,
                    counted_nanos: counted as f64 * 1e9,
                    ..ThroughputRow::ABSENT
                };
                fixture::tick(&mut table, secs * NANOS_PER_SEC, row);
            }
            table
        };
        let found = summary_of(vec![paused("a")]).unwrap();
        // Four batches are all recent.
        assert_eq!((found.counted_secs, found.recent_secs), (20.0, 20.0));
        let samples = found.samples.unwrap();
        assert_eq!(samples.mean_per_sec, Some(10.0));
        assert_eq!(samples.recent_per_sec, Some(10.0));
        let found = summary_of(vec![paused("a"), paused("b")]).unwrap();
        assert_eq!(found.samples.unwrap().mean_per_sec, Some(20.0));
    }

    /// A row each second, with a clock that had counted `counted_secs` at the first.
    fn steps_of_rank(rank: Option<u32>, counted_secs: f64, rows: u64) -> RecordedTable {
        let mut table = fixture::table(TableSpec::throughput(0));
        table.spec.rank = rank;
        table.writer = format!("rank {rank:?}");
        for row in 0..rows {
            let row_of_step = ThroughputRow {
                batches: (row + 1) as f64,
                samples: 8.0 * (row + 1) as f64,
                tokens: 0.0,
                counted_nanos: (counted_secs + row as f64) * 1e9,
            };
            fixture::tick(&mut table, (10 + row) * NANOS_PER_SEC, row_of_step);
        }
        table
    }

    #[test]
    fn the_first_batch_is_in_the_mean_where_its_time_is_known() {
        let found = summary_of(vec![steps_of_rank(None, 6.0, 5)]).unwrap();
        assert_eq!(found.counted_secs, 10.0);
        let batches = found.batches.unwrap();
        assert_eq!((batches.total, batches.timed), (5.0, 5.0));
        assert_eq!(batches.mean_per_sec, Some(0.5));
        assert_eq!(found.samples.unwrap().mean_per_sec, Some(4.0));
        let found = summary_of(vec![steps_of_rank(None, 6.0, 1)]).unwrap();
        assert_eq!(found.samples.unwrap().mean_per_sec, Some(8.0 / 6.0));
        // Nobody said when it began: the mean is of the others, and says so.
        let found = summary_of(vec![steps_of_rank(None, 0.0, 5)]).unwrap();
        let batches = found.batches.unwrap();
        assert_eq!((batches.total, batches.timed), (5.0, 4.0));
        assert_eq!(batches.mean_per_sec, Some(1.0));
    }

    #[test]
    fn ranks_take_their_batches_together_and_samples_add_up() {
        let ranks = vec![
            steps_of_rank(Some(0), 1.0, 5),
            steps_of_rank(Some(1), 1.0, 5),
        ];
        let found = summary_of(ranks).unwrap();
        let batches = found.batches.unwrap();
        assert_eq!((batches.total, batches.mean_per_sec), (5.0, Some(1.0)));
        let samples = found.samples.unwrap();
        assert_eq!((samples.total, samples.mean_per_sec), (80.0, Some(16.0)));
        // A rank that ends early neither hides the steps of the others nor slows them down.
        let first_ends = vec![
            steps_of_rank(Some(0), 1.0, 2),
            steps_of_rank(Some(1), 1.0, 10),
        ];
        let batches = summary_of(first_ends).unwrap().batches.unwrap();
        assert_eq!((batches.total, batches.mean_per_sec), (10.0, Some(1.0)));
        assert_eq!(batches.recent_per_sec, Some(1.0));
    }

    /// A writer of batches: when each was done, and how much time had counted then, in milliseconds.
    fn batches_at(rows: &[(u64, u64)]) -> RecordedTable {
        let mut table = fixture::table(TableSpec::throughput(0));
        for (done, (millis, counted_millis)) in (1..).zip(rows) {
            let row = ThroughputRow {
                batches: f64::from(done),
                counted_nanos: *counted_millis as f64 * 1e6,
                ..ThroughputRow::ABSENT
            };
            fixture::tick(&mut table, millis * 1_000_000, row);
        }
        table
    }

    #[test]
    fn the_recent_rate_is_of_several_whole_batches_and_says_of_how_much_time() {
        // A batch every 100 ms; an evaluation took nearly all of the time before the last one and is left out.
        let mut rows: Vec<(u64, u64)> = (1..=20).map(|n| (n * 100, n * 100)).collect();
        rows.push((9_000, 2_001));
        let found = summary_of(vec![batches_at(&rows)]).unwrap();
        let recent = found.batches.unwrap().recent_per_sec.unwrap();
        assert_eq!(found.recent_secs, 0.401);
        assert!((recent - 5.0 / 0.401).abs() < 1e-9, "{recent}");
        // Fewer batches than that are looked at together.
        let rows = [(1_000, 1_000), (2_000, 2_000), (2_001, 2_001)];
        let found = summary_of(vec![batches_at(&rows)]).unwrap();
        assert_eq!(found.recent_secs, 2.001);
        let batches = found.batches.unwrap();
        assert_eq!(batches.recent_per_sec, batches.mean_per_sec);
    }

    #[test]
    fn a_recent_rate_of_no_time_is_unknown() {
        let found = summary_of(vec![batches_at(&[(1_000, 0), (2_000, 0)])]).unwrap();
        let batches = found.batches.unwrap();
        assert_eq!((batches.total, batches.recent_per_sec), (2.0, None));
    }

    #[test]
    fn a_counter_that_begins_anew_loses_nothing() {
        let rows = [(0, 10.0), (1, 20.0), (2, 5.0), (3, 15.0)];
        let samples = summary_of(vec![counted("a", &rows)])
            .unwrap()
            .samples
            .unwrap();
        assert_eq!(samples.total, 35.0);
    }

    #[test]
    fn what_was_never_counted_is_absent() {
        let mut table = fixture::table(TableSpec::throughput(0));
        for secs in 0..5 {
            let row = ThroughputRow {
                batches: secs as f64,
                samples: 32.0 * secs as f64,
                tokens: 0.0,
                ..ThroughputRow::ABSENT
            };
            fixture::tick(&mut table, secs * NANOS_PER_SEC, row);
        }
        let found = summary_of(vec![table]).unwrap();
        assert_eq!(found.tokens, None);
        let names: Vec<&str> = found.counters().map(|(name, _)| name).collect();
        assert_eq!(names, ["batches", "samples"]);
    }

    #[test]
    fn one_reading_has_a_total_and_no_rate() {
        let samples = summary_of(vec![counted("a", &[(5, 7.0)])])
            .unwrap()
            .samples
            .unwrap();
        assert_eq!(
            (samples.total, samples.mean_per_sec, samples.recent_per_sec),
            (7.0, None, None)
        );
        assert_eq!(summary_of(vec![]), None);
        assert_eq!(summary_of(vec![counted("a", &[])]), None);
        assert_eq!(
            summary_of(vec![counted("a", &[(1, f64::NAN), (2, -3.0)])]),
            None
        );
    }
}
