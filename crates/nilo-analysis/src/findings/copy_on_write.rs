//! Forked workers make copies of what they shared with their parent: private memory grows, resident memory does not.

use nilo_sample::units::format_bytes;
use nilo_sample::{ProcessId, RecordedTable, Recording, Severity, Subject};

use super::{Finding, FindingKind};

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
    /// Of all of them, whenever they lived.
    pub(crate) bytes: f64,
    /// The most that those which lived at one time held.
    pub(crate) most_at_once_bytes: f64,
}

pub(super) fn find(recording: &Recording) -> Option<Finding> {
    let CopiedPages { workers, bytes, .. } = copied_pages(recording)?;
    Some(Finding {
        kind: FindingKind::CopyOnWrite,
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
    let mut copies: Vec<WorkerCopies> = Vec::new();
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
            copies.push(WorkerCopies {
                first_nanos: *table.times.first()?,
                last_nanos: *table.times.last()?,
                bytes: private,
            });
        }
    }
    let workers = copies.len();
    let bytes: f64 = copies.iter().map(|worker| worker.bytes).sum();
    (workers >= 2 && bytes >= LEAST_BYTES).then(|| CopiedPages {
        workers,
        bytes,
        most_at_once_bytes: most_at_once(&copies),
    })
}

/// What one worker copied while it lived.
struct WorkerCopies {
    first_nanos: u64,
    last_nanos: u64,
    bytes: f64,
}

/// Workers of one epoch are gone when those of the next begin.
fn most_at_once(copies: &[WorkerCopies]) -> f64 {
    let mut changes: Vec<(u64, f64)> = copies
        .iter()
        .flat_map(|one| [(one.first_nanos, one.bytes), (one.last_nanos, -one.bytes)])
        .collect();
    // Those that end at a moment leave before those that begin at it.
    changes.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut held = 0.0;
    let mut most = 0.0_f64;
    for (_, change) in changes {
        held += change;
        most = most.max(held);
    }
    most
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_of_two_epochs_are_not_added_up() {
        let worker = |first_nanos, last_nanos, bytes| WorkerCopies {
            first_nanos,
            last_nanos,
            bytes,
        };
        let epochs = [
            worker(0, 10, 5.0),
            worker(1, 9, 6.0),
            worker(10, 20, 7.0),
            worker(12, 15, 1.0),
        ];
        assert_eq!(most_at_once(&epochs), 11.0);
        assert_eq!(most_at_once(&epochs[2..]), 8.0);
    }
}
