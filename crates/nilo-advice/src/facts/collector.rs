//! Python's garbage collector.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `gc.callbacks` told over a stretch of training.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct CollectorFacts {
    /// Whether automatic collection is on.
    pub enabled: Option<bool>,
    /// Whether something collects instead of it on a schedule of its own, such as `GarbageCollector` of this package without `thresholds`.
    pub managed: Option<bool>,
    /// Whether a `GarbageCollector` sets thresholds instead: Python still collects by itself.
    pub sets_thresholds: Option<bool>,
    /// Length of the stretch.
    pub wall_seconds: Option<f64>,
    /// Training steps in it.
    pub steps: Option<u64>,
    /// Time in collections.
    pub total_seconds: Option<f64>,
    /// Time in collections that Python began by itself.
    pub automatic_seconds: Option<f64>,
    /// The longest collection that Python began by itself.
    pub longest_pause_seconds: Option<f64>,
    /// Time in collections that the program asked for by `gc.collect()`; the others were automatic, or those of a `GarbageCollector`: by its schedule, or because memory got short.
    pub asked_seconds: Option<f64>,
    /// Full collections that the program asked for by `gc.collect()`.
    pub full_collections_asked: Option<u64>,
    /// Time of a step: the median, or the mean where steps were only counted.
    pub step_seconds: Option<f64>,
}
