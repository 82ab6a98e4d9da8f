//! The tables of single processes: a row only when something changed, so that idle workers cost nothing.

use std::collections::HashMap;

use nilo_runfile::{RowSink, TableId};
use nilo_sample::rows::{ProcessDetailRow, ProcessRow};
use nilo_sample::table::or_absent;
use nilo_sample::{ProcessId, TableSpec, TypedRow};
use nilo_source::TrackedProcess;

/// An unchanged row is repeated after this long, so that a reader who joins late need not look far back.
const REPEAT_NANOS: u64 = 10_000_000_000;

struct ProcessTables {
    quick: TableId,
    detail: TableId,
    last_quick: Option<ProcessRow>,
    last_quick_nanos: u64,
    last_detail: Option<ProcessDetailRow>,
}

/// The rows of every process of the tree.
#[derive(Default)]
pub(crate) struct ProcessRows {
    rows: HashMap<ProcessId, ProcessTables>,
}

impl ProcessRows {
    /// Writes what changed on this tick.
    pub(crate) fn write(
        &mut self,
        writer: &mut dyn RowSink,
        now_nanos: u64,
        processes: &[TrackedProcess],
    ) {
        for process in processes {
            let rows = self
                .rows
                .entry(process.id)
                .or_insert_with(|| ProcessTables {
                    quick: writer.define(&TableSpec::process(process.id)),
                    detail: writer.define(&TableSpec::process_detail(process.id)),
                    last_quick: None,
                    last_quick_nanos: 0,
                    last_detail: None,
                });
            let quick = ProcessRow {
                rss_bytes: process.reading.rss_bytes as f64,
                cpu_nanos: process.reading.cpu_nanos as f64,
                memory_bytes: process.memory_bytes as f64,
                virtual_bytes: process.reading.virtual_bytes as f64,
                distinct_bytes: process.distinct_bytes() as f64,
            };
            let stale = now_nanos.saturating_sub(rows.last_quick_nanos) > REPEAT_NANOS;
            if stale || rows.last_quick != Some(quick) {
                writer.append(rows.quick, now_nanos, None, &quick.values());
                rows.last_quick = Some(quick);
                rows.last_quick_nanos = now_nanos;
            }
            if process.detail_is_new || process.pss_is_new {
                let detail = detail_row(process);
                if rows.last_detail != Some(detail) {
                    writer.append(rows.detail, now_nanos, None, &detail.values());
                    rows.last_detail = Some(detail);
                }
            }
        }
    }

    /// A process is gone.
    pub(crate) fn forget(&mut self, writer: &mut dyn RowSink, id: ProcessId) {
        if let Some(rows) = self.rows.remove(&id) {
            writer.forget(rows.quick);
            writer.forget(rows.detail);
        }
    }
}

fn detail_row(process: &TrackedProcess) -> ProcessDetailRow {
    let detail = &process.detail;
    ProcessDetailRow {
        peak_rss_bytes: or_absent(detail.peak_rss_bytes),
        pss_bytes: or_absent(detail.pss_bytes),
        uss_bytes: or_absent(detail.uss_bytes),
        swap_bytes: or_absent(detail.swap_bytes),
        threads: or_absent(detail.threads),
        open_files: or_absent(detail.open_files),
        minor_faults: or_absent(detail.minor_faults),
        major_faults: or_absent(detail.major_faults),
        read_bytes: or_absent(detail.read_bytes),
        written_bytes: or_absent(detail.written_bytes),
        peak_virtual_bytes: or_absent(detail.peak_virtual_bytes),
        data_bytes: or_absent(detail.data_bytes),
    }
}
