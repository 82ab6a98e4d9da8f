//! A metric's points, over all tables and writers: every one that was logged.
//!
//! A *metric* is every column of one name in the tables of metrics of one group, whoever wrote them.
//! Groups keep apart what two trackers or loggers call the same: where a name is in several, it is written `group/name`.
//! Steps that go back inside one process are an epoch that counts from zero again, a second loop, or threads that share a metric;
//! across processes they are ranks and workers. Nothing is hidden in any of these cases: each point stands and counts.

use std::collections::{BTreeSet, HashMap, HashSet};

use nilo_sample::{NO_STEP, RecordedTable, Recording, Subject, TableSpec, is_absent};

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
    /// How often this writer's steps had gone back before.
    pub lap: u32,
    /// The rank of its process in a distributed run.
    pub rank: Option<u32>,
}

/// Everything that was logged under one name.
#[derive(Debug, Clone)]
pub struct Metric<'a> {
    /// The name, with its group where several groups have it.
    pub name: String,
    sources: Vec<MetricColumn<'a>>,
}

/// Groups whose names need no group: what `Run.log` stores, and the first tracker where `Run.log` has no such name.
const PLAIN_GROUPS: [&str; 2] = ["metrics", "tracker-1"];

/// The group of a table of metrics.
pub fn metric_group(spec: &TableSpec) -> Option<&str> {
    match &spec.subject {
        Subject::Metrics { name } => Some(name),
        _ => None,
    }
}

/// How the metrics of these tables are called, by group and name.
pub fn metric_names<'a>(
    specs: impl IntoIterator<Item = &'a TableSpec>,
) -> HashMap<(&'a str, &'a str), String> {
    let mut groups: HashMap<&str, HashSet<&str>> = HashMap::new();
    for spec in specs {
        if let Some(group) = metric_group(spec) {
            for column in &spec.columns {
                groups.entry(&column.name).or_default().insert(group);
            }
        }
    }
    let mut names = HashMap::new();
    for (name, groups) in groups {
        let is_shared = groups.len() > 1;
        let plain = PLAIN_GROUPS.iter().find(|group| groups.contains(*group));
        for group in groups {
            let called = match is_shared && plain != Some(&group) {
                true => format!("{group}/{name}"),
                false => name.to_owned(),
            };
            names.insert((group, name), called);
        }
    }
    names
}

/// One column of the metric.
#[derive(Debug, Clone, Copy)]
struct MetricColumn<'a> {
    table: &'a RecordedTable,
    column: usize,
}

/// A metric's points in the order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricHistory {
    /// All of them.
    pub points: Vec<MetricPoint>,
    /// How often steps went back inside one writer.
    pub step_restarts: u64,
}

/// A metric's points by whether they are the first rank's, each in the order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SplitRanks {
    /// Those whose figures are told.
    pub shown: Vec<MetricPoint>,
    /// Those of the other ranks.
    pub others: Vec<MetricPoint>,
    /// The first rank and how many ranks there are, where there are several.
    pub ranks: Option<(u32, usize)>,
}

/// The metrics of a recording, in the order in which they were first declared.
pub fn metrics(recording: &Recording) -> Vec<Metric<'_>> {
    let mut names = metric_names(recording.tables.iter().map(|table| &table.spec));
    let mut found: Vec<Metric<'_>> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for table in &recording.tables {
        let Some(group) = metric_group(&table.spec) else {
            continue;
        };
        for (index, column) in table.spec.columns.iter().enumerate() {
            let key = (group, column.name.as_str());
            let place = *places.entry(key).or_insert_with(|| {
                found.push(Metric {
                    name: names.remove(&key).unwrap_or_default(),
                    sources: Vec::new(),
                });
                found.len() - 1
            });
            found[place].sources.push(MetricColumn {
                table,
                column: index,
            });
        }
    }
    found
}

impl Metric<'_> {
    /// Whether anything was logged at all.
    pub fn has_values(&self) -> bool {
        self.sources.iter().any(|source| {
            let values = source.table.columns.get(source.column);
            values.is_some_and(|values| values.iter().any(|value| !is_absent(*value)))
        })
    }

    /// Gathers the points.
    pub fn history(&self) -> MetricHistory {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut writers: Vec<Vec<MetricPoint>> = Vec::new();
        for source in &self.sources {
            let table = source.table;
            let place = *places.entry(table.writer.as_str()).or_insert_with(|| {
                writers.push(Vec::new());
                writers.len() - 1
            });
            let Some(values) = table.columns.get(source.column) else {
                continue;
            };
            let rows = table.times.iter().zip(values).enumerate();
            let present = rows.filter(|(_, (_, value))| !is_absent(**value));
            writers[place].extend(present.map(|(row, (time_nanos, value))| MetricPoint {
                time_nanos: *time_nanos,
                step: step_at(table, row),
                value: *value,
                writer: place as u32,
                lap: 0,
                rank: table.spec.rank,
            }));
        }
        let mut history = MetricHistory::default();
        for mut points in writers {
            sort_by_time(&mut points);
            history.step_restarts += u64::from(number_laps(&mut points));
            history.points.append(&mut points);
        }
        sort_by_time(&mut history.points);
        history
    }
}

fn sort_by_time(points: &mut [MetricPoint]) {
    if !points.is_sorted_by_key(|point| point.time_nanos) {
        points.sort_by_key(|point| point.time_nanos);
    }
}

/// Numbers the stretches of steps that do not go back; returns how often they did.
fn number_laps(points: &mut [MetricPoint]) -> u32 {
    let (mut lap, mut before) = (0, i64::MIN);
    for point in points {
        if let Some(step) = point.step {
            lap += u32::from(step < before);
            before = step;
        }
        point.lap = lap;
    }
    lap
}

impl MetricHistory {
    /// The first rank speaks for all, with what has no rank; the others stand beside it.
    pub fn split_ranks(self) -> SplitRanks {
        let ranks: BTreeSet<u32> = self.points.iter().filter_map(|point| point.rank).collect();
        let lowest = ranks.first().copied();
        let is_shown = |point: &MetricPoint| point.rank.is_none() || point.rank == lowest;
        let (shown, others) = self.points.into_iter().partition(is_shown);
        SplitRanks {
            shown,
            others,
            ranks: lowest
                .filter(|_| ranks.len() > 1)
                .map(|first| (first, ranks.len())),
        }
    }

    /// The points that have a step, in the order of steps, and of time where steps are the same.
    pub fn by_step(&self) -> Vec<(i64, MetricPoint)> {
        let stepped = |point: &MetricPoint| Some((point.step?, *point));
        let mut points: Vec<(i64, MetricPoint)> = self.points.iter().filter_map(stepped).collect();
        if !points.is_sorted_by_key(|(step, _)| *step) {
            points.sort_by_key(|(step, _)| *step);
        }
        points
    }
}

#[cfg(test)]
#[path = "metric_history_tests.rs"]
mod tests;
