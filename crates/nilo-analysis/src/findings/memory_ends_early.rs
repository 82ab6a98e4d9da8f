//! Memory that nobody recorded to the end: the process that began a run recorded it, and others went on when that had ended.

use nilo_sample::units::NANOS_PER_SEC;
use nilo_sample::words::duration_in_words;
use nilo_sample::{Recording, RunMode, Severity, Subject};

use super::{Finding, FindingKind};
use crate::summary::damage;

/// A run whose last samples lie this long before its end, and this part of it, has none of what came then.
const LEAST_NANOS: u64 = NANOS_PER_SEC;
const LEAST_PART: u64 = 10;
/// The same, in sampling intervals.
const LEAST_INTERVALS: u64 = 5;
/// However long the run was, so much is told.
const MOST_NANOS: u64 = 60 * NANOS_PER_SEC;

/// How long memory was recorded of a run that went on, and for how long it went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryEndsEarly {
    /// When its last sample was taken, from the start.
    pub recorded_nanos: u64,
    /// The time after that.
    pub missing_nanos: u64,
}

/// Whether a run went on when nobody recorded its memory any more.
pub fn memory_ends_early(recording: &Recording) -> Option<MemoryEndsEarly> {
    // A watched process may go on after the watching.
    if !matches!(recording.description.mode, RunMode::Python | RunMode::Run) {
        return None;
    }
    let recorded = *recording.table(&Subject::Tree)?.times.last()?;
    let written_until_nanos = written_until(recording);
    let least = LEAST_NANOS
        .max(LEAST_INTERVALS * recording.description.interval_nanos)
        .max(written_until_nanos / LEAST_PART);
    // In any case such a stretch is long enough to hold much.
    let least = least.min(MOST_NANOS);
    let missing_nanos = written_until_nanos
        .checked_sub(recorded)
        .filter(|missing| *missing >= least)?;
    Some(MemoryEndsEarly {
        recorded_nanos: recorded,
        missing_nanos,
    })
}

/// When the run was last heard of. Of damaged files the end that was written down may be all that tells of it.
fn written_until(recording: &Recording) -> u64 {
    let ending = recording.description.ending.as_ref();
    let told = ending.filter(|_| !damage(recording).is_empty());
    let told = told.map_or(0, |ending| ending.time_nanos);
    recording.written_until_nanos.max(told)
}

pub(super) fn find(recording: &Recording) -> Option<Finding> {
    let early = memory_ends_early(recording)?;
    let secs = |nanos: u64| duration_in_words(nanos as f64 / NANOS_PER_SEC as f64);
    let (evidence, advice) = cause(recording);
    Some(Finding {
        kind: FindingKind::MemoryEndsEarly,
        severity: Severity::Warning,
        text: format!(
            "memory was recorded for {} only, and the run went on for {} more: the real peak may be higher",
            secs(early.recorded_nanos),
            secs(early.missing_nanos)
        ),
        evidence: vec![evidence.to_owned()],
        advice: advice.into_iter().map(str::to_owned).collect(),
    })
}

/// Why memory ends early, and what to do about it.
fn cause(recording: &Recording) -> (&'static str, Option<&'static str>) {
    // What is missing was perhaps recorded: nothing follows from it.
    if !damage(recording).is_empty() {
        return ("files of the recording are damaged", None);
    }
    if recording.is_job_open {
        return ("the recorder of the job died before the run was over", None);
    }
    let has_job = recording.description.parent.is_some();
    match has_job || recording.description.mode == RunMode::Run {
        true => (
            "the recording of the job had ended, and leftover processes kept logging",
            Some("record until the last process has ended with `nilo run --wait-all -- COMMAND`"),
        ),
        false => (
            "the process that recorded the memory ended before the others",
            Some("record the whole job with `nilo run -- COMMAND`"),
        ),
    }
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
        recording.written_until_nanos = recorded + NANOS_PER_SEC / 2;
        assert_eq!(find(&recording), None);
        recording.written_until_nanos = recorded + 2 * NANOS_PER_SEC;
        assert!(find(&recording).is_some());
        recording.written_until_nanos = recorded + 3 * NANOS_PER_SEC;
        let text = find(&recording).unwrap().text;
        assert!(
            text.ends_with("for 3 seconds more: the real peak may be higher"),
            "{text}"
        );
        let advice = find(&recording).unwrap().advice;
        assert!(advice[0].contains("nilo run -- COMMAND"), "{advice:?}");
        recording.description.parent = Some(recording.description.id.clone());
        let advice = find(&recording).unwrap().advice;
        assert!(advice[0].contains("--wait-all"), "{advice:?}");
        recording.is_job_open = true;
        let found = find(&recording).unwrap();
        assert!(
            found.evidence[0].contains("recorder of the job died"),
            "{found:?}"
        );
        assert!(found.advice.is_empty(), "{found:?}");
        recording.is_job_open = false;
        recording.description.parent = None;
        recording.description.mode = RunMode::Run;
        assert_eq!(find(&recording).unwrap().advice, advice);
        recording.damage = vec!["recorder.0000.nilo: the last record is cut off".to_owned()];
        let found = find(&recording).unwrap();
        assert_eq!(found.evidence, ["files of the recording are damaged"]);
        assert!(found.advice.is_empty(), "{found:?}");
        recording.damage.clear();
        recording.description.mode = RunMode::Watch;
        assert_eq!(find(&recording), None);
    }
}
