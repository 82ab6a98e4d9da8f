//! Runs whose program logged: what `show` and `compare` say about them, as transcripts.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "support/command.rs"]
mod command;
mod support;

use std::path::Path;
use std::process::Output;

use command::{command, transcript_of};
use nilo_sample::ABSENT;
use support::{Program, create, hostile_run, resumed_run, training_run, wide_run};

fn nilo(root: &Path, arguments: &[&str]) -> Output {
    let mut command = command(root, arguments);
    command.env("NILO_DIR", root).output().unwrap()
}

/// What a command wrote, with the temporary folder and our PID replaced.
fn transcript(root: &Path, arguments: &[&str]) -> String {
    let text = transcript_of(arguments, &nilo(root, arguments));
    text.replace(&root.display().to_string(), "RUNS")
        .replace(&format!("python-{}", std::process::id()), "python-PID")
}

fn json(root: &Path, arguments: &[&str]) -> serde_json::Value {
    let output = nilo(root, arguments);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_run_that_logged_shows_it_under_its_memory() {
    let root = tempfile::tempdir().unwrap();
    training_run(root.path(), "base", 4.0);
    insta::assert_snapshot!("show-training", transcript(root.path(), &["show", "base"]));
}

#[test]
fn a_run_without_memory_shows_what_it_has() {
    let root = tempfile::tempdir().unwrap();
    resumed_run(root.path());
    insta::assert_snapshot!("show-resumed", transcript(root.path(), &["show"]));
}

#[test]
fn hostile_names_and_values_break_no_terminal() {
    let root = tempfile::tempdir().unwrap();
    hostile_run(root.path());
    let text = transcript(root.path(), &["show"]);
    let harmless = |c: char| c == '\n' || !c.is_control();
    assert!(text.chars().all(harmless), "{text:?}");
    insta::assert_snapshot!("show-hostile", text);
    let shown = json(root.path(), &["show", "--format", "json"]);
    let names: Vec<&str> = shown["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|metric| metric["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"\u{1b}[2J\u{1b}]0;x\u{7}red\nnew line\u{202e}"));
    assert_eq!(shown["metrics"][1]["last"]["value"], "NaN");
}

#[test]
fn infinities_are_counted_by_their_sign() {
    let root = tempfile::tempdir().unwrap();
    let folder = create(root.path(), "odd", "python", 10);
    let mut program = Program::in_run(&folder, "python");
    let values = [
        1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NEG_INFINITY,
        ABSENT,
    ];
    for (step, value) in values.into_iter().enumerate() {
        program.log(step as f64, Some(step as i64), &[("loss", value)]);
    }
    let shown = transcript(root.path(), &["show"]);
    assert!(shown.contains("1 inf, 2 -inf"), "{shown}");
}

#[test]
fn ten_thousand_metrics_are_counted_not_listed() {
    let root = tempfile::tempdir().unwrap();
    wide_run(root.path());
    let text = transcript(root.path(), &["show"]);
    assert!(text.lines().count() < 50, "{text}");
    let more =
        "and 9980 more; see `nilo show --all RUNS/20261115-075530-417-wide` or `--format json`";
    assert!(text.contains(more), "{text}");
    let text = transcript(root.path(), &["show", "--all"]);
    assert!(text.contains("layer/09999/norm") && !text.contains("more;"));
    let shown = json(root.path(), &["show", "--format", "json"]);
    assert_eq!(shown["metrics"].as_array().unwrap().len(), 10_000);
}

#[test]
fn json_has_every_figure_with_its_unit() {
    let root = tempfile::tempdir().unwrap();
    training_run(root.path(), "base", 4.0);
    let shown = json(root.path(), &["show", "--format", "json"]);
    let loss = &shown["metrics"][0];
    assert_eq!(loss["name"], "loss");
    assert_eq!(
        (&loss["count"], &loss["last"]["step"]),
        (&50.into(), &49.into())
    );
    assert_eq!(shown["metrics"][2]["nan_count"], 1);
    let phase = &shown["phases"][1];
    assert_eq!(phase["name"], "step/backward");
    assert_eq!(
        (&phase["parent"], &phase["depth"]),
        (&"step".into(), &1.into())
    );
    assert!(phase["mean_secs"].as_f64().unwrap() > 0.45);
    assert_eq!(shown["throughput"]["tokens"]["total"], 819_200.0);
    assert_eq!(shown["torch_memory"][0]["device"], 0);
    assert!(shown["memory"]["peak_bytes"].as_u64().unwrap() > 1 << 30);
}

