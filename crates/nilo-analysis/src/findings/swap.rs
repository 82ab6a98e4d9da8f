//! The machine's swap filled while the job ran.

use nilo_sample::units::format_bytes;
use nilo_sample::{Recording, Severity, Subject};

use super::{Finding, FindingKind};

/// Swap use that grew by this share of all swap is worth a word; from the second on it is a warning.
const GREW: f64 = 0.1;
const NEARLY_FULL: f64 = 0.8;

pub(super) fn find(recording: &Recording) -> Option<Finding> {
    let host = recording.table(&Subject::Host)?;
    let total = host
        .series("swap_total_bytes")?
        .last()
        .filter(|total| *total > 0.0)?;
    let used = host.series("swap_used_bytes")?;
    let (_, first) = used.present().next()?;
    let (_, most) = used.max()?;
    if most - first < GREW * total {
        return None;
    }
    let of_job = recording
        .table(&Subject::Tree)
        .and_then(|tree| tree.series("swap_bytes"))
        .and_then(|series| series.max())
        .map_or(0.0, |(_, bytes)| bytes);
    Some(Finding {
        kind: FindingKind::Swap,
        severity: if most > NEARLY_FULL * total {
            Severity::Warning
        } else {
            Severity::Info
        },
        text: format!(
            "swap filled from {} to {} of {}",
            format_bytes(first),
            format_bytes(most),
            format_bytes(total)
        ),
        evidence: vec![format!(
            "up to {} of it was this job's",
            format_bytes(of_job)
        )],
        advice: Vec::new(),
    })
}
