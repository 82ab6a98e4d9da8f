//! The rules, by subject: each is a row with a name, a source, and a function from facts to what it found.

mod batch;
mod buffers;
mod collector;
mod figures;
mod found;
mod host;
mod leak;
mod loader;
mod model;
mod out_of_memory;
mod own_limit;
mod torch;

#[cfg(test)]
mod out_of_memory_tests;
#[cfg(test)]
mod rule_cases;
#[cfg(test)]
mod rules_tests;

pub(crate) use found::{Found, found};
pub(crate) use torch::is_much_reserved;

use crate::facts::Facts;
use crate::recommendation::{AdviceConfidence, Recommendation, SavedResource};

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdviceSubject {
    /// Python's garbage collector.
    Collector,
    /// Replay buffers and caches.
    Buffers,
    /// The data loader.
    Loader,
    /// Memory of the process tree.
    Host,
    /// GPU memory.
    Torch,
    /// The model and its optimizer.
    Model,
    /// Batches.
    Batch,
}

impl AdviceSubject {
    /// Its name in a sentence.
    pub fn as_str(self) -> &'static str {
        match self {
            AdviceSubject::Collector => "garbage collection",
            AdviceSubject::Buffers => "replay buffers and caches",
            AdviceSubject::Loader => "the data loader",
            AdviceSubject::Host => "host memory",
            AdviceSubject::Torch => "GPU memory",
            AdviceSubject::Model => "the model",
            AdviceSubject::Batch => "batches",
        }
    }

    /// Whether it is part of the training loop.
    pub fn is_training(self) -> bool {
        !matches!(self, AdviceSubject::Host | AdviceSubject::Buffers)
    }
}

/// A rule. It is silent where a fact that it needs is absent.
#[derive(Debug, Clone, Copy)]
pub struct AdviceRule {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub subject: AdviceSubject,
    /// When it speaks, in words.
    pub condition: &'static str,
    /// The facts without which it is silent; either of two is written `a|b`.
    pub needs: &'static [&'static str],
    /// Where it comes from.
    pub source: &'static str,
    look: fn(&Facts) -> Option<Found>,
}

impl AdviceRule {
    /// What it recommends.
    pub fn apply(&self, facts: &Facts) -> Option<Recommendation> {
        self.apply_plausible(&facts.plausible())
    }

    /// Whether all facts that it needs are known.
    pub fn is_answerable(&self, facts: &Facts) -> bool {
        let mut needs = self.needs.iter();
        needs.all(|need| need.split('|').any(|path| facts.knows(path)))
    }

    fn apply_plausible(&self, facts: &Facts) -> Option<Recommendation> {
        // What was measured in the run counts more than what is expected.
        if facts
            .model
            .not_worth_it
            .iter()
            .any(|rule| rule == self.name)
        {
            return None;
        }
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
    let subjects = [
        collector::RULES,
        buffers::RULES,
        loader::RULES,
        host::RULES,
        torch::RULES,
        model::RULES,
        batch::RULES,
    ];
    subjects.into_iter().flatten()
}

/// What all rules recommend, best first: what prevents an error, then the largest saving that is likely.
pub fn recommend(facts: &Facts) -> Vec<Recommendation> {
    let facts = facts.plausible();
    let mut found: Vec<Recommendation> = all_rules()
        .filter_map(|rule| rule.apply_plausible(&facts))
        .collect();
    found.sort_by(|a, b| {
        let errors_first = prevents_an_error(b).cmp(&prevents_an_error(a));
        errors_first.then_with(|| worth(b).total_cmp(&worth(a)))
    });
    found
}

/// What may not even be one waits its turn.
fn prevents_an_error(recommendation: &Recommendation) -> bool {
    recommendation.saving.is_none() && recommendation.confidence > AdviceConfidence::Low
}

/// A share of the longest pause is worth less than the same share of all memory or of every step.
const PAUSES_ARE_RARE: f64 = 0.2;
/// What a saving counts whose share nobody knows.
const UNKNOWN_SHARE: f64 = 0.1;

/// The share that is saved, by how likely that is.
fn worth(recommendation: &Recommendation) -> f64 {
    let likely = match recommendation.confidence {
        AdviceConfidence::High => 1.0,
        AdviceConfidence::Medium => 0.7,
        AdviceConfidence::Low => 0.4,
    };
    let Some(saving) = recommendation.saving else {
        return likely;
    };
    let rarity = match saving.of {
        SavedResource::LongestPause => PAUSES_ARE_RARE,
        _ => 1.0,
    };
    likely * rarity * saving.ratio.unwrap_or(UNKNOWN_SHARE)
}
