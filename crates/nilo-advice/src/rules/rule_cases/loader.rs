//! Cases of the rules on data loading.

use serde_json::json;

use super::{GIB, MIB, RuleCase};

pub(super) fn cases() -> Vec<RuleCase> {
    vec![
        RuleCase {
            rule: "share-dataset",
            facts: json!({"loader": {"copied_bytes": 2.0 * GIB}, "host": {"peak_bytes": 8.0 * GIB}}),
            says: &["forked workers held 2.00 GiB of copies", "SharedList"],
            saves: Some((Some(2.0 * GIB), Some(0.25))),
            silent: vec![
                json!({"loader": {"copied_bytes": 40.0 * MIB}}),
                json!({"loader": {"start_method": "spawn"}}),
            ],
        },
        RuleCase {
            rule: "share-spawned-dataset",
            facts: json!({"loader": {"start_method": "spawn", "workers": 8, "serialized_bytes": GIB}, "host": {"peak_bytes": 32.0 * GIB}}),
            says: &["8 spawned workers hold a copy of 1.00 GiB each"],
            saves: Some((Some(8.0 * GIB), Some(0.25))),
            silent: vec![
                json!({"loader": {"start_method": "fork"}}),
                json!({"loader": {"serialized_bytes": MIB}}),
                json!({"loader": {"workers": 0}}),
            ],
        },
        RuleCase {
            rule: "prefetch-less",
            facts: json!({"loader": {"workers": 16, "prefetch_factor": 8, "batch_bytes": GIB}, "host": {"limit_bytes": 500.0 * GIB, "peak_bytes": 384.0 * GIB}}),
            says: &[
                "16 workers prepare 8 batches of 1.00 GiB each: 128.00 GiB, 26 % of the limit of 500.00 GiB",
                "prefetch_factor=2",
            ],
            saves: Some((Some(96.0 * GIB), Some(0.25))),
            silent: vec![
                json!({"loader": {"batch_bytes": MIB}}),
                json!({"loader": {"workers": 1, "prefetch_factor": 1, "batch_bytes": 100.0 * GIB}}),
                json!({"host": {"limit_bytes": 0.0}}),
            ],
        },
        RuleCase {
            rule: "pin-exact-sizes",
            facts: json!({"loader": {"pinned_requested_bytes": 20.0 * GIB, "pinned_allocated_bytes": 32.0 * GIB}, "host": {"peak_bytes": 48.0 * GIB}}),
            says: &["20.00 GiB were requested and 32.00 GiB allocated: 1.60 times as much"],
            saves: Some((Some(12.0 * GIB), Some(0.25))),
            silent: vec![
                json!({"loader": {"pinned_allocated_bytes": 25.0 * GIB}}),
                json!({"loader": {"pinned_requested_bytes": 0.0}}),
            ],
        },
        RuleCase {
            rule: "enlarge-shared-memory",
            facts: json!({"loader": {"shm_size_bytes": 64.0 * MIB, "shm_peak_bytes": 60.0 * MIB}}),
            says: &["/dev/shm held up to 60.00 MiB of 64.00 MiB", "--shm-size"],
            saves: None,
            silent: vec![
                json!({"loader": {"shm_peak_bytes": 50.0 * MIB}}),
                json!({"loader": {"shm_size_bytes": 0.0}}),
            ],
        },
        RuleCase {
            rule: "load-data-faster",
            facts: json!({"loader": {"wait_ratio": 0.4, "workers": 4}}),
            says: &[
                "40 % of the step waits for data",
                "4 workers load it",
                "num_workers=8",
            ],
            saves: Some((None, Some(0.2))),
            silent: vec![json!({"loader": {"wait_ratio": 0.15}})],
        },
        RuleCase {
            rule: "batch-by-tokens",
            facts: json!({"loader": {"length_variation": 0.8, "padding_ratio": 0.45}}),
            says: &[
                "45 % of the tokens are padding; lengths vary by 80 % of their mean",
                "TokenBudgetBatches",
            ],
            saves: Some((None, Some(0.45))),
            silent: vec![
                json!({"loader": {"length_variation": 0.4}}),
                json!({"loader": {"padding_ratio": 0.1}}),
            ],
        },
    ]
}
