//! What is said of a program that leaks, or that ran out of memory.

use serde_json::{Value, json};

use super::*;

const MIB: f64 = (1u64 << 20) as f64;
const KILLED: &str = "it ran out of memory after 37 seconds: the kernel killed train.py (PID 7); limit 300 MiB; peak 300 MiB charged to the cgroup";
const LEAKED: &str = "job memory leaked 482 MiB/min, 278 MiB in 36 seconds, until memory ran out";

fn said(facts: Value) -> Vec<Recommendation> {
    recommend(&serde_json::from_value(facts).unwrap())
}

fn rules(said: &[Recommendation]) -> Vec<&'static str> {
    said.iter().map(|said| said.rule).collect()
}

fn killed_by_a_leak() -> Value {
    json!({
        "host": {
            "leak_bytes_per_second": 8.0 * MIB, "leak_resource": "job memory", "leak_established": true, "limit_bytes": 300.0 * MIB,
            "peak_bytes": 178.0 * MIB, "leak_limit_bytes": 300.0 * MIB, "leak_limit_seconds": 0.7, "leak_limit_confidence": 0.98,
        },
        "out_of_memory": {
            "happened": KILLED, "on_gpu": false, "growth": LEAKED, "peak_bytes": 300.0 * MIB, "limit_bytes": 300.0 * MIB,
        },
    })
}

#[test]
fn what_has_run_out_is_told_and_not_foretold() {
    let mut facts = killed_by_a_leak();
    let all = said(facts.clone());
    assert_eq!(rules(&all), ["stop-the-leak", "allow-more-memory"]);
    assert_eq!(all[0].evidence, [LEAKED, KILLED]);
    assert!(
        all[1].text.starts_with("Stop the growth first"),
        "{:?}",
        all[1]
    );
    assert_eq!(all[1].confidence, AdviceConfidence::Low);
    // Nor where no forecast is known, and the rest of a shared limit is others'.
    facts["host"]["leak_limit_seconds"] = Value::Null;
    assert_eq!(said(facts)[0].evidence, [LEAKED, KILLED]);
}

#[test]
fn growth_that_was_too_short_to_call_it_a_leak_is_less_sure() {
    let mut facts = killed_by_a_leak();
    facts["host"]["leak_established"] = json!(false);
    let all = said(facts);
    assert_eq!(all[0].rule, "stop-the-leak");
    assert_eq!(all[0].confidence, AdviceConfidence::Medium);
}

#[test]
fn shared_memory_is_given_back_and_not_looked_for_in_lists() {
    let facts = json!({
        "host": {"leak_bytes_per_second": MIB, "leak_resource": "job memory", "leak_in_shared_memory": true},
        "gc": {"enabled": false},
    });
    let all = said(facts);
    assert_eq!(rules(&all), ["stop-the-leak"], "no collection frees it");
    assert!(all[0].text.starts_with("Free shared memory"), "{all:?}");
    assert!(all[0].change.contains("mmap.close()"), "{all:?}");
}

#[test]
fn a_leak_is_told_by_the_name_and_the_limit_of_what_leaks() {
    let facts = json!({"host": {
        "leak_bytes_per_second": MIB, "leak_resource": "GPU 0", "limit_bytes": 4096.0 * MIB, "peak_bytes": MIB,
    }});
    // The limit is the machine's.
    assert_eq!(
        said(facts.clone())[0].evidence,
        ["GPU 0 grows by 60.00 MiB a minute"]
    );
    let mut predicted = facts;
    predicted["host"]["leak_limit_bytes"] = json!(80.0 * MIB);
    predicted["host"]["leak_limit_seconds"] = json!(60.0);
    predicted["host"]["leak_limit_confidence"] = json!(0.9);
    let limit =
        "at this rate the limit of 80.00 MiB is reached in 60 seconds, with a confidence of 0.90";
    assert_eq!(said(predicted.clone())[0].evidence[1], limit);
    // Nobody would bet on when: no other time is made up instead.
    predicted["host"]["leak_resource"] = json!("job memory");
    predicted["host"]["leak_limit_seconds"] = Value::Null;
    let unsure = said(predicted);
    assert_eq!(unsure[0].evidence, ["memory grows by 60.00 MiB a minute"]);
}

