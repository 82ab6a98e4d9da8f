//! Findings and rules that speak of the same thing: the rule says what to do, and it is said once.

use nilo_advice::{Facts, Recommendation};

use super::Summary;
use crate::bottleneck::StepPart;
use crate::findings::{Finding, FindingKind};

/// A rule and the kind of finding that rests on the same figures; the finding's advice is the rule's.
const SAME: [(&str, FindingKind); 4] = [
    ("share-dataset", FindingKind::CopyOnWrite),
    ("enlarge-shared-memory", FindingKind::SharedMemory),
    ("expandable-segments", FindingKind::Fragmentation),
    ("raise-ulimit", FindingKind::OutOfMemory),
];
/// The same of findings that have words of their own: each leak has its, and how memory ran out stands in the finding.
const TOLD: [(&str, FindingKind); 4] = [
    ("stop-the-leak", FindingKind::Leak),
    ("allow-more-memory", FindingKind::OomKill),
    ("allow-more-memory", FindingKind::OutOfMemory),
    ("fit-on-the-gpu", FindingKind::GpuOutOfMemory),
];
/// The rule whose change is the advice on a GPU that ran out.
const ON_THE_GPU: (&str, FindingKind) = ("fit-on-the-gpu", FindingKind::GpuOutOfMemory);
/// The rule about a step that waits for data.
const WAITING: &str = "load-data-faster";

/// Findings with the advice of the rules that speak of the same.
pub(super) fn take_over_advice(
    mut findings: Vec<Finding>,
    recommendations: &[Recommendation],
    facts: &Facts,
) -> Vec<Finding> {
    for finding in &mut findings {
        let said = recommendations
            .iter()
            .find(|said| SAME.contains(&(said.rule, finding.kind)));
        if let Some(said) = said {
            finding.advice = vec![as_hint(&said.text)];
        }
        let (rule, kind) = ON_THE_GPU;
        let said = recommendations.iter().find(|said| said.rule == rule);
        if let Some(said) = said.filter(|_| finding.kind == kind) {
            finding.advice = match &facts.out_of_memory.gpu_advice {
                None => vec![format!("{}: {}", as_hint(&said.text), said.change)],
                Some(_) => vec![as_hint(&said.text), as_hint(&said.change)],
            };
        }
    }
    findings
}

/// Hints begin in lower case.
fn as_hint(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

impl Summary {
    /// Recommendations that neither a finding nor the bottleneck of the step has told already.
    pub fn further_recommendations(&self) -> impl Iterator<Item = &Recommendation> {
        let slow = self.bottleneck.as_ref().map(|slow| slow.part);
        let is_told = move |said: &Recommendation| {
            let mut findings = self.findings.iter();
            let found = findings.any(|finding| {
                let pair = (said.rule, finding.kind);
                SAME.contains(&pair) || TOLD.contains(&pair)
            });
            found || said.rule == WAITING && slow == Some(StepPart::Data)
        };
        let all = self.recommendations.iter();
        all.filter(move |said| !is_told(said))
    }
}
