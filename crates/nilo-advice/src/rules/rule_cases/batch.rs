//! Cases of the rules on the batch.

use serde_json::json;

use super::{GIB, RuleCase};

pub(super) fn cases() -> Vec<RuleCase> {
    vec![
        RuleCase {
            rule: "raise-micro-batch",
            facts: json!({"batch": {"micro_batch": 4, "largest_micro_batch": 12, "accumulation": 8}}),
            says: &[
                "8 micro-batches of 4 are accumulated, and 12 fit",
                "micro-batches of 12, accumulated 3 times",
            ],
            saves: Some((None, None)),
            silent: vec![
                json!({"batch": {"largest_micro_batch": 4}}),
                json!({"batch": {"max_micro_batch": 4}}),
                json!({"batch": {"accumulation": 1}}),
                json!({"batch": {"micro_batch": 0}}),
            ],
        },
        RuleCase {
            rule: "use-free-memory",
            facts: json!({"batch": {"micro_batch": 4, "largest_micro_batch": 12}}),
            says: &["batches have 4 samples, and 12 fit"],
            saves: Some((None, None)),
            silent: vec![
                json!({"batch": {"largest_micro_batch": 7}}),
                json!({"batch": {"max_micro_batch": 7}}),
                json!({"batch": {"dataset_samples": 11}}),
                // A fit of steps of 4 samples says nothing about millions.
                json!({"batch": {"largest_micro_batch": 33}}),
                json!({"batch": {"largest_micro_batch": 5_000_000, "max_micro_batch": 16}}),
                json!({"batch": {"accumulation": 2}}),
                json!({"batch": {"micro_batch": 0}}),
            ],
        },
        RuleCase {
            rule: "lower-micro-batch",
            facts: json!({"batch": {"micro_batch": 16, "largest_micro_batch": 14, "measured_micro_batch": 14, "budget_bytes": 24.0 * GIB, "bytes_per_sample": GIB}}),
            says: &[
                "micro-batches have 16 samples, and 14 fit",
                "a step may hold 24.00 GiB",
                "one more sample takes 1.00 GiB",
                "micro-batches of 14 instead of 16",
            ],
            saves: None,
            silent: vec![
                json!({"batch": {"micro_batch": 14}}),
                json!({"batch": {"largest_micro_batch": 0}}),
            ],
        },
        RuleCase {
            rule: "begin-with-what-fits",
            facts: json!({"batch": {"recovered_ooms": 5, "micro_batch": 32}}),
            says: &[
                "memory ran out 5 times; micro-batches have 32 samples",
                "find_batch_size",
            ],
            saves: Some((None, None)),
            silent: vec![
                json!({"batch": {"recovered_ooms": 2}}),
                json!({"batch": {"micro_batch": 0}}),
            ],
        },
    ]
}
