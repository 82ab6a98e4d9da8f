//! A metric's points as they count: over all tables and writers, with the newest attempt where steps were trained twice.
//!
//! A *metric* is every column of one name in the tables of metrics, whoever wrote them.
//! A job that was resumed from a checkpoint logs some steps again: its steps go back.
//! Each ascending stretch of steps is an *attempt*; between the first and the last step of a newer attempt, the points of older ones are overwritten.
//! Writers that log at the same time (ranks of one job) stand beside each other: neither overwrites the other.

use std::collections::{BTreeMap, HashMap};

use nilo_sample::{NO_STEP, RecordedTable, Recording, Subject, is_absent};

/// A row's step.
pub fn step_at(table: &RecordedTable, row: usize) -> Option<i64> {
    let step = table.steps.get(row).copied();
    step.filter(|step| *step != NO_STEP)
}

/// One logged value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricPoint {
    /// Nanoseconds since the run began.
    pub time_nanos: u64,
    /// The training step, where one was given.
    pub step: Option<i64>,
    /// What was logged; NaN and infinities are the user's own.
    pub value: f64,
    /// Which of the metric's writers it came from, counted from zero.
    pub writer: u32,
}

/// Everything that was logged under one name.
#[derive(Debug, Clone)]
pub struct Metric<'a> {
    /// The name.
    pub name: &'a str,
    sources: Vec<Source<'a>>,
}

/// One column of the metric.
#[derive(Debug, Clone, Copy)]
struct Source<'a> {
    table: &'a RecordedTable,
    column: usize,
    /// First and last time at which its writer wrote anything at all.
    alive_nanos: (u64, u64),
}

/// A metric's points, divided into those that count and those that a later attempt overwrote. Both are in the order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricHistory {
    /// What counts.
    pub points: Vec<MetricPoint>,
    /// What a newer attempt logged again.
    pub overwritten: Vec<MetricPoint>,
    /// Ascending stretches of steps; 1 for a job that was never resumed, 0 for a metric without values.
    pub attempts: usize,
}

/// The metrics of a recording, in the order in which they were first declared.
pub fn metrics(recording: &Recording) -> Vec<Metric<'_>> {
    let lives = lives(recording);
    let mut found: Vec<Metric<'_>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for table in &recording.tables {
        if !matches!(table.spec.subject, Subject::Metrics { .. }) {
            continue;
        }
        for (index, column) in table.spec.columns.iter().enumerate() {
            let name = column.name.as_str();
            let place = *places.entry(name).or_insert_with(|| {
                found.push(Metric {
                    name,
                    sources: Vec::new(),
                });
                found.len() - 1
            });
            found[place].sources.push(Source {
                table,
                column: index,
                alive_nanos: lives.get(table.writer.as_str()).copied().unwrap_or((0, 0)),
            });
        }
    }
    found
}

/// How long each writer wrote, over all its tables: a rank may log a metric only once.
fn lives(recording: &Recording) -> HashMap<&str, (u64, u64)> {
    let mut lives: HashMap<&str, (u64, u64)> = HashMap::new();
    for table in &recording.tables {
        if let (Some(first), Some(last)) = (table.times.first(), table.times.last()) {
            let life = lives.entry(&table.writer).or_insert((*first, *last));
            *life = (life.0.min(*first), life.1.max(*last));
        }
    }
    lives
}

impl Metric<'_> {
    /// Gathers the points and decides which of them count.
    pub fn history(&self) -> MetricHistory {
        let mut writers = self.by_writer();
        let attempts = number_attempts(&mut writers);
        if attempts > 1 {
            mark_overwritten(&mut writers);
        }
        let mut history = MetricHistory {
            attempts,
            ..MetricHistory::default()
        };
        for point in writers.into_iter().flat_map(|writer| writer.points) {
            let kept = match point.overwritten {
                false => &mut history.points,
                true => &mut history.overwritten,
            };
            kept.push(point.point);
        }
        for points in [&mut history.points, &mut history.overwritten] {
            if !points.is_sorted_by_key(|point| point.time_nanos) {
                points.sort_by_key(|point| point.time_nanos);
            }
        }
        history
    }

    fn by_writer(&self) -> Vec<Writer> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut writers: Vec<Writer> = Vec::new();
        for source in &self.sources {
            let table = source.table;
            let place = *places.entry(table.writer.as_str()).or_insert_with(|| {
                writers.push(Writer {
                    alive_nanos: source.alive_nanos,
                    points: Vec::new(),
                });
                writers.len() - 1
            });
            let Some(values) = table.columns.get(source.column) else {
                continue;
            };
            let rows = table.times.iter().zip(values).enumerate();
            let present = rows.filter(|(_, (_, value))| !is_absent(**value));
            let points = present.map(|(row, (time_nanos, value))| Logged {
                point: MetricPoint {
                    time_nanos: *time_nanos,
                    step: step_at(table, row),
                    value: *value,
                    writer: place as u32,
                },
                attempt: 0,
                overwritten: false,
            });
            writers[place].points.extend(points);
        }
        for writer in &mut writers {
            let time = |logged: &Logged| logged.point.time_nanos;
            if !writer.points.is_sorted_by_key(time) {
                writer.points.sort_by_key(time);
            }
        }
        writers
    }
}

