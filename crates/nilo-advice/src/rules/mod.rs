//! The rules, by subject: each is a row with a name, a source, and a function from facts to what it found.

mod collector;

use crate::facts::Facts;
use crate::recommendation::{AdviceConfidence, Recommendation, Saving};

/// What a rule found; together with its row it is a [`Recommendation`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) change: String,
    pub(crate) evidence: Vec<String>,
    pub(crate) saving: Option<Saving>,
    pub(crate) confidence: AdviceConfidence,
}

/// A rule. It is silent where a fact that it needs is absent.
#[derive(Debug, Clone, Copy)]
pub struct AdviceRule {
    /// Its name.
    pub name: &'static str,
    /// When it speaks, in words.
    pub condition: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    look: fn(&Facts) -> Option<Found>,
}

impl AdviceRule {
    /// What it recommends.
    pub fn apply(&self, facts: &Facts) -> Option<Recommendation> {
        let found = (self.look)(facts)?;
        Some(Recommendation {
            rule: self.name,
            text: found.text,
            change: found.change,
            evidence: found.evidence,
            saving: found.saving,
            confidence: found.confidence,
            source: self.source,
        })
    }
}

/// Every rule, by subject.
pub fn all_rules() -> impl Iterator<Item = &'static AdviceRule> {
    collector::RULES.iter()
}

/// What all rules recommend, best first.
pub fn recommend(facts: &Facts) -> Vec<Recommendation> {
    let mut found: Vec<Recommendation> = all_rules().filter_map(|rule| rule.apply(facts)).collect();
    found.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    found
}

/// What prevents an error comes first, then the largest saving that is likely.
fn rank(recommendation: &Recommendation) -> f64 {
    let likely = match recommendation.confidence {
        AdviceConfidence::High => 1.0,
        AdviceConfidence::Medium => 0.7,
        AdviceConfidence::Low => 0.4,
    };
    let worth = recommendation
        .saving
        .map_or(1.5, |saving| saving.ratio.unwrap_or(0.1).clamp(0.0, 1.0));
    worth * likely
}
