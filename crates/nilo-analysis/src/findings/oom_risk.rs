//! Memory was about to run out: foreseen before a kill, or still to be expected where the recording stops.

use nilo_sample::units::{format_duration, to_secs};
use nilo_sample::{RunStatus, Severity};

use super::{Finding, FindingKind, JudgedRecording};
use crate::assessment::{RanOutKind, is_warning};
use crate::tracking::ResourceVerdict;

pub(super) fn find(seen: &JudgedRecording<'_>) -> Vec<Finding> {
    let risky = seen
        .verdicts
        .iter()
        .filter(|verdict| is_warning(verdict.forecast.level));
    risky
        .filter_map(|verdict| describe(seen, verdict))
        .collect()
}

fn describe(seen: &JudgedRecording<'_>, verdict: &ResourceVerdict) -> Option<Finding> {
    let (ending, resource) = (seen.ending, &verdict.resource);
    let raised = seen.changes.iter().rev().find(|change| {
        change.resource == *resource
            && !is_warning(change.before)
            && is_warning(change.forecast.level)
    })?;
    let decided = match seen.ran_out {
        Some(ran_out) => ran_out.decisive_nanos(ending),
        None => ending.decisive_nanos(),
    };
    let ahead = decided.saturating_sub(raised.time_nanos);
    let said = raised.forecast.seconds.unwrap_or(0.0);
    let seconds = verdict.forecast.seconds.unwrap_or(0.0);
    let predicted = format!(
        "predicted at {}: {} (confidence {:.2})",
        format_duration(raised.time_nanos),
        spell(said),
        raised.forecast.confidence,
    );
    // A job that goes on after a kill may run out once more.
    let is_over = |time_nanos| ending.status != RunStatus::Running || time_nanos <= decided;
    let ran_out = seen.ran_out.filter(|_| is_over(raised.time_nanos));
    let (severity, text) = match (ran_out, ending.status) {
        (Some(ran_out), _) => {
            let end = match ran_out.kind {
                RanOutKind::OomKill if ran_out.time_nanos.is_none() => "the recording stopped",
                RanOutKind::OomKill => "the kill",
                RanOutKind::GpuAllocation | RanOutKind::HostAllocation => "the allocation failed",
            };
            let ahead = spell(to_secs(ahead));
            let text = format!("running out of {resource} was predicted {ahead} before {end}");
            (Severity::Info, text)
        }
        (None, RunStatus::Running) => (
            Severity::Critical,
            format!("{resource} runs out in {}", spell(seconds)),
        ),
        (None, _) => (
            Severity::Warning,
            format!(
                "when the recording stopped, {resource} was {} from running out",
                spell(seconds)
            ),
        ),
    };
    Some(Finding {
        kind: FindingKind::OomRisk,
        severity,
        text,
        evidence: vec![predicted],
        advice: Vec::new(),
    })
}

fn spell(seconds: f64) -> String {
    format_duration((seconds.max(0.0) * 1e9) as u64)
}
