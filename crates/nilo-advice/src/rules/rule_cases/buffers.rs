//! Cases of the rules on replay buffers.

use serde_json::{Value, json};

use super::{GIB, RuleCase};

pub(super) fn cases() -> Vec<RuleCase> {
    let with = |fields: Value| json!({"buffers": [fields], "host": {"peak_bytes": 8.0 * GIB}});
    vec![
        RuleCase {
            rule: "compress-frames",
            facts: with(
                json!({"name": "replay", "library": "stable_baselines3", "image_bytes": 4.0 * GIB, "image_compression_ratio": 4.0}),
            ),
            says: &[
                "buffer 'replay' holds 4.00 GiB of frames, which compression makes 4.0 times smaller",
                "nilometer.ReplayBuffer",
            ],
            saves: Some((Some(3.0 * GIB), Some(0.375))),
            silent: vec![
                json!({"buffers": [{"image_compression_ratio": 1.4}]}),
                json!({"buffers": [{"library": "nilometer"}]}),
                json!({"buffers": [{"image_bytes": 1000.0}]}),
            ],
        },
        RuleCase {
            rule: "drop-next-observations",
            facts: with(
                json!({"next_observation_repeats_ratio": 0.96, "next_observation_bytes": GIB}),
            ),
            says: &[
                "96 % of the next observations of the buffer",
                "1.00 GiB",
                "optimize_memory_usage=True",
            ],
            saves: Some((Some(0.96 * GIB), Some(0.12))),
            silent: vec![
                json!({"buffers": [{"next_observation_repeats_ratio": 0.85}]}),
                json!({"buffers": [{"library": "nilometer"}]}),
            ],
        },
        RuleCase {
            rule: "store-single-frames",
            facts: with(json!({"stacked_frames": 4, "image_bytes": 4.0 * GIB})),
            says: &["4.00 GiB in stacks of 4 frames"],
            saves: Some((Some(3.0 * GIB), Some(0.375))),
            silent: vec![
                json!({"buffers": [{"stacked_frames": 1}]}),
                json!({"buffers": [{"stacked_frames": 0}]}),
                json!({"buffers": [{"library": "nilometer"}]}),
            ],
        },
        RuleCase {
            rule: "store-float32",
            facts: with(json!({"float64_bytes": 2.0 * GIB})),
            says: &["holds 2.00 GiB of float64", "np.float32"],
            saves: Some((Some(GIB), Some(0.125))),
            silent: vec![json!({"buffers": [{"float64_bytes": 0.0}]})],
        },
        RuleCase {
            rule: "narrow-integers",
            facts: with(json!({"int64_bytes": 4.0 * GIB, "int64_largest": 50_256})),
            says: &[
                "4.00 GiB of 64-bit integers, the largest of which is 50256",
                "np.uint16",
            ],
            saves: Some((Some(3.0 * GIB), Some(0.375))),
            silent: vec![
                json!({"buffers": [{"int64_largest": 1u64 << 40}]}),
                json!({"buffers": [{"int64_bytes": 100.0}]}),
            ],
        },
        RuleCase {
            rule: "bound-buffer",
            facts: json!({"buffers": [{"name": "replay", "projected_bytes": 60.0 * GIB}], "host": {"limit_bytes": 64.0 * GIB}}),
            says: &[
                "will take 60.00 GiB when it is full",
                "the memory limit is 64.00 GiB",
                "max_bytes=27487790694",
            ],
            saves: None,
            silent: vec![json!({"buffers": [{"projected_bytes": 50.0 * GIB}]})],
        },
    ]
}
