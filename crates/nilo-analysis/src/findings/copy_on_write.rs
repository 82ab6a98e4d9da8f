//! Forked workers make copies of what they shared with their parent: private memory grows, resident memory does not.

use nilo_sample::units::format_bytes;
use nilo_sample::{ProcessId, RecordedTable, Recording, Severity, Subject};

use super::Finding;

/// Private memory must have grown by this much in all workers together.
const LEAST_BYTES: f64 = 50.0 * 1024.0 * 1024.0;
/// What one fault copies.
const PAGE_BYTES: f64 = 4096.0;
/// Resident memory that grew by less than this share of it was there before.
const STOOD: f64 = 0.3;

/// Pages that forked processes copied of what they shared with their parent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CopiedPages {
    pub(crate) workers: usize,
    pub(crate) bytes: f64,
}

pub(super) fn find(recording: &Recording) -> Option<Finding> {
    let CopiedPages { workers, bytes } = copied_pages(recording)?;
    Some(Finding {
        kind: "copy-on-write",
        severity: Severity::Info,
        text: format!(
            "at least {workers} forked processes copied at least {} of what they shared with their parent",
            format_bytes(bytes)
        ),
        evidence: vec!["their private memory grew, their resident memory did not".to_owned()],
        advice: vec!["keep large data in arrays instead of Python lists: touching an object's reference count copies its page".to_owned()],
    })
}

/// What was copied, where it is worth a word.
pub(crate) fn copied_pages(recording: &Recording) -> Option<CopiedPages> {
    let mut workers = 0;
    let mut copied = 0.0;
    for table in &recording.tables {
        let Subject::ProcessDetail(id) = table.spec.subject else {
            continue;
        };
        let (Some(private), Some(resident)) = (grown(table, "uss_bytes"), resident(recording, id))
        else {
            continue;
        };
        // Memory also becomes private when others let go of it; a copy takes a fault that no growth explains.
        let faulted = grown(table, "minor_faults").map_or(f64::INFINITY, |faults| {
            faults * PAGE_BYTES - allocated(recording, id)
        });
        let private = private.min(faulted);
        if private > LEAST_BYTES / 8.0 && resident < STOOD * private {
            workers += 1;
            copied += private;
        }
    }
    (workers >= 2 && copied >= LEAST_BYTES).then_some(CopiedPages {
        workers,
        bytes: copied,
    })
}

fn resident(recording: &Recording, id: ProcessId) -> Option<f64> {
    grown(recording.table(&Subject::Process(id))?, "rss_bytes")
}

/// All that its resident memory grew by, whatever was freed in between.
fn allocated(recording: &Recording, id: ProcessId) -> f64 {
    let series = recording
        .table(&Subject::Process(id))
        .and_then(|table| table.series("rss_bytes"));
    let Some(series) = series else { return 0.0 };
    let levels: Vec<f64> = series.present().map(|(_, bytes)| bytes).collect();
    let rises = levels.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0));
    rises.sum()
}

/// From the first value to the last.
fn grown(table: &RecordedTable, column: &str) -> Option<f64> {
    let series = table.series(column)?;
    let (_, first) = series.present().next()?;
    Some(series.last()? - first)
}
