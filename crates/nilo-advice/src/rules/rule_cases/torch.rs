//! Cases of the rules on PyTorch's memory.

use serde_json::json;

use super::{GIB, MIB, RuleCase};

pub(super) fn cases() -> Vec<RuleCase> {
    vec![
        RuleCase {
            rule: "expandable-segments",
            facts: json!({"torch": {"peak_reserved_bytes": 20.0 * GIB, "peak_allocated_bytes": 14.0 * GIB}}),
            says: &[
                "PyTorch reserved up to 20.00 GiB for at most 14.00 GiB of tensors: 30 % of it holds none",
            ],
            saves: Some((Some(6.0 * GIB), Some(0.3))),
            silent: vec![
                json!({"torch": {"peak_allocated_bytes": 17.0 * GIB}}),
                json!({"torch": {"peak_reserved_bytes": 200.0 * MIB, "peak_allocated_bytes": 100.0 * MIB}}),
                json!({"torch": {"expandable_segments": true}}),
            ],
        },
        RuleCase {
            rule: "stay-within-gpu",
            facts: json!({"torch": {"peak_reserved_bytes": 76.0 * GIB, "device_bytes": 80.0 * GIB}, "thresholds": {"gpu_warning_ratio": 0.8, "gpu_critical_ratio": 0.95}}),
            says: &[
                "PyTorch reserved up to 76.00 GiB of 80.00 GiB, 95 % (critical from 95 % on)",
                "find_batch_size",
            ],
            saves: None,
            silent: vec![
                json!({"torch": {"peak_reserved_bytes": 60.0 * GIB}}),
                json!({"torch": {"device_bytes": 0.0}}),
                json!({"thresholds": {"gpu_warning_ratio": 0.96}}),
            ],
        },
        RuleCase {
            rule: "avoid-allocation-retries",
            facts: json!({"torch": {"allocation_retries": 7, "steps": 100}, "batch": {"micro_batch": 16}}),
            says: &[
                "freed 7 times in 100 steps",
                "a micro-batch of 8 instead of 16",
                "expandable_segments",
            ],
            saves: Some((None, None)),
            silent: vec![json!({"torch": {"allocation_retries": 0}})],
        },
        RuleCase {
            rule: "evaluate-in-smaller-batches",
            facts: json!({"torch": {"evaluation_peak_bytes": 12.0 * GIB, "train_peak_bytes": 9.0 * GIB}}),
            says: &[
                "evaluation held up to 12.00 GiB, training 9.00 GiB",
                "inference_mode",
            ],
            saves: Some((Some(3.0 * GIB), Some(0.25))),
            silent: vec![
                json!({"torch": {"evaluation_peak_bytes": 9.2 * GIB}}),
                json!({"torch": {"evaluation_peak_bytes": 1000.0, "train_peak_bytes": 10.0}}),
            ],
        },
        RuleCase {
            rule: "balance-ranks",
            facts: json!({"torch": {"rank_peak_bytes": [6.0 * GIB, 8.0 * GIB, 6.0 * GIB]}}),
            says: &["rank 1 held up to 8.00 GiB, the next 6.00 GiB of 3 ranks"],
            saves: Some((Some(2.0 * GIB), Some(0.25))),
            silent: vec![
                json!({"torch": {"rank_peak_bytes": [8.0 * GIB, 8.0 * GIB]}}),
                json!({"torch": {"rank_peak_bytes": [8.0 * GIB]}}),
                json!({"torch": {"rank_peak_bytes": [8.0 * GIB, 7.5 * GIB]}}),
            ],
        },
        RuleCase {
            rule: "detach-losses",
            facts: json!({"torch": {"graph_tensors_per_step": 1.0, "retained_bytes_per_step": 3.0 * MIB}}),
            says: &[
                "1.0 tensors with a graph are left by every step",
                "the tensors themselves are 3.00 MiB a step",
                "what their graphs keep comes on top and is not known",
                "loss.item()",
            ],
            saves: None,
            silent: vec![json!({"torch": {"graph_tensors_per_step": 0.1}})],
        },
        RuleCase {
            rule: "release-tensors",
            facts: json!({"torch": {"retained_bytes_per_step": 3.0 * MIB}}),
            says: &["3.00 MiB of tensors are left by every step"],
            saves: None,
            silent: vec![
                json!({"torch": {"retained_bytes_per_step": 100.0}}),
                json!({"torch": {"graph_tensors_per_step": 2.0}}),
            ],
        },
        RuleCase {
            rule: "fit-on-the-gpu",
            facts: json!({
                "out_of_memory": {"happened": "it ran out of memory after 9 seconds: an allocation on the GPU failed in train.py (PID 7)", "on_gpu": true},
                "batch": {"micro_batch": 32},
            }),
            says: &[
                "an allocation on the GPU failed in train.py (PID 7)",
                "a micro-batch of 16 instead of 32 (nilometer.optimize.find_batch_size",
            ],
            saves: None,
            silent: vec![json!({"out_of_memory": {"on_gpu": false}})],
        },
        RuleCase {
            rule: "fit-on-the-gpu",
            facts: json!({
                "out_of_memory": {"happened": "it ran out", "on_gpu": true},
                "batch": {"micro_batch": 32, "failed_micro_batch": 8},
            }),
            says: &[
                "micro-batches of 8 ran out of memory too",
                "a micro-batch of 4 instead of 8",
            ],
            saves: None,
            silent: vec![json!({"out_of_memory": {"on_gpu": false}})],
        },
        RuleCase {
            rule: "fit-on-the-gpu",
            facts: json!({
                "out_of_memory": {"happened": "it ran out", "on_gpu": true},
                "batch": {"micro_batch": 32, "failed_micro_batch": 1},
            }),
            says: &[
                "checkpoint_model), bfloat16 autocast, or an optimizer with less state: the batch is already one sample",
            ],
            saves: None,
            silent: vec![json!({"out_of_memory": {"on_gpu": false}})],
        },
        RuleCase {
            rule: "fit-on-the-gpu",
            facts: json!({
                "out_of_memory": {"happened": "it ran out", "on_gpu": true, "gpu_advice": "Use another GPU", "gpu_further_advice": "Stop the others"},
                "batch": {"micro_batch": 32},
            }),
            says: &["it ran out", "Stop the others"],
            saves: None,
            silent: vec![json!({"out_of_memory": {"on_gpu": false}})],
        },
    ]
}
