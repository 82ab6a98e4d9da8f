//! `nilo optimize` and the recommendations of `nilo show` on made-up runs, as transcripts.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "support/command.rs"]
mod command;
mod support;

use std::collections::BTreeMap;
use std::path::Path;

use command::{nilo, transcript};
use nilo_sample::{Event, Optimization, UnhandledException};
use serde_json::{Value, json};
use support::{Program, create, record_memory};

const GIB: f64 = 1073741824.0;

/// A run whose program told what it knows of itself and what it tried.
fn run_with_facts(root: &Path, name: &str, facts: Value) {
    let folder = create(&root.join("runs"), name, "run", 60);
    record_memory(&folder, 60);
    let mut program = Program::in_run(&folder, "python");
    let values: BTreeMap<String, Value> = serde_json::from_value(facts).unwrap();
    program.event(30.0, &Event::Facts { values, rank: None });
    for (applied, after, note) in [(true, 2.09, ""), (false, 2.08, "the loss differs")] {
        let tried = Optimization {
            name: if applied {
                "checkpoint plan"
            } else {
                "bfloat16 autocast"
            }
            .to_owned(),
            applied,
            before_bytes: Some(3.76 * GIB),
            after_bytes: Some(after * GIB),
            measured: "peak of a step".to_owned(),
            note: note.to_owned(),
            ..Optimization::default()
        };
        program.event(40.0, &Event::Optimization(Box::new(tried)));
    }
}

fn many_facts() -> Value {
    json!({
        "gc": {"longest_pause_seconds": 0.222, "step_seconds": 0.5, "enabled": true},
        "model": {
            "activation_bytes": 6.0 * GIB, "peak_bytes": 10.0 * GIB, "repeated_blocks": 24,
            "logits_bytes": 3.0 * GIB, "preserves_random_state": false, "dropout": 0.1,
        },
        "buffers": [{"name": "re*play", "library": "numpy", "float64_bytes": 0.5 * GIB}],
        "loader": {"wait_ratio": 0.6, "workers": 2},
    })
}

#[test]
fn everything_that_is_known_of_a_run() {
    let root = tempfile::tempdir().unwrap();
    run_with_facts(root.path(), "base", many_facts());
    for mode in ["full", "training", "quick"] {
        let said = transcript(root.path(), &["optimize", "base", "--mode", mode]);
        insta::assert_snapshot!(format!("optimize-{mode}"), said);
    }
    insta::assert_snapshot!("show-recommendations", transcript(root.path(), &["show"]));
}

#[test]
fn reports_keep_what_was_measured_apart_from_what_is_expected() {
    let root = tempfile::tempdir().unwrap();
    run_with_facts(root.path(), "base", many_facts());
    let printed = nilo(
        root.path(),
        &["optimize", "--report", "report.md", "--format", "json"],
    );
    assert!(printed.status.success(), "{printed:?}");
    let markdown = std::fs::read_to_string(root.path().join("report.md")).unwrap();
    insta::assert_snapshot!("optimize-report", markdown);
    nilo(root.path(), &["optimize", "--report", "report.json"]);
    let written = std::fs::read(root.path().join("report.json")).unwrap();
    assert_eq!(written, printed.stdout);
    let answer: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(answer["schema"], "nilo.optimize/1");
    assert_eq!(answer["optimizations"][0]["name"], "checkpoint plan");
    assert_eq!(
        answer["recommendations"][0]["rule"],
        "preserve-random-state"
    );
    assert_eq!(answer["recommendations"][1]["rule"], "checkpoint-blocks");
    assert_eq!(answer["recommendations"][1]["saving"]["of"], "gpu_memory");
    insta::assert_snapshot!("optimize-json", String::from_utf8_lossy(&written));
}

#[test]
fn a_run_of_which_nothing_is_known_is_answered_in_one_sentence() {
    let root = tempfile::tempdir().unwrap();
    let folder = create(&root.path().join("runs"), "plain", "run", 60);
    record_memory(&folder, 60);
    for mode in ["full", "training", "quick"] {
        let said = transcript(root.path(), &["optimize", "--mode", mode]);
        insta::assert_snapshot!(format!("optimize-nothing-{mode}"), said);
    }
}

