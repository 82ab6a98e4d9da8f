//! Every fact has somebody who measures it: a rule over a fact that nobody fills could never speak.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Who fills which facts. A file is named by its path; Python's below `python/nilometer/optimize`.
const SOURCES: &[(&str, &str, &str)] = &[
    (
        "host",
        "crates/nilo-analysis/src/facts/mod.rs",
        "peak_bytes limit_bytes limit_used_bytes leak_bytes_per_second leak_resource leak_established leak_in_shared_memory leak_may_be_loading leak_limit_bytes leak_limit_seconds leak_limit_confidence",
    ),
    (
        "host",
        "host/garbage.py",
        "rss_bytes heap_live_bytes heap_free_bytes trimmed_bytes regrown_ratio",
    ),
    (
        "out_of_memory",
        "crates/nilo-analysis/src/facts/out_of_memory.rs",
        "happened on_gpu peak_bytes limit_bytes refused_by growth gpu_advice gpu_further_advice",
    ),
    (
        "out_of_memory",
        "crates/nilo-answer/src/optimize.rs",
        "request_bytes",
    ),
    (
        "gc",
        "host/garbage.py",
        "enabled managed sets_thresholds wall_seconds steps total_seconds automatic_seconds longest_pause_seconds asked_seconds full_collections_asked step_seconds",
    ),
    ("buffers", "live_facts.py", "name library projected_bytes"),
    (
        "buffers",
        "buffer_inspection.py",
        "image_bytes image_compression_ratio stacked_frames next_observation_repeats_ratio next_observation_bytes float64_bytes int64_bytes int64_largest",
    ),
    (
        "loader",
        "crates/nilo-analysis/src/facts/mod.rs",
        "copied_bytes wait_ratio",
    ),
    (
        "loader",
        "loading/loader_report.py",
        "workers cpus persistent_workers prefetch_factor batch_bytes start_method dataset_objects serialized_bytes worker_private_growth_bytes pin_memory pinned_requested_bytes pinned_allocated_bytes shm_size_bytes shm_peak_bytes length_variation padding_ratio",
    ),
    (
        "torch",
        "live_facts.py",
        "device_bytes has_bfloat16 peak_allocated_bytes peak_reserved_bytes expandable_segments allocation_retries",
    ),
    (
        "torch",
        "crates/nilo-analysis/src/facts/mod.rs",
        "steps train_peak_bytes evaluation_peak_bytes rank_peak_bytes",
    ),
    (
        "torch",
        "objects/leaked_objects.py",
        "retained_bytes_per_step graph_tensors_per_step graph_bytes_per_step",
    ),
    (
        "model",
        "model/facts.py",
        "on_gpu parameters weight_bytes gradient_bytes optimizer_state_bytes optimizer activation_bytes logits_bytes attention_score_bytes peak_bytes repeated_blocks checkpointed_blocks preserves_random_state dropout uses_half_precision untied_bytes frozen_gradient_bytes zeroed_gradient_bytes not_worth_it",
    ),
    (
        "model",
        "crates/nilo-answer/src/optimize_config/mod.rs",
        "budget_bytes",
    ),
    (
        "batch",
        "training/figures.py",
        "micro_batch accumulation max_micro_batch dataset_samples recovered_ooms",
    ),
    ("batch", "batches/adaptive_batches.py", "failed_micro_batch"),
    (
        "batch",
        "batches/batch_size.py",
        "largest_micro_batch measured_micro_batch budget_bytes bytes_per_sample",
    ),
    (
        "thresholds",
        "system/facts.py",
        "host_budget_bytes warning_ratio critical_ratio gpu_warning_ratio gpu_critical_ratio buffer_limit_bytes",
    ),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Paths of all facts, such as `gc.steps`, by the committed schema.
fn facts(schema: &Value, node: &Value, path: &str, found: &mut BTreeSet<String>) {
    let Some(fields) = node["properties"].as_object() else {
        found.insert(path.to_owned());
        return;
    };
    for (name, field) in fields {
        let place = field["$ref"].as_str().or(field["items"]["$ref"].as_str());
        let target = place.and_then(|place| schema.pointer(place.strip_prefix('#')?));
        let inside = match path {
            "" => name.clone(),
            _ => format!("{path}.{name}"),
        };
        facts(schema, target.unwrap_or(field), &inside, found);
    }
}

/// Whether a file gives a fact a value that is not always the same.
fn fills(text: &str, is_python: bool, subject: &str, name: &str) -> bool {
    let lines = text.lines().map(str::trim_start);
    let mut code = lines.filter(|line| !line.starts_with(['#', '/']));
    if !is_python {
        return code.any(|line| line.contains(&format!("{subject}.{name}")));
    }
    let key = format!("\"{name}\"");
    code.any(|line| {
        line.match_indices(&key).any(|(start, _)| {
            let rest = &line[start + key.len()..];
            let value = rest.strip_prefix(": ").or(rest.strip_prefix("] = "));
            value.is_some_and(|value| !is_constant(value))
        })
    })
}

fn is_constant(value: &str) -> bool {
    let word = value.split([',', '}', ' ']).next();
    let is_alone = !value.contains(" if ");
    is_alone && matches!(word, Some("None" | "True" | "False"))
}

fn read(file: &str) -> String {
    let is_python = Path::new(file)
        .extension()
        .is_some_and(|ending| ending == "py");
    let folder = if is_python {
        "python/nilometer/optimize"
    } else {
        ""
    };
    std::fs::read_to_string(root().join(folder).join(file)).unwrap()
}

#[test]
fn every_fact_is_filled_by_somebody() {
    let schema: Value = serde_json::from_str(
        &std::fs::read_to_string(root().join("docs/schema/facts.json")).unwrap(),
    )
    .unwrap();
    let mut known = BTreeSet::new();
    facts(&schema, &schema, "", &mut known);
    assert!(known.len() > 60 && known.contains("gc.steps"), "{known:?}");
    let mut filled = BTreeMap::new();
    for (subject, file, names) in SOURCES {
        let text = read(file);
        for name in names.split(' ') {
            assert!(
                fills(&text, file.ends_with(".py"), subject, name),
                "{file} does not fill {subject}.{name}"
            );
            assert_eq!(
                filled.insert(format!("{subject}.{name}"), *file),
                None,
                "{subject}.{name} twice"
            );
        }
    }
    let named: BTreeSet<String> = filled.into_keys().collect();
    let nobody: Vec<_> = known.difference(&named).collect();
    assert!(
        nobody.is_empty(),
        "nobody fills {nobody:?}: measure it, or leave out the fact and its rules"
    );
    let gone: Vec<_> = named.difference(&known).collect();
    assert!(gone.is_empty(), "no fact any more: {gone:?}");
}

#[test]
fn a_word_in_a_comment_or_a_constant_fills_nothing() {
    let fills = |text| fills(text, true, "gc", "steps");
    assert!(
        fills("    \"steps\": self.steps,")
            && fills("facts[\"steps\"] = 4")
            && fills("\"steps\": None if heap is None else heap.steps,")
    );
    for text in [
        "# \"steps\": 4",
        "\"steps\": None,",
        "\"steps\": True}",
        "read(facts[\"steps\"])",
        "\"all_steps\": 4",
    ] {
        assert!(!fills(text), "{text}");
    }
}
