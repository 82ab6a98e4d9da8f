//! What to do, gathered from everything that was noticed: the most serious finding's first, the slow part of the step last.

use schemars::JsonSchema;
use serde::Serialize;

use crate::bottleneck::Bottleneck;
use crate::findings::Finding;

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Advice {
    /// One sentence.
    pub text: String,
    /// The `kind` of the finding that it is about, or `bottleneck`.
    pub about: String,
}

/// Each piece of advice once.
pub(super) fn collect_advice(findings: &[Finding], bottleneck: Option<&Bottleneck>) -> Vec<Advice> {
    let of_findings = findings.iter().flat_map(|finding| {
        let texts = finding.advice.iter();
        texts.map(|text| (text.as_str(), finding.kind.as_str()))
    });
    let of_bottleneck = bottleneck.into_iter().flat_map(|slow| {
        let texts = slow.advice.iter();
        texts.map(|text| (*text, "bottleneck"))
    });
    let mut collected: Vec<Advice> = Vec::new();
    for (text, about) in of_findings.chain(of_bottleneck) {
        if !collected.iter().any(|known| known.text == text) {
            collected.push(Advice {
                text: text.to_owned(),
                about: about.to_owned(),
            });
        }
    }
    collected
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::FindingKind;
    use nilo_sample::Severity;

    #[test]
    fn advice_of_several_findings_is_given_once_in_their_order() {
        let finding = |kind, advice: &[&str]| Finding {
            kind,
            severity: Severity::Warning,
            text: String::new(),
            evidence: Vec::new(),
            advice: advice.iter().map(|text| (*text).to_owned()).collect(),
        };
        let findings = [
            finding(FindingKind::Leak, &["look here", "ask for more"]),
            finding(FindingKind::Swap, &["ask for more"]),
        ];
        let collected = collect_advice(&findings, None);
        let pairs: Vec<(&str, &str)> = collected
            .iter()
            .map(|advice| (advice.text.as_str(), advice.about.as_str()))
            .collect();
        assert_eq!(pairs, [("look here", "leak"), ("ask for more", "leak")]);
    }
}