#[test]
fn a_run_that_failed_says_so_first() {
    let root = tempfile::tempdir().unwrap();
    let folder = create(&root.path().join("runs"), "failed", "run", 60);
    record_memory(&folder, 60);
    let described = folder.path().join("run.json");
    let text = std::fs::read_to_string(&described).unwrap();
    let mut description: Value = serde_json::from_str(&text).unwrap();
    description["ending"]["exit_code"] = 1.into();
    std::fs::write(&described, description.to_string()).unwrap();
    let exception = UnhandledException {
        pid: 100,
        type_name: "RuntimeError".to_owned(),
        message: "boom *loss*".to_owned(),
        ..UnhandledException::default()
    };
    Program::in_run(&folder, "python").event(59.9, &Event::Exception(Box::new(exception)));
    let said = transcript(root.path(), &["optimize", "--report", "report.md"]);
    let sentence = "This run failed (exited 1: RuntimeError: boom *loss*);";
    let first = said.find(sentence).unwrap_or_else(|| panic!("{said}"));
    assert!(first < said.find("No recommendations").unwrap(), "{said}");
    let json = transcript(root.path(), &["optimize", "--format", "json"]);
    for key in [
        "\"status\": \"exited\"",
        "\"exit_code\": 1",
        "\"failure\": \"exited 1: RuntimeError: boom *loss*\"",
    ] {
        assert!(json.contains(key), "{key}: {json}");
    }
    let report = std::fs::read_to_string(root.path().join("report.md")).unwrap();
    assert!(report.contains("RuntimeError: boom \\*loss\\*"), "{report}");
}

