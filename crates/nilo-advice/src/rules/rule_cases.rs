//! For every rule, facts on which it speaks, and facts near them on which it is silent.

use serde_json::{Value, json};

/// One rule.
pub(super) struct RuleCase {
    pub(super) rule: &'static str,
    /// It speaks on these.
    pub(super) facts: Value,
    /// What its evidence and its change say.
    pub(super) says: &'static [&'static str],
    /// What it is expected to save: bytes and share. Nothing where it prevents an error.
    pub(super) saves: Option<(Option<f64>, Option<f64>)>,
    /// With each of these changes it is silent.
    pub(super) silent: Vec<Value>,
}

const MIB: f64 = (1u64 << 20) as f64;
const GIB: f64 = (1u64 << 30) as f64;

pub(super) fn cases() -> Vec<RuleCase> {
    let mut all = collector();
    all.extend(buffers());
    all.extend(loader());
    all.extend(host());
    all.extend(torch());
    all.extend(model());
    all.extend(batch());
    all
}

fn collector() -> Vec<RuleCase> {
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
                "collections took 10 % of the time",
                "gc.set_threshold(50_000, 20, 10)",
            ],
            saves: Some((None, Some(0.085))),
            silent: vec![
                json!({"gc": {"total_seconds": 3.0}}),
                json!({"gc": {"managed": true}}),
                // The program asks for it: that is the rule above.
                json!({"gc": {"full_collections_asked": 100, "steps": 100}}),
                json!({"gc": {"asked_seconds": 8.0}}),
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

fn buffers() -> Vec<RuleCase> {
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

fn loader() -> Vec<RuleCase> {
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
            says: &["20.00 GiB were asked for and 32.00 GiB taken: 1.60 times as much"],
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

fn host() -> Vec<RuleCase> {
    vec![
        RuleCase {
            rule: "trim-heap",
            facts: json!({"host": {"rss_bytes": 4.0 * GIB, "heap_free_bytes": 2.0 * GIB}}),
            says: &[
                "2.00 GiB that are not in use, 50 % of resident memory of 4.00 GiB",
                "malloc_trim(0)",
            ],
            saves: Some((Some(2.0 * GIB), Some(0.5))),
            silent: vec![
                json!({"host": {"heap_free_bytes": GIB}}),
                json!({"host": {"rss_bytes": GIB, "heap_free_bytes": 0.6 * GIB}}),
                json!({"host": {"regrown_ratio": 0.9}}),
            ],
        },
        RuleCase {
            rule: "use-jemalloc",
            facts: json!({"host": {"trimmed_bytes": GIB, "regrown_ratio": 0.9, "rss_bytes": 4.0 * GIB}}),
            says: &[
                "gave back 1.00 GiB, of which 90 % was taken again",
                "libjemalloc",
            ],
            saves: Some((Some(GIB), Some(0.25))),
            silent: vec![
                json!({"host": {"regrown_ratio": 0.3}}),
                json!({"host": {"trimmed_bytes": MIB}}),
            ],
        },
        RuleCase {
            rule: "stay-within-budget",
            facts: json!({"thresholds": {"host_budget_bytes": 8.0 * GIB, "critical_ratio": 0.9}, "host": {"peak_bytes": 7.6 * GIB}}),
            says: &[
                "the peak of 7.60 GiB is 95 % of the budget of 8.00 GiB (critical from 90 % on)",
            ],
            saves: None,
            silent: vec![
                json!({"host": {"peak_bytes": 5.0 * GIB}}),
                json!({"thresholds": {"warning_ratio": 0.97}}),
            ],
        },
        RuleCase {
            rule: "stop-the-leak",
            facts: json!({"host": {"leak_bytes_per_second": MIB, "leak_may_be_loading": true, "limit_bytes": 2.0 * GIB, "peak_bytes": GIB}}),
            says: &[
                "memory grows by 60.00 MiB a minute",
                "the limit of 2.00 GiB is reached 17m 04s after the peak of 1.00 GiB",
            ],
            saves: None,
            silent: vec![
                json!({"host": {"leak_bytes_per_second": 0.0}}),
                // Said by other rules.
                json!({"gc": {"enabled": false}}),
                json!({"torch": {"graph_tensors_per_step": 1.0}}),
            ],
        },
        RuleCase {
            rule: "allow-more-memory",
            facts: json!({"out_of_memory": {
                "happened": "it ran out of memory after 1.7 seconds: the kernel killed hog.py (PID 7); limit 256 MiB; peak 256 MiB",
                "on_gpu": false, "peak_bytes": 256.0 * MIB, "limit_bytes": 256.0 * MIB, "request_bytes": 384.0 * MIB,
            }}),
            says: &[
                "the kernel killed hog.py (PID 7)",
                "384.00 MiB, as `nilo request` asks for; smaller batches",
            ],
            saves: None,
            silent: vec![
                json!({"out_of_memory": {"on_gpu": true}}),
                // More memory does not raise it.
                json!({"out_of_memory": {"refused_by": "RLIMIT_AS"}}),
            ],
        },
        RuleCase {
            rule: "raise-ulimit",
            facts: json!({
                "host": {"peak_bytes": 13.0 * MIB},
                "out_of_memory": {
                    "happened": "it ran out of memory after 2 seconds: an allocation most likely failed in train.py (PID 7); limit 1.91 GiB; peak 1.87 GiB of address space in one process",
                    "on_gpu": false, "peak_bytes": 1.87 * GIB, "limit_bytes": 2_000_000.0 * 1024.0, "refused_by": "RLIMIT_AS", "request_bytes": 64.0 * MIB,
                },
            }),
            says: &[
                "an allocation most likely failed in train.py (PID 7)",
                "resident memory of all processes was at most 13.00 MiB",
                "ulimit -v 3000000 where it is set to 2000000 (more than 1.87 GiB is needed",
            ],
            saves: None,
            silent: vec![
                json!({"out_of_memory": {"refused_by": null}}),
                json!({"out_of_memory": {"refused_by": "RLIMIT_CPU"}}),
            ],
        },
    ]
}

fn torch() -> Vec<RuleCase> {
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
    ]
}

fn model() -> Vec<RuleCase> {
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

fn batch() -> Vec<RuleCase> {
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
