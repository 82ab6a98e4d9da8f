//! The memory curve of a run inside a job, from what the job recorded of its processes.

use std::collections::BTreeMap;

use nilo_sample::rows::TreeRow;
use nilo_sample::{
    ABSENT, Event, ProcessId, RecordedTable, Recording, Subject, TableSpec, TimedEvent, TypedRow,
    is_absent,
};

use crate::part_of_job::TimeWindow;
use crate::run_processes::RunProcesses;

/// One process of the run while the curve is summed up.
struct ProcessCursor<'a> {
    times: &'a [u64],
    memory: &'a [f64],
    rss: &'a [f64],
    /// What it holds in distinct pages; older recordings have its resident memory alone.
    held: &'a [f64],
    cpu: &'a [f64],
    ended_nanos: u64,
    /// From here on a rise of its high-water mark happened in the run's time.
    marks_count_from: u64,
    row: Option<usize>,
}

impl ProcessCursor<'_> {
    fn advance_to(&mut self, time: u64) {
        let mut next = self.row.map_or(0, |row| row + 1);
        while self.times.get(next).is_some_and(|at| *at <= time) {
            self.row = Some(next);
            next += 1;
        }
    }

    fn is_alive(&self, time: u64) -> bool {
        self.row.is_some() && time < self.ended_nanos
    }

    fn value(&self, column: &[f64]) -> f64 {
        let value = self.row.and_then(|row| column.get(row)).copied();
        value.filter(|value| !is_absent(*value)).unwrap_or(0.0)
    }
}

/// The run's processes at one moment, summed up.
#[derive(Default)]
struct SummedLevel {
    memory: f64,
    rss: f64,
    alive: f64,
    marks_known: bool,
}