impl MetricHistory {
    /// The points that count and have a step, in the order of steps.
    pub fn by_step(&self) -> Vec<(i64, MetricPoint)> {
        let stepped = |point: &MetricPoint| Some((point.step?, *point));
        let mut points: Vec<(i64, MetricPoint)> = self.points.iter().filter_map(stepped).collect();
        if !points.is_sorted_by_key(|(step, _)| *step) {
            points.sort_by_key(|(step, _)| *step);
        }
        points
    }
}

/// A point while its fate is open.
struct Logged {
    point: MetricPoint,
    attempt: usize,
    overwritten: bool,
}

/// What one process logged, in the order of time.
struct Writer {
    alive_nanos: (u64, u64),
    points: Vec<Logged>,
}

impl Writer {
    fn steps(&self) -> impl Iterator<Item = i64> + '_ {
        self.points.iter().filter_map(|logged| logged.point.step)
    }

    /// Numbers the ascending stretches from `base` on and returns the last number.
    fn number_from(&mut self, base: usize) -> usize {
        let mut attempt = base;
        let mut before = i64::MIN;
        for logged in &mut self.points {
            if let Some(step) = logged.point.step {
                attempt += usize::from(step < before);
                before = step;
            }
            logged.attempt = attempt;
        }
        attempt
    }
}

/// Gives every point the number of its attempt; returns how many there are.
fn number_attempts(writers: &mut [Writer]) -> usize {
    let mut order: Vec<(u64, u64, usize)> = writers
        .iter()
        .enumerate()
        .filter(|(_, writer)| !writer.points.is_empty())
        .map(|(index, writer)| (writer.alive_nanos.0, writer.alive_nanos.1, index))
        .collect();
    order.sort_unstable();
    let (mut base, mut newest) = (0, 0);
    let (mut ended_nanos, mut highest_step) = (0, None);
    for (position, (from_nanos, to_nanos, index)) in order.iter().copied().enumerate() {
        let writer = &mut writers[index];
        if position > 0 && from_nanos > ended_nanos {
            // Everybody before has fallen silent: the job was started again.
            let first_step = writer.steps().next();
            let goes_back = first_step.is_some_and(|first| Some(first) <= highest_step);
            base = newest + usize::from(goes_back);
        }
        highest_step = highest_step.max(writer.steps().max());
        newest = newest.max(writer.number_from(base));
        ended_nanos = ended_nanos.max(to_nanos);
    }
    if order.is_empty() { 0 } else { newest + 1 }
}

/// Goes through the attempts from the newest to the oldest and marks what lies between steps that a newer one covers.
fn mark_overwritten(writers: &mut [Writer]) {
    // Stretches of one attempt by one writer: attempt, writer, first and one past the last point.
    let mut stretches: Vec<(usize, usize, usize, usize)> = Vec::new();
    for (index, writer) in writers.iter().enumerate() {
        let mut from = 0;
        for run in writer.points.chunk_by(|a, b| a.attempt == b.attempt) {
            stretches.push((run[0].attempt, index, from, from + run.len()));
            from += run.len();
        }
    }
    stretches.sort_unstable_by(|a, b| b.cmp(a));
    let mut covered = Covered::default();
    for group in stretches.chunk_by(|a, b| a.0 == b.0) {
        for (_, writer, from, to) in group.iter().copied() {
            for logged in &mut writers[writer].points[from..to] {
                let step = logged.point.step;
                logged.overwritten = step.is_some_and(|step| covered.contains(step));
            }
        }
        // Only now: the ranks of one attempt do not overwrite each other.
        for (_, writer, from, to) in group.iter().copied() {
            let points = &writers[writer].points[from..to];
            let steps = || points.iter().filter_map(|logged| logged.point.step);
            if let (Some(first), Some(last)) = (steps().next(), steps().next_back()) {
                covered.add(first, last);
            }
        }
    }
}

/// A set of steps as ranges that do not touch each other: first step to last.
#[derive(Default)]
struct Covered {
    ranges: BTreeMap<i64, i64>,
}

impl Covered {
    fn contains(&self, step: i64) -> bool {
        let before = self.ranges.range(..=step).next_back();
        before.is_some_and(|(_, last)| step <= *last)
    }

    fn add(&mut self, mut first: i64, mut last: i64) {
        // Every range taken in here is gone afterwards, so adding many ranges stays cheap.
        while let Some((from, to)) = self.ranges.range(..=last).next_back() {
            let (from, to) = (*from, *to);
            if to < first {
                break;
            }
            self.ranges.remove(&from);
            first = first.min(from);
            last = last.max(to);
        }
        self.ranges.insert(first, last);
    }
}

#[cfg(test)]
#[path = "metric_history_tests.rs"]
mod tests;
