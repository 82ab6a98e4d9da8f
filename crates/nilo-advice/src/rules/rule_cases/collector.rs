//! Cases of the rules on garbage collection.

use serde_json::json;

use super::{MIB, RuleCase};

pub(super) fn cases() -> Vec<RuleCase> {
    vec![
        RuleCase {
            rule: "collect-less-often",
            facts: json!({"gc": {"full_collections_asked": 100, "steps": 200, "asked_seconds": 18.0, "total_seconds": 25.0, "wall_seconds": 100.0}}),
            says: &[
                "100 full collections were asked for in 200 steps",
                "they took 18 % of the time",
            ],
            saves: Some((None, Some(0.18))),
            silent: vec![
                json!({"gc": {"full_collections_asked": 10}}),
                json!({"gc": {"steps": 0}}),
            ],
        },
        RuleCase {
            rule: "schedule-collections",
            facts: json!({"gc": {"longest_pause_seconds": 0.222, "step_seconds": 0.5}}),
            says: &["222 ms, 44 % of a step of 500 ms", "GarbageCollector"],
            saves: Some((None, Some(0.95))),
            silent: vec![
                json!({"gc": {"longest_pause_seconds": 0.02}}),
                json!({"gc": {"longest_pause_seconds": 0.004, "step_seconds": 0.01}}),
                json!({"gc": {"managed": true}}),
                json!({"gc": {"enabled": false}}),
            ],
        },
        RuleCase {
            rule: "raise-collection-thresholds",
            facts: json!({"gc": {"total_seconds": 10.0, "wall_seconds": 100.0}}),
            says: &[
                "collections that Python began by itself took 10 % of the time",
                "gc.set_threshold(50_000, 20, 10)",
            ],
            saves: Some((None, Some(0.085))),
            silent: vec![
                json!({"gc": {"total_seconds": 3.0}}),
                json!({"gc": {"managed": true}}),
                // The program asks for it: that is the rule above.
                json!({"gc": {"full_collections_asked": 100, "steps": 100}}),
                json!({"gc": {"asked_seconds": 8.0}}),
                // The others were a collector's own, such as those of an emergency.
                json!({"gc": {"automatic_seconds": 1.0}}),
            ],
        },
        RuleCase {
            rule: "collect-under-pressure",
            facts: json!({"gc": {"enabled": false}, "host": {"leak_bytes_per_second": MIB}}),
            says: &[
                "memory grows by 60.00 MiB a minute",
                "instead of gc.disable()",
            ],
            saves: None,
            silent: vec![
                json!({"gc": {"enabled": true}}),
                json!({"gc": {"managed": true}}),
                json!({"host": {"leak_bytes_per_second": 0.0}}),
            ],
        },
    ]
}
