//! Findings and rules that speak of the same thing: the rule says what to do, and it is said once.

use nilo_advice::Recommendation;

use super::Summary;
use crate::bottleneck::StepPart;
use crate::findings::Finding;

/// A rule and the kind of finding that rests on the same figures; the finding's advice is the rule's.
const SAME: [(&str, &str); 4] = [
    ("share-dataset", "copy-on-write"),
    ("enlarge-shared-memory", "shared-memory"),
    ("expandable-segments", "fragmentation"),
    ("raise-ulimit", "out-of-memory"),
];
/// The same of findings that have words of their own: each leak has its, and how memory ran out stands in the finding.
const TOLD: [(&str, &str); 4] = [
    ("stop-the-leak", "leak"),
    ("allow-more-memory", "oom-kill"),
    ("allow-more-memory", "out-of-memory"),
    ("fit-on-the-gpu", "gpu-out-of-memory"),
];
/// The rule about a step that waits for data.
const WAITING: &str = "load-data-faster";

/// Findings with the advice of the rules that speak of the same.
pub(super) fn take_over_advice(
    mut findings: Vec<Finding>,
    recommendations: &[Recommendation],
) -> Vec<Finding> {
    for finding in &mut findings {
        let said = recommendations
            .iter()
            .find(|said| SAME.contains(&(said.rule, finding.kind)));
        if let Some(said) = said {
            finding.advice = vec![as_hint(&said.text)];
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
