//! Every rule on its cases, and laws that hold for all of them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::rule_cases::{RuleCase, rule_cases};
use super::*;

fn facts_of(value: &Value) -> Facts {
    serde_json::from_value(value.clone()).unwrap()
}

fn rule(name: &str) -> &'static AdviceRule {
    all_rules()
        .find(|rule| rule.name == name)
        .unwrap_or_else(|| panic!("no rule {name}"))
}

fn apply(case: &RuleCase, facts: &Value) -> Option<Recommendation> {
    rule(case.rule).apply(&facts_of(facts))
}

/// One value over another, deep; lists element by element.
fn merged(below: &Value, above: &Value) -> Value {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            let mut all = below.clone();
            for (key, value) in above {
                let old = below.get(key).cloned().unwrap_or(Value::Null);
                all.insert(key.clone(), merged(&old, value));
            }
            Value::Object(all)
        }
        (Value::Array(below), Value::Array(above)) if below.iter().all(Value::is_object) => {
            below.iter().zip(above).map(|(a, b)| merged(a, b)).collect()
        }
        _ => above.clone(),
    }
}

/// Paths of all values that are no object, as JSON pointers with the path that `needs` has.
fn leaves(value: &Value, pointer: &str, path: &str, found: &mut Vec<(String, String)>) {
    let inside = |name: &str| match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    };
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                leaves(field, &format!("{pointer}/{name}"), &inside(name), found);
            }
        }
        Value::Array(several) if several.first().is_some_and(Value::is_object) => {
            for (number, one) in several.iter().enumerate() {
                leaves(one, &format!("{pointer}/{number}"), path, found);
            }
        }
        _ => found.push((pointer.to_owned(), path.to_owned())),
    }
}

fn without(facts: &Value, pointer: &str) -> Value {
    let mut facts = facts.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = facts.pointer_mut(parent).unwrap();
    parent.as_object_mut().unwrap().remove(name);
    facts
}

fn check_figures(recommendation: &Recommendation) {
    let name = recommendation.rule;
    if let Some(saving) = recommendation.saving {
        let figures = saving.ratio.into_iter();
        for figure in figures {
            assert!(figure.is_finite() && figure >= 0.0, "{name}: {figure}");
        }
        assert!(saving.ratio.is_none_or(|ratio| ratio <= 1.0), "{name}");
    }
    for text in recommendation
        .evidence
        .iter()
        .chain([&recommendation.text, &recommendation.change])
    {
        for word in ["NaN", "inf "] {
            assert!(!text.contains(word), "{name}: {text}");
        }
    }
}

#[test]
fn names_are_unique_and_every_rule_has_a_case() {
    let named: BTreeSet<&str> = all_rules().map(|rule| rule.name).collect();
    assert_eq!(named.len(), all_rules().count());
    assert!(named.len() >= 32);
    let tested: BTreeSet<&str> = rule_cases().iter().map(|case| case.rule).collect();
    assert_eq!(named, tested);
    for rule in all_rules() {
        for text in [rule.condition, rule.source] {
            assert!(
                text.len() > 10 && !text.ends_with('.'),
                "{}: {text}",
                rule.name
            );
        }
    }
}

#[test]
fn every_rule_speaks_with_its_figures() {
    for case in rule_cases() {
        let name = case.rule;
        let Some(said) = apply(&case, &case.facts) else {
            panic!("{name} is silent");
        };
        check_figures(&said);
        assert!(!said.evidence.is_empty(), "{name}");
        let all = format!("{}\n{}", said.evidence.join("\n"), said.change);
        for part in case.says {
            assert!(all.contains(part), "{name} does not say {part:?}:\n{all}");
        }
        let saves = said
            .saving
            .map(|saving| (saving.bytes.map(|bytes| bytes as f64), saving.ratio));
        assert_eq!(saves.is_some(), case.saves.is_some(), "{name}");
        let (told, expected) = (saves.unwrap_or_default(), case.saves.unwrap_or_default());
        for (told, expected) in [(told.0, expected.0), (told.1, expected.1)] {
            let close = match (told, expected) {
                (Some(told), Some(expected)) => (told - expected).abs() <= 1e-6 * expected,
                (told, expected) => told == expected,
            };
            assert!(close, "{name}: {told:?}, not {expected:?}");
        }
    }
}

