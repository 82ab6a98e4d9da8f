//! The table of the machine: a row when something changed since the last look.

use nilo_runfile::{RowSink, TableId};
use nilo_sample::rows::HostRow;
use nilo_sample::table::or_absent;
use nilo_sample::{TableSpec, TypedRow, is_absent};
use nilo_source::{Host, HostReading, Roots};

/// The machine's rows.
pub(crate) struct HostRows {
    host: Option<Host>,
    table: Option<TableId>,
    last_row: Option<HostRow>,
    readings: u64,
}

impl HostRows {
    pub(crate) fn new(roots: &Roots) -> HostRows {
        HostRows {
            host: Host::new(roots).ok(),
            table: None,
            last_row: None,
            readings: 0,
        }
    }

    /// Reads the machine and writes what changed.
    pub(crate) fn write(&mut self, writer: &mut dyn RowSink, now_nanos: u64) {
        let Some(host) = &mut self.host else { return };
        let row = row_of(&host.read());
        self.readings += 1;
        if self.last_row != Some(row) {
            let table = self.table;
            let table = table.unwrap_or_else(|| writer.define(&TableSpec::host()));
            self.table = Some(table);
            writer.append(table, now_nanos, None, &row.values());
            self.last_row = Some(row);
        }
    }

    /// How often the machine was read.
    pub(crate) fn readings(&self) -> u64 {
        self.readings
    }

    /// What new programs could get at the last look.
    pub(crate) fn available_bytes(&self) -> Option<u64> {
        let available = self.last_row?.available_bytes;
        (!is_absent(available)).then_some(available as u64)
    }
}

fn row_of(reading: &HostReading) -> HostRow {
    HostRow {
        total_bytes: or_absent(reading.total_bytes),
        available_bytes: or_absent(reading.available_bytes),
        swap_total_bytes: or_absent(reading.swap_total_bytes),
        swap_used_bytes: or_absent(reading.swap_used_bytes),
        shm_total_bytes: or_absent(reading.shm_total_bytes),
        shm_used_bytes: or_absent(reading.shm_used_bytes),
        pressure_some_nanos: or_absent(reading.pressure_some_nanos),
        pressure_full_nanos: or_absent(reading.pressure_full_nanos),
        oom_kills: or_absent(reading.oom_kills),
    }
}
