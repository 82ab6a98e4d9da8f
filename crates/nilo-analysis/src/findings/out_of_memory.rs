//! Memory ran out: the kernel killed, or the program died of an exception that says so.

use nilo_sample::units::format_bytes;
use nilo_sample::{Certainty, Ending, GpuAllocationFailure, Severity};

use super::{Finding, FindingKind, JudgedRecording};
use crate::assessment::{RanOut, RanOutKind};

/// So many of the variables that hold a GPU's memory are named.
const HOLDERS_TOLD: usize = 4;

pub(super) fn find(seen: &JudgedRecording<'_>) -> Option<Finding> {
    match seen.ran_out {
        Some(ran_out) => Some(describe(seen.ending, ran_out)),
        None => possible_kill(seen.ending),
    }
}

fn describe(ending: &Ending, ran_out: &RanOut) -> Finding {
    let cause = ran_out.gpu_cause.as_ref();
    let mut evidence: Vec<String> = cause.map(|cause| cause.text.clone()).into_iter().collect();
    evidence.extend(ran_out.evidence.iter().cloned());
    evidence.extend(ran_out.growth_in_words());
    evidence.extend(ran_out.gpu.iter().flat_map(holders_in_words));
    let (who, resource) = (ran_out.who(), &ran_out.resource);
    let (kind, text) = match ran_out.kind {
        RanOutKind::OomKill => {
            let sure = match ran_out.certainty {
                Certainty::Certain => "was",
                _ => "was most likely",
            };
            let limit = limit_in_words(ending);
            let text = format!("{who} {sure} killed by the kernel for lack of memory{limit}");
            (FindingKind::OomKill, text)
        }
        RanOutKind::GpuAllocation => {
            let text = match &ran_out.gpu {
                Some(failure) => format!("{resource} ran out of memory: {who} {failure}"),
                None => format!("{resource} ran out of memory: {}", ran_out.what_happened()),
            };
            (FindingKind::GpuOutOfMemory, text)
        }
        RanOutKind::HostAllocation => (
            FindingKind::OutOfMemory,
            format!("{resource} ran out: {}", ran_out.what_happened()),
        ),
    };
    Finding {
        kind,
        severity: Severity::Critical,
        text,
        evidence,
        // Said by a rule, which knows more of the step.
        advice: Vec::new(),
    }
}

/// Where the memory of the GPU was.
fn holders_in_words(failure: &GpuAllocationFailure) -> Option<String> {
    let told: Vec<String> = failure
        .holders
        .iter()
        .take(HOLDERS_TOLD)
        .map(ToString::to_string)
        .collect();
    (!told.is_empty()).then(|| format!("of the program's variables: {}", told.join(", ")))
}

/// A kill was counted, and somebody else may have been the victim.
fn possible_kill(ending: &Ending) -> Option<Finding> {
    let kill = ending.oom.as_ref()?;
    let who = match (&kill.victim_name, kill.victim_pid) {
        (Some(name), Some(pid)) => format!("{name} (PID {pid})"),
        (None, Some(pid)) => format!("PID {pid}"),
        _ => "a process".to_owned(),
    };
    let limit = limit_in_words(ending);
    Some(Finding {
        kind: FindingKind::OomKill,
        severity: Severity::Warning,
        text: format!("{who} may have been killed by the kernel for lack of memory{limit}"),
        evidence: kill.evidence.clone(),
        advice: Vec::new(),
    })
}

fn limit_in_words(ending: &Ending) -> String {
    let limit = ending.oom.as_ref().and_then(|kill| kill.limit.as_ref());
    limit.map_or(String::new(), |limit| {
        let bytes = format_bytes(limit.bytes as f64);
        format!("; the limit is {bytes} ({})", limit.source)
    })
}