#[test]
fn near_its_condition_a_rule_is_silent() {
    for case in rule_cases() {
        assert!(!case.silent.is_empty(), "{}", case.rule);
        for change in &case.silent {
            let said = apply(&case, &merged(&case.facts, change));
            assert!(
                said.is_none(),
                "{} speaks with {change}: {said:?}",
                case.rule
            );
        }
    }
}

#[test]
fn a_rule_whose_change_was_measured_and_taken_back_is_silent() {
    for case in rule_cases() {
        let tried = |name: &str| json!({"model": {"not_worth_it": ["x", name]}});
        let said = apply(&case, &merged(&case.facts, &tried(case.rule)));
        assert!(said.is_none(), "{said:?}");
        let said = apply(&case, &merged(&case.facts, &tried("another-rule")));
        assert!(said.is_some(), "{}", case.rule);
    }
}

#[test]
fn without_facts_nobody_speaks() {
    assert_eq!(recommend(&Facts::default()), []);
    assert!(!all_rules().any(|rule| rule.is_answerable(&Facts::default())));
}

#[test]
fn a_rule_is_silent_exactly_without_the_facts_that_it_needs() {
    for case in rule_cases() {
        let rule = rule(case.rule);
        assert!(rule.is_answerable(&facts_of(&case.facts)), "{}", case.rule);
        let mut found = Vec::new();
        leaves(&case.facts, "", "", &mut found);
        for (pointer, path) in &found {
            let rest = without(&case.facts, pointer);
            let is_needed = rule
                .needs
                .iter()
                .any(|need| need.split('|').any(|one| one == path));
            let facts = facts_of(&rest);
            assert_eq!(
                rule.apply(&facts).is_none(),
                is_needed,
                "{}: {path}",
                case.rule
            );
            assert_eq!(
                rule.is_answerable(&facts),
                !is_needed,
                "{}: {path}",
                case.rule
            );
        }
    }
}

#[test]
fn a_look_at_a_few_batches_is_enough_to_see_workers_copy_a_dataset_of_many_objects() {
    let grown = |mib: f64, objects: u64| {
        let loader = json!({"worker_private_growth_bytes": mib * (1u64 << 20) as f64, "dataset_objects": objects, "start_method": "fork"});
        let found = rule("share-dataset").apply(&facts_of(&json!({"loader": loader})));
        found.map(|said| said.evidence.join("\n"))
    };
    let said = grown(9.0, 600_000).unwrap();
    assert!(said.contains("private memory of the workers grew by 9.00 MiB"));
    assert!(said.contains("the dataset holds 600000 Python objects"));
    assert_eq!((grown(3.0, 600_000), grown(9.0, 40_000)), (None, None));
    assert!(grown(60.0, 40_000).is_some());
}

#[test]
fn impossible_facts_give_no_impossible_figures() {
    for case in rule_cases() {
        let mut found = Vec::new();
        leaves(&case.facts, "", "", &mut found);
        for (pointer, _) in &found {
            for odd in [
                json!(0),
                json!(1),
                json!(u64::MAX),
                json!(1e18),
                json!(5e-324),
                json!(-0.0),
                json!([0.0, 1e18]),
                json!(""),
                json!(false),
            ] {
                let mut facts = case.facts.clone();
                *facts.pointer_mut(pointer).unwrap() = odd;
                let Ok(facts) = serde_json::from_value::<Facts>(facts) else {
                    continue;
                };
                recommend(&facts).iter().for_each(check_figures);
            }
        }
    }
}

#[test]
fn what_is_no_number_is_as_absent_as_what_is_missing() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e300] {
        let mut facts = Facts::default();
        facts.torch.rank_peak_bytes = vec![odd, odd];
        facts.torch.peak_reserved_bytes = Some(odd);
        facts.torch.peak_allocated_bytes = Some(odd);
        facts.host.leak_bytes_per_second = Some(odd);
        facts.loader.wait_ratio = Some(odd);
        facts.model.zeroed_gradient_bytes = Some(odd);
        assert_eq!(recommend(&facts), [], "{odd}");
    }
}

#[test]
fn the_time_until_the_limit_is_that_of_the_forecast_with_its_confidence() {
    let facts = facts_of(&json!({"host": {
        "leak_bytes_per_second": 1e6, "limit_bytes": 1e11, "peak_bytes": 1e9,
        "leak_limit_seconds": 1080.0, "leak_limit_confidence": 0.01,
    }}));
    let said = &recommend(&facts)[0];
    assert_eq!(said.rule, "stop-the-leak");
    let told =
        "at this rate the limit of 93.13 GiB is reached in 18 minutes, with a confidence of 0.01";
    assert!(
        said.evidence.iter().any(|line| line == told),
        "{:?}",
        said.evidence
    );
}

