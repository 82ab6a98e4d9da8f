//! Small hand-made recordings for the tests of the crates above.

use crate::rows::TreeRow;
use crate::run::RUN_SCHEMA;
use crate::{
    ABSENT, RecordedTable, Recording, RunDescription, RunId, RunMode, TableSpec, TypedRow,
};

/// A run of `true` without samples.
pub fn recording() -> Recording {
    Recording::empty(description())
}

/// A run of `true` that goes on.
pub fn description() -> RunDescription {
    RunDescription {
        schema: RUN_SCHEMA.to_owned(),
        id: RunId::new(0, "test"),
        name: None,
        parent: None,
        resumes: None,
        started_by_job: None,
        provenance: None,
        tags: Default::default(),
        mode: RunMode::Run,
        command: vec!["true".to_owned()],
        cwd: "/".to_owned(),
        host: "host".to_owned(),
        system: String::new(),
        nilo_version: String::new(),
        started_unix_nanos: 0,
        started_monotonic_nanos: 0,
        boot_id: String::new(),
        recorder_pid: 1,
        recorder_start_ticks: 0,
        root_pids: vec![],
        interval_nanos: 100_000_000,
        slurm: None,
        asked_dir: None,
        limit: None,
        ending: None,
        streams: Default::default(),
        marks_bytes: None,
    }
}

/// A table without rows.
pub fn table(spec: TableSpec) -> RecordedTable {
    let columns = vec![Vec::new(); spec.columns.len()];
    RecordedTable {
        spec,
        writer: "recorder-1".to_owned(),
        times: vec![],
        steps: vec![],
        columns,
    }
}

/// Adds a row.
pub fn tick(table: &mut RecordedTable, time: u64, row: impl TypedRow) {
    tick_values(table, time, row.values().as_ref());
}

/// Adds a row to a table without fixed columns, such as one of metrics.
pub fn tick_values(table: &mut RecordedTable, time: u64, values: &[f64]) {
    assert_eq!(values.len(), table.columns.len(), "one value a column");
    table.times.push(time);
    for (column, value) in table.columns.iter_mut().zip(values) {
        column.push(*value);
    }
}

/// A table with these rows.
pub fn table_of<R: TypedRow>(spec: TableSpec, rows: &[(u64, R)]) -> RecordedTable {
    let mut table = table(spec);
    for (time, row) in rows {
        tick(&mut table, *time, *row);
    }
    table
}

/// The values of a column, to be changed.
pub fn column<'a>(table: &'a mut RecordedTable, name: &str) -> &'a mut Vec<f64> {
    let place = table.spec.column(name).expect("the table has this column");
    &mut table.columns[place]
}

/// One process that holds so much and has used no CPU time yet.
pub fn level(memory_bytes: f64) -> TreeRow {
    TreeRow {
        memory_bytes,
        rss_bytes: memory_bytes,
        high_water_bytes: ABSENT,
        swap_bytes: 0.0,
        cpu_nanos: 0.0,
        processes: 1.0,
        pss_processes: 0.0,
    }
}

/// A tree table from (milliseconds, memory, high water, CPU nanoseconds).
pub fn tree(rows: &[(u64, f64, f64, f64)]) -> RecordedTable {
    let mut table = table(TableSpec::tree());
    for (millis, memory, high_water, cpu) in rows {
        let row = TreeRow {
            high_water_bytes: *high_water,
            cpu_nanos: *cpu,
            ..level(*memory)
        };
        tick(&mut table, millis * 1_000_000, row);
    }
    table
}
