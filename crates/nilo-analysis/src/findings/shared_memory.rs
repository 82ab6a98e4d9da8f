//! `/dev/shm` filled: DataLoader workers hand batches over through it and die of a bus error when it is full.

use nilo_sample::units::format_bytes;
use nilo_sample::{Recording, Severity, Subject};

use super::Finding;

/// From this share on it is nearly full ...
const NEARLY_FULL: f64 = 0.8;
/// ... and from this one on full.
const FULL: f64 = 0.98;

pub(super) fn find(recording: &Recording) -> Option<Finding> {
    let host = recording.table(&Subject::Host)?;
    let total = host
        .series("shm_total_bytes")?
        .last()
        .filter(|total| *total > 0.0)?;
    let (_, used) = host.series("shm_used_bytes")?.max()?;
    if used < NEARLY_FULL * total {
        return None;
    }
    Some(Finding {
        kind: "shared-memory",
        severity: if used >= FULL * total { Severity::Critical } else { Severity::Warning },
        text: format!(
            "/dev/shm held up to {} of {}",
            format_bytes(used),
            format_bytes(total)
        ),
        evidence: vec!["a process that writes to a full /dev/shm dies of SIGBUS".to_owned()],
        advice: vec!["use fewer workers or a smaller prefetch_factor, or give the container a larger /dev/shm (--shm-size)".to_owned()],
    })
}