#[test]
fn a_configuration_says_what_memory_is_judged_by() {
    let root = tempfile::tempdir().unwrap();
    run_with_facts(root.path(), "base", many_facts());
    let config = r#"{"memory": {"max_memory_usage_gb": 1.0}, "training": {"enable_gradient_checkpointing": false}}"#;
    std::fs::write(root.path().join("memory.json"), config).unwrap();
    let said = transcript(
        root.path(),
        &["optimize", "--mode", "quick", "--config", "memory.json"],
    );
    insta::assert_snapshot!("optimize-config", said);
    std::fs::write(root.path().join("memory.json"), r#"{"max_memory_gb": 1}"#).unwrap();
    let said = transcript(root.path(), &["optimize", "--config", "memory.json"]);
    insta::assert_snapshot!("optimize-config-unknown", said);
    let said = transcript(root.path(), &["optimize", "--config", "missing.json"]);
    insta::assert_snapshot!("optimize-config-missing", said);
    insta::assert_snapshot!(
        "optimize-template",
        transcript(root.path(), &["optimize", "--template"])
    );
}

/// One forecast for `nilo oom` and for the advice.
#[test]
fn the_advice_on_a_leak_has_time_and_confidence_of_the_forecast() {
    let root = tempfile::tempdir().unwrap();
    let folder = create(&root.path().join("runs"), "leaky", "run", 200);
    let path = folder.path().join("run.json");
    let mut description: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let cgroup = json!({"type": "cgroup", "path": "/job_1", "version": 1});
    description["limit"] = json!({"bytes": (24.0 * GIB) as u64, "source": cgroup});
    std::fs::write(path, description.to_string()).unwrap();
    let mut recorder = Program::in_run(&folder, "recorder");
    for second in 0..200 {
        let secs = f64::from(second);
        recorder.tree(secs, (1.0 + 0.02 * secs) * GIB, secs * 1e9);
    }
    drop(recorder);
    let oom = nilo(root.path(), &["oom", "leaky", "--format", "json"]);
    let oom: Value = serde_json::from_slice(&oom.stdout).unwrap();
    let job = &oom["resources"][0];
    assert_eq!(
        (&job["name"], &job["cause"]),
        (&json!("job memory"), &json!("leak"))
    );
    let confidence = job["confidence"].as_f64().unwrap();
    let left = nilo_sample::words::duration_in_words(job["predicted_secs"].as_f64().unwrap());
    let told = nilo(root.path(), &["optimize", "leaky"]);
    let told = String::from_utf8(told.stdout).unwrap();
    let expected = format!(
        "the limit of 24.00 GiB is reached in {left}, with a confidence of {confidence:.2}"
    );
    assert!(told.contains(&expected), "{expected}: {told}");
}

/// A run that ended of an exception without a message.
fn run_without_memory(root: &Path) {
    let folder = create(root, "short", "run", 60);
    record_memory(&folder, 60);
    let described = folder.path().join("run.json");
    let text = std::fs::read_to_string(&described).unwrap();
    let mut description: Value = serde_json::from_str(&text).unwrap();
    description["ending"]["exit_code"] = 1.into();
    std::fs::write(&described, description.to_string()).unwrap();
    let exception = UnhandledException {
        pid: 100,
        type_name: "MemoryError".to_owned(),
        ..UnhandledException::default()
    };
    Program::in_run(&folder, "python").event(59.9, &Event::Exception(Box::new(exception)));
}

#[test]
fn a_run_that_ran_out_of_memory_is_never_told_that_nothing_calls_for_anything() {
    let root = tempfile::tempdir().unwrap();
    run_without_memory(&root.path().join("runs"));
    let asked = nilo(root.path(), &["request", "short", "--format", "json"]);
    let asked: Value = serde_json::from_slice(&asked.stdout).unwrap();
    let bytes = asked["memory"]["bytes"].as_f64().unwrap();
    let said = transcript(root.path(), &["optimize", "--report", "report.md"]);
    assert!(
        said.contains("(exited 1 (out of memory): MemoryError);"),
        "{said}"
    );
    assert!(!said.contains("No recommendations"), "{said}");
    let amount = format!(
        "{}, as `nilo request 20261115-075530-417-short` asks for",
        nilo_sample::units::format_bytes(bytes)
    );
    assert!(said.contains(&amount), "{amount}: {said}");
    let evidence = "it ran out of memory after 60 seconds: an allocation failed in PID 100";
    assert!(said.contains(evidence), "{said}");
    let report = std::fs::read_to_string(root.path().join("report.md")).unwrap();
    assert!(report.contains(&amount), "{report}");
    // A leak was looked for, and the heap was not.
    assert!(said.contains("host memory (2 of 4 rules)"), "{said}");
}

#[test]
fn commands_in_the_answer_find_the_run_wherever_it_lies() {
    let root = tempfile::tempdir().unwrap();
    run_without_memory(&root.path().join("elsewhere"));
    let said = transcript(
        root.path(),
        &["optimize", "--dir", "elsewhere", "--mode", "training"],
    );
    let full = "1 more: nilo optimize --mode full --dir elsewhere 20261115-075530-417-short";
    assert!(said.contains(full), "{said}");
    let said = transcript(root.path(), &["optimize", "--dir", "elsewhere"]);
    let request = "`nilo request --dir elsewhere 20261115-075530-417-short` asks for";
    assert!(said.contains(request), "{said}");
    // The budget that somebody gave is the one that all recommendations are judged by.
    std::fs::write(root.path().join("my memory.json"), "{}").unwrap();
    let judged = transcript(
        root.path(),
        &[
            "optimize",
            "--dir",
            "elsewhere",
            "--mode",
            "training",
            "--config",
            "my memory.json",
        ],
    );
    let full = "nilo optimize --mode full --config 'my memory.json' --dir elsewhere 20261115";
    assert!(judged.contains(full), "{judged}");
}

/// What `nilo show` names is about the run that it shows, not about the last one of the usual folder.
#[test]
fn commands_in_a_summary_find_the_run_wherever_it_lies() {
    let root = tempfile::tempdir().unwrap();
    run_with_facts(root.path(), "base", many_facts());
    run_with_facts(root.path(), "later", json!({}));
    std::fs::rename(root.path().join("runs"), root.path().join("elsewhere")).unwrap();
    let shown = transcript(root.path(), &["show", "--dir", "elsewhere", "base"]);
    let more = "and 3 more: nilo optimize --dir elsewhere 20261115-075530-417-base";
    assert!(shown.contains(more), "{shown}");
    let pasted = &["optimize", "--dir", "elsewhere", "20261115-075530-417-base"];
    let answered = transcript(root.path(), pasted);
    assert!(answered.contains("Recommendations for"), "{answered}");
}

#[test]
fn json_on_standard_output_and_a_command_are_refused_as_the_help_says() {
    let root = tempfile::tempdir().unwrap();
    let refused = transcript(
        root.path(),
        &[
            "optimize",
            "--dir",
            "elsewhere",
            "--format",
            "json",
            "--report",
            "r.json",
            "--",
            "true",
        ],
    );
    assert!(refused.contains("exit status: 2"), "{refused}");
    let hint = "--report report.json, or run `nilo optimize --dir elsewhere --format json`";
    assert!(refused.contains(hint), "{refused}");
    let help = nilo(root.path(), &["optimize", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("json is refused with a command"), "{help}");
}
