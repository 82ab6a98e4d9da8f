//! Advice: rules from what was measured of a training to what would make it fit.
//!
//! [`Facts`] hold what is known, each absent where nobody measured it. A [`AdviceRule`] looks at them and either recommends something, with the
//! figures that it rests on, or stays silent: no facts, no advice. Whoever gathers facts (a recording, a Python program) asks the same rules.

mod facts;
mod fragmentation;
mod recommendation;
mod rules;

pub use facts::{
    BatchFacts, BufferFacts, CollectorFacts, Facts, HostFacts, LoaderFacts, ModelFacts,
    OutOfMemoryFacts, ThresholdFacts, TorchFacts,
};
pub use fragmentation::AllocatorMoment;
pub use recommendation::{AdviceConfidence, Recommendation, SavedResource, Saving};
pub use rules::{AdviceRule, AdviceSubject, all_rules, recommend};
