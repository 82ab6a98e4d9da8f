//! The tables of single processes: a row only when something changed, so that idle workers cost nothing.

use std::collections::HashMap;

use nilo_runfile::{RowSink, TableId};
use nilo_sample::table::or_absent;
use nilo_sample::{ProcessId, TableSpec};
use nilo_source::TrackedProcess;

/// An unchanged row is repeated after this long, so that a reader who joins late need not look far back.
const REPEAT_NANOS: u64 = 10_000_000_000;

struct Rows {
    quick: TableId,
    detail: TableId,
    last_quick: [f64; 3],
    last_quick_nanos: u64,
    last_detail: [f64; 10],
}

/// The rows of every process of the tree.
#[derive(Default)]
pub(crate) struct ProcessRows {
    rows: HashMap<ProcessId, Rows>,
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
            let rows = self.rows.entry(process.id).or_insert_with(|| Rows {
                quick: writer.define(&TableSpec::process(process.id)),
                detail: writer.define(&TableSpec::process_detail(process.id)),
                last_quick: [f64::NAN; 3],
                last_quick_nanos: 0,
                last_detail: [f64::NAN; 10],
            });
            let quick = [
                process.reading.rss_bytes as f64,
                process.reading.cpu_nanos as f64,
                process.memory_bytes as f64,
            ];
            let stale = now_nanos.saturating_sub(rows.last_quick_nanos) > REPEAT_NANOS;
            if stale || !same(&quick, &rows.last_quick) {
                writer.append(rows.quick, now_nanos, None, &quick);
                rows.last_quick = quick;
                rows.last_quick_nanos = now_nanos;
            }
            if process.detail_is_new || process.pss_is_new {
                let detail = detail_row(process);
                if !same(&detail, &rows.last_detail) {
                    writer.append(rows.detail, now_nanos, None, &detail);
                    rows.last_detail = detail;
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

/// In the order of [`TableSpec::process_detail`].
fn detail_row(process: &TrackedProcess) -> [f64; 10] {
    let detail = &process.detail;
    [
        detail.peak_rss_bytes,
        detail.pss_bytes,
        detail.uss_bytes,
        detail.swap_bytes,
        detail.threads,
        detail.open_files,
        detail.minor_faults,
        detail.major_faults,
        detail.read_bytes,
        detail.written_bytes,
    ]
    .map(or_absent)
}

/// Equal bit by bit, so that absent values equal themselves.
pub(crate) fn same(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}
