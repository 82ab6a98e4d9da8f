//! Memory was about to run out: foreseen before a kill, or still the outlook where the recording stops.

use nilo_sample::units::{format_duration, to_secs};
use nilo_sample::{Ending, RunStatus};

use super::Finding;
use crate::assessment::is_warning;
use crate::lookout::{Change, Verdict};

pub(super) fn find(ending: &Ending, verdicts: &[Verdict], changes: &[Change]) -> Vec<Finding> {
    let risky = verdicts
        .iter()
        .filter(|verdict| is_warning(verdict.forecast.level));
    risky
        .filter_map(|verdict| describe(ending, verdict, changes))
        .collect()
}

fn describe(ending: &Ending, verdict: &Verdict, changes: &[Change]) -> Option<Finding> {
    let resource = &verdict.resource;
    let raised = changes.iter().rev().find(|change| {
        change.resource == *resource
            && !is_warning(change.before)
            && is_warning(change.forecast.level)
    })?;
    let ahead = ending.time_nanos.saturating_sub(raised.time_nanos);
    let said = raised.forecast.seconds.unwrap_or(0.0);
    let seconds = verdict.forecast.seconds.unwrap_or(0.0);
    let foretold = format!(
        "predicted at {}: {} (confidence {:.2})",
        format_duration(raised.time_nanos),
        spell(said),
        raised.forecast.confidence,
    );
    let (severity, text) = match ending.status {
        RunStatus::OomKilled => (
            "info",
            format!(
                "running out of {resource} was predicted {} before the kill",
                spell(to_secs(ahead))
            ),
        ),
        RunStatus::Running => (
            "critical",
            format!("{resource} runs out in {}", spell(seconds)),
        ),
        _ => (
            "warning",
            format!(
                "when the recording stopped, {resource} was {} from running out",
                spell(seconds)
            ),
        ),
    };
    Some(Finding {
        kind: "oom-risk",
        severity,
        text,
        evidence: vec![foretold],
        advice: Vec::new(),
    })
}

fn spell(seconds: f64) -> String {
    format_duration((seconds.max(0.0) * 1e9) as u64)
}
