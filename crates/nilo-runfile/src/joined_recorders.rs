//! Tables of a run that one recorder began and another went on with: read as one table each.
//!
//! Of a run of several ranks one records the memory of all; when it ends, another takes over.

use std::collections::{BTreeMap, BTreeSet};

use nilo_sample::{ColumnKind, Event, NO_STEP, RecordedTable, Subject, TimedEvent, is_absent};

use crate::names::is_recorder;

/// Puts tables of the same measurements together where one recorder followed the other, and tells the start of each process once.
/// Recorders at the same time are no succession, and stay apart.
pub(crate) fn join_recorders(tables: &mut Vec<RecordedTable>, events: &mut Vec<TimedEvent>) {
    let mut began: BTreeMap<String, u64> = BTreeMap::new();
    for table in tables.iter().filter(|table| is_recorder(&table.writer)) {
        let first = table.times.first().copied().unwrap_or(u64::MAX);
        let known = began.entry(table.writer.clone()).or_insert(first);
        *known = first.min(*known);
    }
    if began.len() < 2 {
        return;
    }
    let (mut recorded, mut others): (Vec<_>, Vec<_>) = std::mem::take(tables)
        .into_iter()
        .partition(|table| is_recorder(&table.writer));
    recorded.sort_by_key(|table| began.get(&table.writer).copied());
    let mut joined: Vec<RecordedTable> = Vec::with_capacity(recorded.len());
    for table in recorded {
        let follows = |earlier: &&mut RecordedTable| {
            earlier.spec == table.spec
                && earlier.writer != table.writer
                && earlier.times.last() <= table.times.first()
        };
        match joined.iter_mut().find(follows) {
            Some(earlier) => append(earlier, table),
            None => joined.push(table),
        }
    }
    // As in every recording: by writer, in the order of definition.
    tables.append(&mut joined);
    tables.append(&mut others);
    tables.sort_by(|one, other| one.writer.cmp(&other.writer));
    let mut alive = BTreeSet::new();
    events.retain(|timed| match timed.event {
        Event::ProcessStarted { id, .. } => alive.insert(id),
        Event::ProcessEnded { id, .. } => {
            alive.remove(&id);
            true
        }
        _ => true,
    });
}

fn append(earlier: &mut RecordedTable, mut later: RecordedTable) {
    let declared = later.spec.columns.iter();
    for ((target, values), column) in earlier
        .columns
        .iter_mut()
        .zip(&mut later.columns)
        .zip(declared)
    {
        if column.kind == ColumnKind::Counter {
            let offset = offset(&later.spec.subject, target, values);
            for value in values.iter_mut().filter(|value| !is_absent(**value)) {
                *value += offset;
            }
        }
        target.append(values);
    }
    if !earlier.steps.is_empty() || !later.steps.is_empty() {
        earlier.steps.resize(earlier.times.len(), NO_STEP);
        later.steps.resize(later.times.len(), NO_STEP);
        earlier.steps.append(&mut later.steps);
    }
    earlier.times.append(&mut later.times);
}

