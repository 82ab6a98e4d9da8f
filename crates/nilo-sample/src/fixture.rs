//! Small hand-made recordings for the tests of the crates above.

use crate::run::RUN_SCHEMA;
use crate::{RecordedTable, Recording, RunDescription, RunId, RunMode, TableSpec};

/// A run of `true` without samples.
pub fn recording() -> Recording {
    Recording {
        description: RunDescription {
            schema: RUN_SCHEMA.to_owned(),
            id: RunId::new(0, "test"),
            name: None,
            parent: None,
            resumes: None,
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
            limit: None,
            ending: None,
        },
        tables: vec![],
        events: vec![],
        stacks: Default::default(),
        written_until_nanos: 0,
        dropped_rows: 0,
        dropped_program_rows: 0,
        damage: vec![],
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
pub fn tick(table: &mut RecordedTable, time: u64, row: &[f64]) {
    table.times.push(time);
    for (column, value) in table.columns.iter_mut().zip(row) {
        column.push(*value);
    }
}

/// A tree table from (milliseconds, memory, high water, CPU nanoseconds).
pub fn tree(rows: &[(u64, f64, f64, f64)]) -> RecordedTable {
    let mut table = table(TableSpec::tree());
    for (millis, memory, high_water, cpu) in rows {
        tick(
            &mut table,
            millis * 1_000_000,
            &[*memory, *memory, *high_water, 0.0, *cpu, 1.0, 0.0],
        );
    }
    table
}
