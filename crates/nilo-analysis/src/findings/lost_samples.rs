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
    let has_peak = recording.events.iter().any(|timed| {
        matches!(
            timed.event,
            Event::CommandEnded {
                peak_bytes: Some(_),
                ..
            }
        )
    });
    let (samples, peak) = (
        if lost == 1 { "sample" } else { "samples" },
        match has_peak {
            true => "the peak is not affected",
            false => "the real peak may be higher",
        },
    );
    Some(Finding {
        kind: "lost-samples",
        severity: "warning",
        text: format!("{lost} {samples} could not be stored: the memory curve has gaps; {peak}"),
        evidence: reasons.collect(),
        advice: Vec::new(),
    })
}
