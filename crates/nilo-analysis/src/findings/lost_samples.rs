//! Rows that could not be stored: samples of memory, and what programs logged.

use nilo_sample::{Event, Recording, Severity};

use super::Finding;

pub(super) fn find(recording: &Recording) -> Vec<Finding> {
    let mut reasons: Vec<String> = recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::Lost { rows, reason } => Some(format!("{rows} rows: {reason}")),
            _ => None,
        })
        .collect();
    let found = [samples(recording), logged(recording)];
    let findings = found.into_iter().flatten().map(|(kind, text)| Finding {
        kind,
        severity: Severity::Warning,
        text,
        // An event does not say whose rows they were: they are listed once.
        evidence: std::mem::take(&mut reasons),
        advice: Vec::new(),
    });
    findings.collect()
}

fn samples(recording: &Recording) -> Option<(&'static str, String)> {
    let has_peak = recording.events.iter().any(|timed| {
        matches!(
            timed.event,
            Event::CommandEnded {
                peak_bytes: Some(_),
                ..
            }
        )
    });
    let peak = match has_peak {
        true => "the peak is not affected",
        false => "the real peak may be higher",
    };
    let samples = match recording.dropped_samples() {
        0 => return None,
        1 => "1 sample".to_owned(),
        lost => format!("{lost} samples"),
    };
    let text = format!("{samples} could not be stored: the memory curve has gaps; {peak}");
    Some(("lost-samples", text))
}

fn logged(recording: &Recording) -> Option<(&'static str, String)> {
    let rows = match recording.dropped_program_rows {
        0 => return None,
        1 => "1 logged row".to_owned(),
        lost => format!("{lost} logged rows"),
    };
    let text = format!("{rows} could not be stored: metrics have gaps, memory is not affected");
    Some(("lost-metrics", text))
}
