//! Memory that nobody recorded to the end: the process that began a run recorded it, and others went on when that had ended.

use nilo_sample::units::NANOS_PER_SEC;
use nilo_sample::words::duration_in_words;
use nilo_sample::{Recording, RunMode, Severity, Subject};

use super::Finding;

/// A run whose last samples lie this long before its end has none of what came then.
const LEAST_NANOS: u64 = 2 * NANOS_PER_SEC;
/// The same, in sampling intervals.
const LEAST_INTERVALS: u64 = 5;

pub(super) fn find(recording: &Recording) -> Option<Finding> {
    if recording.description.mode != RunMode::Python {
        return None;
    }
    let recorded = *recording.table(&Subject::Tree)?.times.last()?;
    let least = LEAST_NANOS.max(LEAST_INTERVALS * recording.description.interval_nanos);
    let missing = recording
        .written_until_nanos
        .checked_sub(recorded)
        .filter(|missing| *missing >= least)?;
    let secs = |nanos: u64| duration_in_words(nanos as f64 / NANOS_PER_SEC as f64);
    Some(Finding {
        kind: "memory-ends-early",
        severity: Severity::Warning,
        text: format!(
            "memory was recorded for {} only, and values were logged for {} more: the real peak may be higher",
            secs(recorded),
            secs(missing)
        ),
        evidence: vec![
            "the process that began the run recorded its memory, and ended before the others"
                .to_owned(),
        ],
        advice: vec!["record the whole job with `nilo run -- COMMAND`".to_owned()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::fixture;

    #[test]
    fn values_that_go_on_after_the_last_sample_are_told() {
        let mut recording = fixture::recording();
        recording.description.mode = RunMode::Python;
        recording.tables = vec![fixture::tree(&[(0, 9.0, 0.0, 0.0), (10, 9.0, 0.0, 0.0)])];
        let recorded = recording.tables[0].times[1];
        recording.written_until_nanos = recorded + NANOS_PER_SEC;
        assert_eq!(find(&recording), None);
        recording.written_until_nanos = recorded + 3 * NANOS_PER_SEC;
        let text = find(&recording).unwrap().text;
        assert!(
            text.ends_with("for 3 seconds more: the real peak may be higher"),
            "{text}"
        );
        recording.description.mode = RunMode::Run;
        assert_eq!(find(&recording), None);
    }
}
