//! Allocations on a GPU failed, and the program went on.

use nilo_sample::Severity;

use super::{Finding, FindingKind, JudgedRecording};
use crate::handled_gpu_failures::handled_gpu_failures;

pub(super) fn find(seen: &JudgedRecording<'_>) -> Option<Finding> {
    let handled = handled_gpu_failures(seen.recording, seen.ending, |_| true)?;
    let cause = handled.cause.as_ref();
    Some(Finding {
        kind: FindingKind::GpuAllocationFailed,
        severity: Severity::Warning,
        text: handled.to_string(),
        evidence: cause.map(|cause| cause.text.clone()).into_iter().collect(),
        advice: cause.map_or_else(Vec::new, |cause| cause.advice.clone()),
    })
}
