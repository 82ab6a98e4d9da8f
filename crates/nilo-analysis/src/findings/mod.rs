//! What was noticed in a run: one file for each kind of finding.
//!
//! A finding has one sentence, the evidence that it rests on, and what can be done about it.

mod copy_on_write;
mod fragmentation;
mod handled_gpu_failures;
mod kind;
mod leak;
mod lost_samples;
mod memory_ends_early;
mod near_miss;
mod oom_risk;
mod out_of_memory;
mod phase_share;
mod pressure;
mod recorder_death;
mod shared_memory;
mod surroundings;
mod swap;

use nilo_sample::{Ending, Recording, Severity};
use schemars::JsonSchema;
use serde::Serialize;

use crate::assessment::RanOut;
use crate::tracking::{ResourceVerdict, RiskChange};

pub(crate) use copy_on_write::copied_pages;
pub use kind::FindingKind;
pub use leak::{MemoryHolder, leak_holders};
pub use memory_ends_early::{MemoryEndsEarly, memory_ends_early};
pub(crate) use shared_memory::shared_memory_use;

/// Something noticed.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct Finding {
    /// What it is about.
    pub kind: FindingKind,
    /// How serious it is.
    pub severity: Severity,
    /// One sentence.
    pub text: String,
    /// What it rests on.
    pub evidence: Vec<String>,
    /// What can be done about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
}

/// A recording with what was judged of it.
#[derive(Debug)]
pub struct JudgedRecording<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// How it ended.
    pub ending: &'a Ending,
    /// What ran out of memory.
    pub ran_out: Option<&'a RanOut>,
    /// What is to be said of each resource.
    pub verdicts: Vec<ResourceVerdict>,
    /// How their risks changed on the way.
    pub changes: Vec<RiskChange>,
}

/// Everything that can be noticed in a recording, the most serious first.
pub fn find(seen: &JudgedRecording<'_>) -> Vec<Finding> {
    let recording = seen.recording;
    let mut findings = Vec::new();
    findings.extend(out_of_memory::find(seen));
    findings.extend(oom_risk::find(seen));
    findings.extend(leak::find(recording, &seen.verdicts));
    findings.extend(handled_gpu_failures::find(seen));
    findings.extend(near_miss::find(seen));
    findings.extend(fragmentation::find(recording));
    findings.extend(copy_on_write::find(recording));
    findings.extend(swap::find(recording));
    findings.extend(shared_memory::find(recording));
    findings.extend(surroundings::find(recording));
    findings.extend(pressure::find(seen));
    findings.extend(recorder_death::find(seen));
    findings.extend(lost_samples::find(recording));
    findings.extend(memory_ends_early::find(recording));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "leak_tests.rs"]
mod leak_tests;