#[test]
fn what_prevents_an_error_comes_first_then_what_is_likely_to_save_most() {
    let facts = facts_of(&json!({
        "model": {"zeroed_gradient_bytes": 2e9, "peak_bytes": 1e10, "preserves_random_state": false, "dropout": 0.1, "logits_bytes": 4e9},
        "loader": {"wait_ratio": 0.6, "workers": 4},
        "gc": {"total_seconds": 5.0, "wall_seconds": 100.0},
        // Growth that may be loading is no error yet.
        "host": {"leak_bytes_per_second": 1e6, "leak_may_be_loading": true},
    }));
    let order: Vec<&str> = recommend(&facts).iter().map(|one| one.rule).collect();
    assert_eq!(
        order,
        [
            "preserve-random-state",
            "stop-the-leak",
            "chunk-cross-entropy",
            "load-data-faster",
            "set-gradients-to-none",
            "raise-collection-thresholds"
        ]
    );
}

#[test]
fn of_several_buffers_the_one_that_saves_most_is_named() {
    let facts = facts_of(&json!({"buffers": [
        {"name": "small", "float64_bytes": 1e7},
        {"name": "large", "float64_bytes": 1e9},
        {"name": "middle", "float64_bytes": 1e8},
    ]}));
    let said = recommend(&facts);
    assert_eq!(said.len(), 1);
    assert!(said[0].evidence[0].contains("'large'"), "{:?}", said[0]);
}

#[test]
fn a_model_on_the_cpu_saves_memory_of_the_machine() {
    let mut facts = Facts::default();
    facts.model.untied_bytes = Some(64.0 * 1024.0 * 1024.0);
    let saved = |facts: &Facts| recommend(facts)[0].saving.expect("saves memory").of;
    assert_eq!(saved(&facts), SavedResource::GpuMemory);
    facts.model.on_gpu = Some(false);
    assert_eq!(saved(&facts), SavedResource::HostMemory);
}

#[test]
fn one_of_something_is_no_plural() {
    let facts = facts_of(&json!({
        "loader": {"wait_ratio": 0.4, "workers": 1},
        "batch": {"micro_batch": 1, "largest_micro_batch": 4, "recovered_ooms": 1},
        "torch": {"allocation_retries": 1, "steps": 1},
        "gc": {"full_collections_asked": 1, "steps": 1, "total_seconds": 5.0, "wall_seconds": 100.0},
        "model": {"preserves_random_state": false, "dropout": f64::from(0.1f32)},
    }));
    let said = recommend(&facts);
    let rules: BTreeSet<&str> = said.iter().map(|said| said.rule).collect();
    for rule in [
        "load-data-faster",
        "use-free-memory",
        "avoid-allocation-retries",
        "collect-less-often",
    ] {
        assert!(rules.contains(rule), "{rule}: {rules:?}");
    }
    let evidence: Vec<&str> = said
        .iter()
        .flat_map(|said| &said.evidence)
        .map(String::as_str)
        .collect();
    let told = evidence.join("; ");
    for wrong in [
        "1 workers",
        "1 samples",
        "1 times",
        "1 steps",
        "1 full collections",
        "0.10000000149",
    ] {
        assert!(!told.contains(wrong), "{wrong}: {told}");
    }
}

#[test]
fn a_loss_that_is_kept_weighs_as_much_as_its_graph() {
    let facts = facts_of(
        &json!({"torch": {"graph_tensors_per_step": 1.0, "retained_bytes_per_step": 4.0, "graph_bytes_per_step": 3e6}}),
    );
    let said = rule("detach-losses").apply(&facts).unwrap();
    assert_eq!(
        said.evidence[1..],
        [
            "the tensors themselves are 4 B a step",
            "their graphs keep 2.86 MiB a step for a backward pass"
        ]
    );
}