impl SummedLevel {
    /// `cursors` are in the order of age, the oldest first.
    ///
    /// A page that several processes hold is in the `memory_bytes` of the oldest of them, which may be outside of the run.
    /// So what a process holds in all, and what those younger than it add, are distinct pages of the run;
    /// the largest of these sums counts, nearly always that from the oldest on.
    fn of(cursors: &[ProcessCursor<'_>], time: u64) -> SummedLevel {
        let mut level = SummedLevel {
            marks_known: true,
            ..SummedLevel::default()
        };
        let mut added_by_younger = 0.0;
        for cursor in cursors.iter().rev().filter(|it| it.is_alive(time)) {
            let rss = cursor.value(cursor.rss);
            let held = cursor.value(cursor.held);
            level.memory = f64::max(level.memory, added_by_younger + held);
            added_by_younger += cursor.value(cursor.memory).min(held);
            level.rss += rss;
            level.alive += 1.0;
            level.marks_known &= cursor.marks_count_from <= time;
        }
        level.memory = level.memory.max(added_by_younger);
        level
    }
}

/// The run's own curve, on the ticks of the job's.
pub(crate) fn curve(
    tree: &RecordedTable,
    job: &Recording,
    processes: &RunProcesses<'_>,
    window: TimeWindow,
) -> Option<RecordedTable> {
    let mut cursors = cursors(job, processes, window);
    let spec = TableSpec::tree();
    let mut curve = RecordedTable {
        columns: vec![Vec::new(); spec.columns.len()],
        spec,
        writer: tree.writer.clone(),
        times: Vec::new(),
        steps: Vec::new(),
    };
    let mut cpu_before = None;
    for row in window.rows(&tree.times) {
        let time = tree.times[row];
        cursors.iter_mut().for_each(|it| it.advance_to(time));
        let level = SummedLevel::of(&cursors, time);
        if level.alive == 0.0 {
            continue;
        }
        let cpu: f64 = cursors.iter().map(|it| it.value(it.cpu)).sum();
        // Where nobody else was there, the job's figures are the run's.
        let of_job: TreeRow = tree.row(row);
        let is_whole = level.alive == of_job.processes;
        let all_measured = of_job.pss_processes >= of_job.processes;
        let values = TreeRow {
            memory_bytes: match is_whole {
                true => of_job.memory_bytes,
                false => level.memory,
            },
            rss_bytes: level.rss,
            high_water_bytes: match level.marks_known && is_whole {
                true => of_job.high_water_bytes,
                false => ABSENT,
            },
            swap_bytes: match is_whole {
                true => of_job.swap_bytes,
                false => ABSENT,
            },
            cpu_nanos: cpu - *cpu_before.get_or_insert(cpu),
            processes: level.alive,
            pss_processes: if all_measured { level.alive } else { 0.0 },
        };
        curve.times.push(window.shift(time));
        for (column, value) in curve.columns.iter_mut().zip(values.values()) {
            column.push(value);
        }
    }
    (!curve.times.is_empty()).then_some(curve)
}

/// The curve of a run that lies between two samples of its job: what its processes held as they began and left it, by their own word.
/// What several of them share is not known, so it is that of the largest.
pub(crate) fn told_levels(events: &[TimedEvent]) -> Option<RecordedTable> {
    let mut told: Vec<(u64, ProcessId, u64)> = events
        .iter()
        .filter_map(|timed| match timed.event {
            Event::HighWater {
                id,
                resident_bytes: Some(bytes),
                ..
            } => Some((timed.time_nanos, id, bytes)),
            _ => None,
        })
        .collect();
    told.sort_by_key(|(time, _, _)| *time);
    let spec = TableSpec::tree();
    let mut curve = RecordedTable {
        columns: vec![Vec::new(); spec.columns.len()],
        spec,
        writer: String::new(),
        times: Vec::new(),
        steps: Vec::new(),
    };
    let mut latest: BTreeMap<ProcessId, u64> = BTreeMap::new();
    for (time, id, bytes) in told {
        latest.insert(id, bytes);
        let largest = latest.values().max().copied().unwrap_or(bytes);
        let row = TreeRow {
            memory_bytes: largest as f64,
            processes: latest.len() as f64,
            ..TreeRow::ABSENT
        };
        curve.times.push(time);
        for (column, value) in curve.columns.iter_mut().zip(row.values()) {
            column.push(value);
        }
    }
    (!curve.times.is_empty()).then_some(curve)
}

/// The run's processes, the oldest first as the recorder shares pages out.
fn cursors<'a>(
    job: &'a Recording,
    processes: &RunProcesses<'_>,
    window: TimeWindow,
) -> Vec<ProcessCursor<'a>> {
    let column = |table: &'a RecordedTable, name: &str| -> &'a [f64] {
        let index = table.spec.column(name);
        let values = index.and_then(|index| table.columns.get(index));
        values.map_or(&[], Vec::as_slice)
    };
    let tables = job.tables.iter().filter_map(|table| {
        let Subject::Process(id) = table.spec.subject else {
            return None;
        };
        let rss = column(table, "rss_bytes");
        let distinct = column(table, "distinct_bytes");
        let is_known = distinct.iter().any(|bytes| !is_absent(*bytes));
        let cursor = || ProcessCursor {
            times: &table.times,
            memory: column(table, "memory_bytes"),
            rss,
            held: if is_known { distinct } else { rss },
            cpu: column(table, "cpu_nanos"),
            ended_nanos: processes.end_of(&id),
            marks_count_from: marks_count_from(job, processes, id, window),
            row: None,
        };
        processes.contains(&id).then(|| (id, cursor()))
    });
    let mut cursors: Vec<(ProcessId, ProcessCursor<'a>)> = tables.collect();
    cursors.sort_by_key(|(id, _)| (id.start_ticks, id.pid));
    cursors.into_iter().map(|(_, cursor)| cursor).collect()
}

/// From when on the high-water marks of a process tell about the run: after one was read in its time.
///
/// A mark only says that a level was reached since the mark was read before: the first one may be from before the run.
/// A process that started within the run has no such past.
fn marks_count_from(
    job: &Recording,
    processes: &RunProcesses<'_>,
    id: ProcessId,
    window: TimeWindow,
) -> u64 {
    if processes
        .started_nanos(&id)
        .is_some_and(|it| it >= window.from)
    {
        return 0;
    }
    let detail = job.table(&Subject::ProcessDetail(id));
    let marks = detail.and_then(|table| table.series("peak_rss_bytes"));
    let first = marks.and_then(|marks| marks.present().find(|(time, _)| *time >= window.from));
    first.map_or(u64::MAX, |(time, _)| time.saturating_add(1))
}
