//! Rows that could not be stored: samples of memory, and what programs logged.

use nilo_sample::{Event, Recording, Severity};

use super::{Finding, FindingKind};

pub(super) fn find(recording: &Recording) -> Vec<Finding> {
    let mut reasons = reasons(recording);
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

/// How many rows were lost for each reason, in the order in which the reasons arose.
fn reasons(recording: &Recording) -> Vec<String> {
    let mut lost: Vec<(&str, u64)> = Vec::new();
    for timed in &recording.events {
        let Event::Lost { rows, reason } = &timed.event else {
            continue;
        };
        match lost.iter_mut().find(|(known, _)| known == reason) {
            Some((_, sum)) => *sum += rows,
            None => lost.push((reason, *rows)),
        }
    }
    let told = lost.into_iter();
    told.map(|(reason, rows)| format!("{rows} rows: {reason}"))
        .collect()
}

fn samples(recording: &Recording) -> Option<(FindingKind, String)> {
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
    Some((FindingKind::LostSamples, text))
}

fn logged(recording: &Recording) -> Option<(FindingKind, String)> {
    let rows = match recording.dropped_program_rows {
        0 => return None,
        1 => "1 logged row".to_owned(),
        lost => format!("{lost} logged rows"),
    };
    let text = format!("{rows} could not be stored: metrics have gaps, memory is not affected");
    Some((FindingKind::LostMetrics, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::{TimedEvent, fixture};

    #[test]
    fn rows_that_were_lost_for_one_reason_are_one_piece_of_evidence() {
        let lost = |rows, reason: &str| TimedEvent {
            time_nanos: 0,
            event: Event::Lost {
                rows,
                reason: reason.to_owned(),
            },
        };
        let mut recording = fixture::recording();
        recording.dropped_rows = 10;
        recording.dropped_program_rows = 10;
        recording.events = vec![
            lost(3, "disk full"),
            lost(1, "the disk is gone"),
            lost(6, "disk full"),
        ];
        let evidence: Vec<String> = find(&recording)
            .into_iter()
            .flat_map(|it| it.evidence)
            .collect();
        assert_eq!(evidence, ["9 rows: disk full", "1 rows: the disk is gone"]);
    }
}