/// What to add to a counter so that it goes on where the earlier recorder's ended. Those of the kernel go on by themselves.
fn offset(subject: &Subject, earlier: &[f64], later: &[f64]) -> f64 {
    let is_present = |value: &&f64| !is_absent(**value);
    let last = earlier.iter().rev().find(is_present).copied();
    let first = later.iter().find(is_present).copied();
    match subject {
        // Each counts processes from their birth, and has others than the one before.
        Subject::Tree => last.unwrap_or(0.0) - first.unwrap_or(0.0),
        // What each has cost and lost itself.
        Subject::Recorder => last.unwrap_or(0.0),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::rows::TreeRow;
    use nilo_sample::{ProcessId, TableSpec, TypedRow};

    /// Rows of time, memory and CPU time.
    fn tree(writer: &str, rows: &[(u64, f64, f64)]) -> RecordedTable {
        let spec = TableSpec::tree();
        let mut table = RecordedTable {
            columns: vec![Vec::new(); spec.columns.len()],
            spec,
            writer: writer.to_owned(),
            times: Vec::new(),
            steps: Vec::new(),
        };
        for (time, memory_bytes, cpu_nanos) in rows.iter().copied() {
            let row = TreeRow {
                memory_bytes,
                cpu_nanos,
                ..TreeRow::ABSENT
            };
            table.times.push(time);
            for (column, value) in table.columns.iter_mut().zip(row.values()) {
                column.push(value);
            }
        }
        table
    }

    fn column(table: &RecordedTable, name: &str) -> Vec<f64> {
        table.series(name).unwrap().values.to_vec()
    }

    #[test]
    fn a_recorder_that_took_over_goes_on_with_the_curve_and_the_counters() {
        let mut tables = vec![
            tree("recorder-1", &[(30, 7.0, 100.0), (40, 8.0, 104.0)]),
            tree("recorder-2", &[(10, 5.0, 50.0), (20, 6.0, 60.0)]),
        ];
        join_recorders(&mut tables, &mut Vec::new());
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].times, [10, 20, 30, 40]);
        assert_eq!(column(&tables[0], "memory_bytes"), [5.0, 6.0, 7.0, 8.0]);
        assert_eq!(column(&tables[0], "cpu_nanos"), [50.0, 60.0, 60.0, 64.0]);
    }

    #[test]
    fn the_start_of_a_process_that_both_recorders_saw_is_told_once() {
        let mut tables = vec![
            tree("recorder-1", &[(10, 5.0, 50.0)]),
            tree("recorder-2", &[(30, 5.0, 50.0)]),
        ];
        let id = |pid| ProcessId {
            pid,
            start_ticks: 1,
        };
        let started = |time_nanos, pid| TimedEvent {
            time_nanos,
            event: Event::ProcessStarted {
                id: id(pid),
                info: Default::default(),
            },
        };
        let ended = TimedEvent {
            time_nanos: 29,
            event: Event::ProcessEnded {
                id: id(1),
                peak_rss_bytes: None,
                exit_code: None,
                signal: None,
            },
        };
        let told = [started(9, 1), started(10, 2), ended, started(30, 2)];
        let mut events = told.to_vec();
        join_recorders(&mut tables, &mut events);
        assert_eq!(events, told[..3]);
        let mut of_one = told.to_vec();
        join_recorders(&mut tables, &mut of_one);
        assert_eq!(of_one.len(), 4);
    }

    #[test]
    fn what_recorders_measured_at_the_same_time_and_what_programs_logged_stays_apart() {
        let apart = [
            tree("recorder-1", &[(10, 5.0, 0.0), (30, 6.0, 0.0)]),
            tree("recorder-2", &[(20, 7.0, 0.0)]),
            tree("python-1", &[(10, 5.0, 0.0)]),
            tree("python-2", &[(20, 5.0, 0.0)]),
        ];
        let mut tables = apart.to_vec();
        join_recorders(&mut tables, &mut Vec::new());
        assert_eq!(tables.len(), 4);
    }

    #[test]
    fn counters_of_the_kernel_are_left_as_they_are() {
        let id = ProcessId {
            pid: 7,
            start_ticks: 1,
        };
        let of_process = |writer: &str, time: u64, cpu_nanos: f64| {
            let spec = TableSpec::process(id);
            let values = spec.columns.iter().map(|column| match &*column.name {
                "cpu_nanos" => vec![cpu_nanos],
                _ => vec![1.0],
            });
            RecordedTable {
                columns: values.collect(),
                spec,
                writer: writer.to_owned(),
                times: vec![time],
                steps: Vec::new(),
            }
        };
        let mut tables = vec![
            of_process("recorder-1", 10, 50.0),
            of_process("recorder-2", 20, 55.0),
        ];
        join_recorders(&mut tables, &mut Vec::new());
        assert_eq!(column(&tables[0], "cpu_nanos"), [50.0, 55.0]);
    }
}
