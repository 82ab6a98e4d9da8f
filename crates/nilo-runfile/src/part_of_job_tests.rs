use super::*;
use nilo_sample::{Ending, ProcessInfo, RunId, RunStatus};

const SECOND: u64 = 1_000_000_000;

fn description(started_secs: u64, ended_secs: Option<u64>) -> RunDescription {
    let mut description: RunDescription = serde_json::from_value(serde_json::json!({
        "schema": "nilo.run/1",
        "id": RunId::new(0, "test"),
        "mode": "run",
        "started_unix_nanos": started_secs * SECOND,
        "started_monotonic_nanos": started_secs * SECOND,
        "boot_id": "01010101-0101-0101-0101-010101010101",
        "root_pids": [1],
    }))
    .unwrap();
    description.ending = ended_secs.map(|ended| Ending {
        status: RunStatus::Exited,
        exit_code: Some(0),
        signal: None,
        time_nanos: (ended - started_secs) * SECOND,
        oom: None,
        left_running: vec![],
    });
    description
}

fn id(pid: u32) -> ProcessId {
    ProcessId {
        pid,
        start_ticks: u64::from(pid) * 10,
    }
}

fn started(secs: u64, pid: u32, parent: u32) -> TimedEvent {
    let info = ProcessInfo {
        parent,
        ..ProcessInfo::default()
    };
    TimedEvent {
        time_nanos: secs * SECOND,
        event: Event::ProcessStarted { id: id(pid), info },
    }
}

fn ended(secs: u64, pid: u32) -> TimedEvent {
    TimedEvent {
        time_nanos: secs * SECOND,
        event: Event::ProcessEnded {
            id: id(pid),
            peak_rss_bytes: None,
            exit_code: None,
            signal: None,
        },
    }
}

fn table(spec: TableSpec, rows: &[(u64, &[f64])]) -> RecordedTable {
    let mut columns = vec![Vec::new(); spec.columns.len()];
    for (_, row) in rows {
        for (column, value) in columns.iter_mut().zip(*row) {
            column.push(*value);
        }
    }
    RecordedTable {
        spec,
        writer: "recorder-1".to_owned(),
        times: rows.iter().map(|(secs, _)| secs * SECOND).collect(),
        steps: vec![],
        columns,
    }
}

/// A shell (1) that runs two trainings: 2 with a worker 3 from second 2 to 4, and 4 from second 6 on.
fn sweep() -> Recording {
    let tree =
        |memory: f64, processes: f64| vec![memory, memory, ABSENT, 0.0, 0.0, processes, processes];
    let rows: Vec<(u64, Vec<f64>)> = vec![
        (0, tree(10.0, 1.0)),
        (2, tree(110.0, 2.0)),
        (3, tree(160.0, 3.0)),
        (5, tree(10.0, 1.0)),
        (6, tree(310.0, 2.0)),
        (8, tree(310.0, 2.0)),
    ];
    let rows: Vec<(u64, &[f64])> = rows
        .iter()
        .map(|(secs, row)| (*secs, row.as_slice()))
        .collect();
    Recording {
        description: description(0, None),
        tables: vec![
            table(TableSpec::tree(), &rows),
            table(TableSpec::process(id(1)), &[(0, &[10.0, 1.0, 10.0])]),
            table(TableSpec::process(id(2)), &[(2, &[100.0, 5.0, 100.0])]),
            table(TableSpec::process(id(3)), &[(3, &[150.0, 2.0, 50.0])]),
            table(TableSpec::process(id(4)), &[(6, &[300.0, 7.0, 300.0])]),
        ],
        events: vec![
            started(0, 1, 0),
            started(2, 2, 1),
            started(3, 3, 2),
            ended(4, 2),
            ended(4, 3),
            started(6, 4, 1),
        ],
        dropped_rows: 0,
        dropped_program_rows: 0,
        damage: vec![],
    }
}

fn memory(part: &Part) -> Vec<(u64, f64)> {
    let tree = part
        .tables
        .iter()
        .find(|table| table.spec.subject == Subject::Tree);
    let series = tree.map(|tree| tree.series("memory_bytes").unwrap());
    series.map_or(vec![], |series| {
        series
            .present()
            .map(|(time, value)| (time / SECOND, value))
            .collect()
    })
}

#[test]
fn each_training_of_a_sweep_has_its_own_memory() {
    let job = sweep();
    let first = part_of_job(&description(2, Some(4)), &job, &[id(2)]);
    // The worker has 150 resident, 100 of them shared with its parent: together they hold 150.
    assert_eq!(memory(&first), [(0, 100.0), (1, 150.0)]);
    let second = part_of_job(&description(6, None), &job, &[id(4)]);
    assert_eq!(memory(&second), [(0, 300.0), (2, 300.0)]);
}

#[test]
fn pages_shared_with_processes_outside_are_the_runs_too() {
    let mut job = sweep();
    // 20 of the second training's 300 are the shell's as well, and count for the shell.
    job.tables[4].columns[2] = vec![280.0];
    let second = part_of_job(&description(6, None), &job, &[id(4)]);
    assert_eq!(memory(&second), [(0, 300.0), (2, 300.0)]);
}

#[test]
fn what_a_member_starts_belongs_to_its_run_and_what_it_did_not_does_not() {
    let part = part_of_job(&description(2, Some(4)), &sweep(), &[id(2)]);
    let started: Vec<u32> = part
        .events
        .iter()
        .filter_map(|timed| match timed.event {
            Event::ProcessStarted { id, .. } => Some(id.pid),
            _ => None,
        })
        .collect();
    assert_eq!(started, [2, 3]);
}

#[test]
fn the_jobs_marks_belong_to_a_run_only_where_nobody_else_was_there() {
    let mut job = sweep();
    job.tables[0].columns[2] = vec![500.0; 6];
    let alone = part_of_job(&description(0, Some(1)), &job, &[id(1)]);
    let high = |part: &Part| part.tables[0].series("high_water_bytes").unwrap().max();
    assert_eq!(high(&alone), Some((0, 500.0)));
    let beside = part_of_job(&description(2, Some(4)), &job, &[id(2)]);
    assert_eq!(high(&beside), None);
}

#[test]
fn a_number_used_again_is_another_process() {
    let stranger = ProcessId {
        pid: 2,
        start_ticks: 999,
    };
    let part = part_of_job(&description(2, Some(4)), &sweep(), &[stranger]);
    assert!(part.tables.is_empty());
}
