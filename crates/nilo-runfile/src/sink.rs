//! Where rows and events go: into a run's files, or into memory for whoever takes them from there.

use nilo_sample::{Event, NO_STEP, RecordedTable, TableSpec, TimedEvent};

use crate::follow::Update;
use crate::writer::{RunWriter, TableId};

/// Takes rows and events as they come.
pub trait RowSink {
    /// Announces a table.
    fn define(&mut self, spec: &TableSpec) -> TableId;

    /// Appends a row; `false` when it was dropped (and counted). `time_nanos` is [`crate::monotonic_nanos`].
    fn append(
        &mut self,
        table: TableId,
        time_nanos: u64,
        step: Option<i64>,
        values: &[f64],
    ) -> bool;

    /// Stores an event; `false` when it was dropped (and counted).
    fn event(&mut self, time_nanos: u64, event: &Event) -> bool;

    /// Forgets a table whose subject has ended; its rows stay.
    fn forget(&mut self, table: TableId);

    /// Rows and events that could not be stored.
    fn dropped(&self) -> u64;
}

impl RowSink for RunWriter {
    fn define(&mut self, spec: &TableSpec) -> TableId {
        RunWriter::define(self, spec)
    }

    fn append(
        &mut self,
        table: TableId,
        time_nanos: u64,
        step: Option<i64>,
        values: &[f64],
    ) -> bool {
        RunWriter::append(self, table, time_nanos, step, values)
    }

    fn event(&mut self, time_nanos: u64, event: &Event) -> bool {
        RunWriter::event(self, time_nanos, event)
    }

    fn forget(&mut self, table: TableId) {
        RunWriter::forget(self, table);
    }

    fn dropped(&self) -> u64 {
        RunWriter::dropped(self)
    }
}

/// Keeps rows and events in memory until they are taken, as [`crate::Follower`] hands out those of a run's files.
#[derive(Debug)]
pub struct RowBuffer {
    writer: String,
    started_nanos: u64,
    tables: Vec<Option<BufferedTable>>,
    events: Vec<TimedEvent>,
}

#[derive(Debug)]
struct BufferedTable {
    recorded: RecordedTable,
    is_forgotten: bool,
}

impl RowBuffer {
    /// `writer` names the stream; times count from `started_nanos`.
    pub fn new(writer: &str, started_nanos: u64) -> RowBuffer {
        RowBuffer {
            writer: writer.to_owned(),
            started_nanos,
            tables: Vec::new(),
            events: Vec::new(),
        }
    }

    /// What came since the last call.
    pub fn take(&mut self) -> Update {
        let mut tables = Vec::new();
        for slot in &mut self.tables {
            let Some(table) = slot else { continue };
            if !table.recorded.times.is_empty() {
                let empty = empty_table(table.recorded.spec.clone(), &self.writer);
                tables.push(std::mem::replace(&mut table.recorded, empty));
            }
            if table.is_forgotten {
                *slot = None;
            }
        }
        Update {
            tables,
            events: std::mem::take(&mut self.events),
            damage: Vec::new(),
        }
    }
}

impl RowSink for RowBuffer {
    fn define(&mut self, spec: &TableSpec) -> TableId {
        let table = Some(BufferedTable {
            recorded: empty_table(spec.clone(), &self.writer),
            is_forgotten: false,
        });
        let free = self.tables.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.tables.len());
        match free {
            Some(slot) => self.tables[slot] = table,
            None => self.tables.push(table),
        }
        TableId::of_slot(slot as u32)
    }

    fn append(
        &mut self,
        table: TableId,
        time_nanos: u64,
        step: Option<i64>,
        values: &[f64],
    ) -> bool {
        let Some(Some(table)) = self.tables.get_mut(table.index()) else {
            return false;
        };
        let recorded = &mut table.recorded;
        let since_start = time_nanos.saturating_sub(self.started_nanos);
        recorded.times.push(since_start);
        recorded.steps.push(step.unwrap_or(NO_STEP));
        for (column, value) in recorded.columns.iter_mut().zip(values) {
            column.push(*value);
        }
        true
    }

    fn event(&mut self, time_nanos: u64, event: &Event) -> bool {
        self.events.push(TimedEvent {
            time_nanos: time_nanos.saturating_sub(self.started_nanos),
            event: event.clone(),
        });
        true
    }

    fn forget(&mut self, table: TableId) {
        if let Some(Some(table)) = self.tables.get_mut(table.index()) {
            table.is_forgotten = true;
        }
    }

    fn dropped(&self) -> u64 {
        0
    }
}

fn empty_table(spec: TableSpec, writer: &str) -> RecordedTable {
    RecordedTable {
        writer: writer.to_owned(),
        times: Vec::new(),
        steps: Vec::new(),
        columns: vec![Vec::new(); spec.columns.len()],
        spec,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RunFolder, WriterOptions, monotonic_nanos};
    use nilo_sample::{ProcessId, fixture};

    /// The same rows and events through a sink.
    fn write(sink: &mut dyn RowSink, started_nanos: u64) {
        let process = |pid| {
            TableSpec::process(ProcessId {
                pid,
                start_ticks: 1,
            })
        };
        let at = |millis: u64| started_nanos + millis * 1_000_000;
        let first = sink.define(&process(1));
        let phase = sink.define(&TableSpec::phase("forward"));
        sink.append(first, at(1), None, &[1.0, 2.0, 3.0, 8.0, 1.0]);
        sink.append(phase, at(2), Some(7), &[0.5]);
        sink.forget(first);
        let second = sink.define(&process(2));
        sink.append(second, at(3), None, &[4.0, 5.0, 6.0, 9.0, 4.0]);
        let text = "epoch 1".to_owned();
        sink.event(at(4), &Event::Mark { text });
    }

    #[test]
    fn a_buffer_hands_out_what_following_the_files_would() {
        let scratch = tempfile::tempdir().unwrap();
        let mut description = fixture::description();
        description.started_monotonic_nanos = monotonic_nanos();
        description.boot_id = crate::boot_id();
        let folder = RunFolder::create(scratch.path(), &description).unwrap();
        let started_nanos = description.started_monotonic_nanos;
        let options = WriterOptions::default();
        let mut writer = RunWriter::create(folder.path(), "recorder", options).unwrap();
        write(&mut writer, started_nanos);
        let followed = folder.follow().poll().unwrap();

        let mut buffer = RowBuffer::new(writer.name(), started_nanos);
        write(&mut buffer, started_nanos);
        let taken = buffer.take();
        assert_eq!(taken.events, followed.events);
        let rows = |update: &Update| {
            let tables = update.tables.iter();
            let rows = tables.map(|it| (it.spec.clone(), it.times.clone(), it.columns.clone()));
            rows.collect::<Vec<_>>()
        };
        assert_eq!(rows(&taken), rows(&followed));
        assert!(buffer.take().is_empty());
    }
}
