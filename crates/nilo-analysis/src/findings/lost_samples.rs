//! Rows that could not be stored.

use nilo_sample::{Event, Recording};

use super::Finding;

pub(super) fn find(recording: &Recording) -> Option<Finding> {
    let lost = recording.dropped_rows;
    if lost == 0 {
        return None;
    }
    let reasons = recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::Lost { rows, reason } => Some(format!("{rows} rows: {reason}")),
            _ => None,
        });
    Some(Finding {
        kind: "lost-samples",
        severity: "warning",
        text: format!(
            "{lost} samples could not be stored; the curve has holes, the kernel's peak does not"
        ),
        evidence: reasons.collect(),
        advice: Vec::new(),
    })
}
