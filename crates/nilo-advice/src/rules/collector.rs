//! Garbage collection.

use super::{AdviceRule, Found};
use crate::facts::Facts;
use crate::recommendation::{AdviceConfidence, SavedResource, Saving};

/// A full collection in so few steps is one too many: each looks at every object there is.
const STEPS_PER_COLLECTION: f64 = 20.0;

pub(super) const RULES: &[AdviceRule] = &[AdviceRule {
    name: "collect-less-often",
    condition: "the program calls gc.collect() more than once in 20 steps",
    source: "a full collection every 50 steps took 9.5 times the time of the default in our measurement",
    look: collect_less_often,
}];

fn collect_less_often(facts: &Facts) -> Option<Found> {
    let (asked, steps) = (facts.gc.full_collections_asked?, facts.gc.steps?);
    let (spent, wall) = (facts.gc.total_seconds?, facts.gc.wall_seconds?);
    if steps == 0 || wall <= 0.0 || (asked as f64) * STEPS_PER_COLLECTION <= steps as f64 {
        return None;
    }
    Some(Found {
        text: "Do not collect all garbage in the training loop".to_owned(),
        change: "remove gc.collect() from the loop, or use nilometer.optimize.GarbageCollector"
            .to_owned(),
        evidence: vec![
            format!("{asked} full collections were asked for in {steps} steps"),
            format!("collections took {:.1} % of the time", 100.0 * spent / wall),
        ],
        saving: Some(Saving {
            of: SavedResource::StepTime,
            bytes: None,
            ratio: Some((spent / wall).clamp(0.0, 1.0)),
        }),
        confidence: AdviceConfidence::High,
    })
}