#[test]
fn runs_are_compared_by_what_they_logged() {
    let root = tempfile::tempdir().unwrap();
    training_run(root.path(), "base", 4.0);
    training_run(root.path(), "better", 3.0);
    resumed_run(root.path());
    let names = ["compare", "base", "better", "resumed"];
    insta::assert_snapshot!("compare-training", transcript(root.path(), &names));
    let csv = [&names[..], &["--format", "csv"]].concat();
    insta::assert_snapshot!("compare-training-csv", transcript(root.path(), &csv));
    let compared = json(root.path(), &[&names[..], &["--format", "json"]].concat());
    assert_eq!(compared["runs"].as_array().unwrap().len(), 3);
    let last = &compared["metrics"][0];
    assert_eq!(
        (&last["name"], &last["figure"]),
        (&"loss".into(), &"last".into())
    );
    assert!(last["change_ratios"][1].as_f64().unwrap() < -0.2);
    assert_eq!(compared["throughput"][0]["figure"], "mean_per_sec");
}

#[test]
fn hostile_runs_are_compared_without_harm() {
    let root = tempfile::tempdir().unwrap();
    hostile_run(root.path());
    wide_run(root.path());
    let text = transcript(root.path(), &["compare", "hostile", "hostile"]);
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
    let text = transcript(root.path(), &["compare", "wide", "wide"]);
    assert!(text.contains("and 9980 more") && text.lines().count() < 80);
}

#[test]
fn a_plot_has_the_loss_below_the_memory_unless_told_otherwise() {
    let root = tempfile::tempdir().unwrap();
    training_run(root.path(), "base", 4.0);
    training_run(root.path(), "better", 3.0);
    let drawn = |arguments: &[&str]| {
        let output = nilo(
            root.path(),
            &[&["plot"], arguments, &["-o", "x.svg"]].concat(),
        );
        assert!(output.status.success(), "{output:?}");
        std::fs::read_to_string(root.path().join("x.svg")).unwrap()
    };
    let panels = |svg: &str| svg.matches("class=\"panel\"").count();
    let usual = drawn(&["base"]);
    assert!(panels(&usual) == 1 && usual.contains(">loss<"));
    assert_eq!(panels(&drawn(&["base", "--metric", "none"])), 0);
    let two = drawn(&[
        "base",
        "--metric",
        "lr",
        "--metric",
        "grad_norm",
        "-x",
        "step",
    ]);
    assert!(panels(&two) == 2 && two.contains(">1 NaN<") && two.contains(">step<"));
    assert_eq!(panels(&drawn(&["base", "better"])), 0);
    assert_eq!(panels(&drawn(&["base", "better", "--metric", "loss"])), 1);
}

#[test]
fn a_resumed_plot_over_steps_says_whose_figures_it_has() {
    let root = tempfile::tempdir().unwrap();
    let run = |name: &str, steps: std::ops::Range<i64>| {
        let folder = support::create(root.path(), name, "run", 5);
        support::record_memory(&folder, 5);
        let mut program = Program::in_run(&folder, "python-1");
        for (second, step) in steps.enumerate() {
            let values = [("loss", 8.0 / (1 + step) as f64)];
            program.log(second as f64, Some(step), &values);
        }
        folder
    };
    run("first", 0..4);
    let second = run("second", 4..8).path().join("run.json");
    let text = std::fs::read_to_string(&second).unwrap();
    let mut description: serde_json::Value = serde_json::from_str(&text).unwrap();
    description["resumes"] = "20261115-075530-417-first".into();
    std::fs::write(&second, description.to_string()).unwrap();
    let drawn = |axis: &str| {
        let output = nilo(root.path(), &["plot", "second", "-x", axis, "-o", "x.svg"]);
        assert!(output.status.success(), "{output:?}");
        std::fs::read_to_string(root.path().join("x.svg")).unwrap()
    };
    let over_steps = drawn("step");
    for wanted in [
        "over steps, peak",
        ">2 runs: last 1, min 1, max 8<",
        "metrics with the run it resumes",
    ] {
        assert!(over_steps.contains(wanted), "{wanted}: {over_steps}");
    }
    let over_time = drawn("time");
    assert!(over_time.contains(">last 1, min 1, max 1.6<"));
    assert!(!over_time.contains("it resumes"));
}

#[test]
fn plots_that_cannot_be_say_why() {
    let root = tempfile::tempdir().unwrap();
    training_run(root.path(), "base", 4.0);
    wide_run(root.path());
    support::record_memory(&support::create(root.path(), "plain", "run", 5), 5);
    let cases = [
        ["base", "--metric", "losss"],
        ["wide", "--metric", "loss"],
        ["plain", "-x", "step"],
        ["base", "-x", "step"],
    ];
    let mut said = String::new();
    for (case, arguments) in cases.iter().enumerate() {
        let several: &[&str] = if case == 3 { &["wide"] } else { &[] };
        said += &transcript(root.path(), &[&["plot"], several, arguments].concat());
    }
    insta::assert_snapshot!("plot-errors", said);
}
