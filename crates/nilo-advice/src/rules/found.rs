//! What a rule found.

use crate::recommendation::{AdviceConfidence, Saving};

/// Together with the rule's row it is a [`crate::Recommendation`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) change: String,
    pub(crate) evidence: Vec<String>,
    pub(crate) saving: Option<Saving>,
    pub(crate) confidence: AdviceConfidence,
}

/// What to do, and how exactly. It prevents an error, unless it [saves](Found::saves) something.
pub(crate) fn found(text: impl Into<String>, change: impl Into<String>) -> Found {
    Found {
        text: text.into(),
        change: change.into(),
        evidence: Vec::new(),
        saving: None,
        confidence: AdviceConfidence::High,
    }
}

impl Found {
    /// Adds a figure that it rests on.
    pub(crate) fn because(mut self, evidence: impl Into<String>) -> Found {
        self.evidence.push(evidence.into());
        self
    }

    /// Adds a figure where there is one.
    pub(crate) fn because_if(self, evidence: Option<String>) -> Found {
        match evidence {
            Some(evidence) => self.because(evidence),
            None => self,
        }
    }

    pub(crate) fn saves(mut self, saving: Saving) -> Found {
        self.saving = Some(saving);
        self
    }

    pub(crate) fn with(mut self, confidence: AdviceConfidence) -> Found {
        self.confidence = confidence;
        self
    }
}
