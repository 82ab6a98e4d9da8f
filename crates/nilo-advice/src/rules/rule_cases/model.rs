//! Cases of the rules on the model.

use serde_json::{Value, json};

use super::{GIB, RuleCase};

pub(super) fn cases() -> Vec<RuleCase> {
    let with = |mut fields: Value| {
        fields["peak_bytes"] = json!(10.0 * GIB);
        json!({"model": fields})
    };
    let alone = |name: &str| json!({"model": {name: GIB, "peak_bytes": 4.0 * GIB}});
    vec![
        RuleCase {
            rule: "checkpoint-blocks",
            facts: with(
                json!({"activation_bytes": 6.0 * GIB, "repeated_blocks": 24, "budget_bytes": 8.0 * GIB}),
            ),
            says: &[
                "activations are 6.00 GiB of the peak of 10.00 GiB (60 %)",
                "24 blocks repeat",
                "a step may hold 8.00 GiB",
                "budget_bytes=8589934592)",
            ],
            saves: Some((Some(4.32 * GIB), Some(0.432))),
            silent: vec![
                json!({"model": {"activation_bytes": 4.0 * GIB}}),
                json!({"model": {"repeated_blocks": 1}}),
                json!({"model": {"checkpointed_blocks": 12}}),
                json!({"model": {"peak_bytes": 0.0}}),
            ],
        },
        RuleCase {
            rule: "checkpoint-fewer-blocks",
            facts: with(
                json!({"checkpointed_blocks": 12, "repeated_blocks": 24, "budget_bytes": 20.0 * GIB}),
            ),
            says: &[
                "12 of 24 blocks are checkpointed, and the peak of 10.00 GiB leaves 50 % of 20.00 GiB free",
            ],
            saves: Some((None, Some(0.125))),
            silent: vec![
                json!({"model": {"budget_bytes": 12.0 * GIB}}),
                json!({"model": {"checkpointed_blocks": 0}}),
                json!({"model": {"repeated_blocks": 0}}),
            ],
        },
        RuleCase {
            rule: "preserve-random-state",
            facts: json!({"model": {"preserves_random_state": false, "dropout": 0.1}}),
            says: &[
                "dropout is 0.1, and preserve_rng_state is False",
                "preserve_rng_state=True",
            ],
            saves: None,
            silent: vec![
                json!({"model": {"preserves_random_state": true}}),
                json!({"model": {"dropout": 0.0}}),
                json!({"model": {"checkpointed_blocks": 0}}),
            ],
        },
        RuleCase {
            rule: "use-autocast",
            facts: json!({"model": {"uses_half_precision": false, "activation_bytes": 5.0 * GIB, "peak_bytes": 10.0 * GIB}, "torch": {"has_bfloat16": true}}),
            says: &[
                "activations in 32 bits are 5.00 GiB of the peak of 10.00 GiB (50 %)",
                "torch.autocast",
            ],
            saves: Some((Some(1.6 * GIB), Some(0.16))),
            silent: vec![
                json!({"model": {"uses_half_precision": true}}),
                json!({"torch": {"has_bfloat16": false}}),
                json!({"model": {"activation_bytes": 0.0}}),
            ],
        },
        RuleCase {
            rule: "use-8-bit-optimizer",
            facts: with(json!({"optimizer_state_bytes": 5.0 * GIB, "optimizer": "AdamW"})),
            says: &[
                "the state of AdamW is 5.00 GiB of the peak of 10.00 GiB (50 %)",
                "AdamW8bit",
            ],
            saves: Some((Some(3.7 * GIB), Some(0.37))),
            silent: vec![
                json!({"model": {"optimizer_state_bytes": 2.0 * GIB}}),
                json!({"model": {"optimizer": "SGD"}}),
                json!({"model": {"optimizer": "AdamW8bit"}}),
            ],
        },
        RuleCase {
            rule: "use-sdpa",
            facts: with(json!({"attention_score_bytes": 2.0 * GIB})),
            says: &[
                "attention scores are 2.00 GiB of the peak of 10.00 GiB (20 %)",
                "sdpa",
            ],
            saves: Some((Some(2.0 * GIB), Some(0.2))),
            silent: vec![json!({"model": {"attention_score_bytes": 0.4 * GIB}})],
        },
        RuleCase {
            rule: "chunk-cross-entropy",
            facts: with(json!({"logits_bytes": 4.0 * GIB})),
            says: &[
                "logits and their gradient are 4.00 GiB of the peak of 10.00 GiB (40 %)",
                "chunked_cross_entropy",
            ],
            saves: Some((Some(3.5 * GIB), Some(0.35))),
            silent: vec![json!({"model": {"logits_bytes": 1.5 * GIB}})],
        },
        RuleCase {
            rule: "tie-weights",
            facts: alone("untied_bytes"),
            says: &["there twice: 1.00 GiB"],
            saves: Some((Some(GIB), Some(0.25))),
            silent: vec![json!({"model": {"untied_bytes": 0.0}})],
        },
        RuleCase {
            rule: "freeze-parameters",
            facts: alone("frozen_gradient_bytes"),
            says: &["not trained take 1.00 GiB", "requires_grad_(False)"],
            saves: Some((Some(GIB), Some(0.25))),
            silent: vec![json!({"model": {"frozen_gradient_bytes": 0.0}})],
        },
        RuleCase {
            rule: "set-gradients-to-none",
            facts: alone("zeroed_gradient_bytes"),
            says: &["gradients of zeros take 1.00 GiB", "set_to_none=True"],
            saves: Some((Some(GIB), Some(0.25))),
            silent: vec![json!({"model": {"zeroed_gradient_bytes": 0.0}})],
        },
        RuleCase {
            rule: "fit-the-weights",
            facts: json!({"model": {"weight_bytes": 3.0 * GIB, "gradient_bytes": 3.0 * GIB, "optimizer_state_bytes": 6.0 * GIB, "budget_bytes": 10.0 * GIB}}),
            says: &[
                "weights 3.00 GiB, gradients 3.00 GiB, optimizer state 6.00 GiB: 12.00 GiB together, and a step may hold 10.00 GiB",
            ],
            saves: None,
            silent: vec![json!({"model": {"budget_bytes": 16.0 * GIB}})],
        },
    ]
}