#[test]
fn what_others_use_of_a_limit_is_not_left_for_the_leak() {
    let facts = json!({"host": {
        "leak_bytes_per_second": MIB, "limit_bytes": 300.0 * MIB, "peak_bytes": 100.0 * MIB, "limit_used_bytes": 280.0 * MIB,
    }});
    let full =
        "at this rate the limit of 300.00 MiB is reached 20.00 s after the peak of 280.00 MiB";
    assert_eq!(said(facts)[0].evidence[1], full);
}

#[test]
fn a_collector_at_work_does_not_explain_a_leak() {
    let facts =
        json!({"host": {"leak_bytes_per_second": MIB}, "gc": {"enabled": false, "managed": true}});
    assert_eq!(rules(&said(facts)), ["stop-the-leak"]);
}

#[test]
fn one_allocation_that_was_too_large_is_told_from_a_limit_that_was_full() {
    let failed = |peak: f64| {
        said(json!({
            "host": {"limit_bytes": 1000.0 * MIB},
            "out_of_memory": {"happened": "an allocation failed in train.py (PID 7)", "on_gpu": false, "peak_bytes": peak, "request_bytes": 1e9},
        }))
    };
    let large = failed(50.0 * MIB);
    assert!(
        large[0].text.contains("most of the limit was free"),
        "{large:?}"
    );
    assert_eq!(
        large[0].evidence[1],
        "the peak of 50.00 MiB is 5.0 % of the limit of 1000.00 MiB"
    );
    let full = failed(930.0 * MIB);
    assert!(
        full[0].text.starts_with("Allow the program more memory"),
        "{full:?}"
    );
    assert_eq!(
        full[0].evidence[1],
        "the peak of 930.00 MiB is 93 % of the limit of 1000.00 MiB"
    );
}

#[test]
fn a_small_program_that_the_kernel_killed_had_large_neighbours() {
    let mut facts = killed_by_a_leak();
    facts["host"] = json!({});
    facts["out_of_memory"] = json!({"happened": KILLED, "on_gpu": false, "peak_bytes": 10.0 * MIB, "limit_bytes": 300.0 * MIB});
    let all = said(facts);
    assert!(
        all[0].text.starts_with("Run it on a less busy machine"),
        "{all:?}"
    );
}

#[test]
fn a_budget_is_kept_without_other_recommendations() {
    let facts = json!({"thresholds": {"host_budget_bytes": 100.0}, "host": {"peak_bytes": 99.0}});
    let all = said(facts);
    assert_eq!(rules(&all), ["stay-within-budget"]);
    assert!(!all[0].change.contains("other recommendations"), "{all:?}");
}

#[test]
fn a_limit_of_the_process_itself_is_raised_and_no_memory_asked_for() {
    let refused = |peak: f64, growth: Option<&str>| {
        let all = said(json!({"out_of_memory": {
            "happened": "an allocation failed in train.py (PID 7)", "on_gpu": false, "peak_bytes": peak, "limit_bytes": 1000.0 * MIB,
            "refused_by": "RLIMIT_DATA", "growth": growth, "request_bytes": 1e9,
        }}));
        assert_eq!(rules(&all), ["raise-ulimit"]);
        assert!(!all[0].change.contains("nilo request"), "{all:?}");
        assert!(
            all[0].text.contains("`ulimit -d` (1000.00 MiB now)"),
            "{all:?}"
        );
        all[0].clone()
    };
    let full = refused(990.0 * MIB, None);
    assert!(
        full.text.starts_with("Map less at once, or raise"),
        "{full:?}"
    );
    assert_eq!(full.evidence.len(), 1);
    let large = refused(50.0 * MIB, None);
    assert!(large.text.starts_with("Make the allocation"), "{large:?}");
    assert_eq!(
        large.evidence[1],
        "the peak of 50.00 MiB is 5.0 % of the limit of 1000.00 MiB"
    );
    let grew = refused(990.0 * MIB, Some(LEAKED));
    assert!(grew.text.starts_with("Stop the growth first"), "{grew:?}");
    assert_eq!(grew.confidence, AdviceConfidence::Low);
}
