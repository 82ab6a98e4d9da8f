//! `/dev/shm` filled: DataLoader workers hand batches over through it and die of a bus error when it is full.

use nilo_sample::units::format_bytes;
use nilo_sample::{Recording, Severity, Subject};

use super::{Finding, FindingKind};

/// From this share on it is nearly full ...
const NEARLY_FULL: f64 = 0.8;
/// ... and from this one on full.
const FULL: f64 = 0.98;

/// What `/dev/shm` held at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SharedMemoryUse {
    pub(crate) peak_bytes: f64,
    pub(crate) total_bytes: f64,
}

pub(crate) fn shared_memory_use(recording: &Recording) -> Option<SharedMemoryUse> {
    let host = recording.table(&Subject::Host)?;
    let total = host.series("shm_total_bytes")?.last();
    let (_, peak_bytes) = host.series("shm_used_bytes")?.max()?;
    Some(SharedMemoryUse {
        peak_bytes,
        total_bytes: total.filter(|total| *total > 0.0)?,
    })
}

pub(super) fn find(recording: &Recording) -> Option<Finding> {
    let SharedMemoryUse {
        peak_bytes: used,
        total_bytes: total,
    } = shared_memory_use(recording)?;
    if used < NEARLY_FULL * total {
        return None;
    }
    Some(Finding {
        kind: FindingKind::SharedMemory,
        severity: if used >= FULL * total { Severity::Critical } else { Severity::Warning },
        text: format!(
            "/dev/shm held up to {} of {}",
            format_bytes(used),
            format_bytes(total)
        ),
        evidence: vec!["a process that writes to a full /dev/shm is killed by SIGBUS".to_owned()],
        advice: vec!["use fewer workers or a smaller prefetch_factor, or give the container a larger /dev/shm (--shm-size)".to_owned()],
    })
}