#[test]
fn only_collections_that_were_asked_for_are_saved_by_not_asking() {
    let said = |gc: Value| recommend(&facts_of(&json!({ "gc": gc })));
    let measured = said(json!({
        "full_collections_asked": 30, "steps": 300, "asked_seconds": 18.0, "total_seconds": 42.0, "wall_seconds": 100.0, "enabled": true, "sets_thresholds": true,
    }));
    let rules: Vec<_> = measured.iter().map(|one| one.rule).collect();
    assert_eq!(rules, ["collect-less-often", "raise-collection-thresholds"]);
    let ratios: Vec<_> = measured
        .iter()
        .map(|one| one.saving.unwrap().ratio)
        .collect();
    assert_eq!(ratios[0], Some(0.18));
    assert!((ratios[1].unwrap() - 0.85 * 0.24).abs() < 1e-9);
    assert!(measured[0].change.ends_with("Python collects by itself"));
    // Without the time of these, no figure.
    let unmeasured = said(
        json!({"full_collections_asked": 30, "steps": 300, "total_seconds": 42.0, "wall_seconds": 100.0}),
    );
    assert_eq!(unmeasured.len(), 1);
    assert_eq!(unmeasured[0].saving.unwrap().ratio, None);
}

#[test]
fn a_collector_that_leaves_thresholds_to_python_is_told_to_drop_them() {
    let facts = facts_of(&json!({"gc": {
        "managed": false, "sets_thresholds": true, "longest_pause_seconds": 0.15, "step_seconds": 0.0076, "total_seconds": 42.0, "wall_seconds": 100.0,
    }}));
    for said in recommend(&facts) {
        assert!(
            said.change
                .starts_with("GarbageCollector() without thresholds="),
            "{said:?}"
        );
    }
    assert_eq!(recommend(&facts).len(), 2);
}

#[test]
fn a_pause_longer_than_a_step_is_told_in_steps() {
    let said = |pause: f64| {
        let gc = json!({"gc": {"longest_pause_seconds": pause, "step_seconds": 0.026}});
        let said = rule("schedule-collections").apply(&facts_of(&gc));
        said.unwrap().evidence[0].clone()
    };
    assert!(said(0.013).ends_with("50 % of a step of 26 ms"));
    assert!(said(0.026).ends_with("100 % of a step of 26 ms"));
    assert!(said(0.039).ends_with("the time of 1.5 steps of 26 ms"));
    assert!(said(0.621).ends_with("621 ms, the time of 24 steps of 26 ms"));
}

#[test]
fn a_loader_is_told_what_it_has_not_set_and_promised_what_workers_can_give() {
    let said = |loader: Value, torch: Value| {
        let facts = facts_of(&json!({"loader": loader, "torch": torch}));
        let said = rule("load-data-faster").apply(&facts).unwrap();
        let rounded = |ratio: f64| (1000.0 * ratio).round() / 1000.0;
        (said.change, said.saving.unwrap().ratio.map(rounded))
    };
    let on_cpu = json!({});
    let (change, saved) = said(
        json!({"wait_ratio": 0.98, "workers": 0, "cpus": 2}),
        on_cpu.clone(),
    );
    assert_eq!(
        (change.as_str(), saved),
        (
            "DataLoader(num_workers=2, persistent_workers=True), or preprocess the data once",
            Some(0.51)
        )
    );
    // Loading that is as long as the step is all gone.
    let even = said(
        json!({"wait_ratio": 0.5, "workers": 0, "cpus": 8}),
        on_cpu.clone(),
    );
    assert_eq!(even.1, Some(0.5));
    let all_set = json!({"wait_ratio": 0.98, "workers": 2, "cpus": 2, "persistent_workers": true});
    assert_eq!(
        said(all_set.clone(), on_cpu.clone()),
        (
            "preprocess the data once, or make a sample cheaper to load".to_owned(),
            None
        )
    );
    let gpu = json!({"device_bytes": 1e10});
    assert_eq!(
        said(all_set, gpu).0,
        "DataLoader(pin_memory=True), or preprocess the data once"
    );
    let (change, saved) = said(
        json!({"wait_ratio": 0.8, "workers": 2, "cpus": 3, "persistent_workers": true}),
        on_cpu.clone(),
    );
    assert!(
        change.starts_with("DataLoader(num_workers=3), "),
        "{change}"
    );
    assert_eq!(saved, Some(0.267));
    // How many there are is not known, nor what more would save.
    let unknown = said(json!({"wait_ratio": 0.8}), on_cpu);
    assert!(
        unknown
            .0
            .starts_with("DataLoader(num_workers=os.cpu_count(), persistent_workers=True), ")
    );
    assert_eq!(unknown.1, None);
}
