//! What is said of growth: whether it goes on, whether it is loading, and the same by every command.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{GIB, answer, limited_run, of_job, run_of, text_of, write_csv};
use crate::command::nilo;

#[test]
fn growth_that_stopped_a_moment_before_the_end_is_told_as_what_it_is() {
    let root = tempfile::tempdir().unwrap();
    let mut recorder = limited_run(root.path(), "stopped", 23);
    for tick in 0..230 {
        let secs = f64::from(tick) / 10.0;
        let memory = (0.1 + 0.12 * secs.min(20.0)) * GIB;
        recorder.tree(secs, memory, secs * 1e9);
    }
    drop(recorder);
    let text = text_of(root.path(), "leak", "stopped");
    let told = text
        .lines()
        .find(|line| line.starts_with("job memory: grew by 2."));
    let told = told.expect(&text);
    assert!(
        told.ends_with(": too short to tell whether the growth is over"),
        "{text}"
    );
    let (status, job) = of_job(root.path(), "leak", "stopped");
    assert_eq!((status, &job["kind"]), (0, &Value::Null));
    assert!(job["paused_growth"]["grown_bytes"].as_f64().unwrap() > 2.0 * GIB);
    let shown = answer(root.path(), &["show", "stopped"], 0);
    let mut findings = shown["findings"].as_array().unwrap().iter();
    let finding = findings.find(|one| one["kind"] == "growth").unwrap();
    assert_eq!(finding["severity"], "info");
    assert!(
        finding["text"]
            .as_str()
            .unwrap()
            .starts_with("job memory grew by 2.")
    );
}

/// A file without steps does not tell how many were made.
#[test]
fn growth_is_said_to_be_within_the_first_steps_only_where_steps_are_known() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    write_csv(root, "timed.csv", 40, |secs| 1000.0 + 100.0 * secs);
    let mut text = "t_s,step,rss_mb\n".to_owned();
    for second in 0..40 {
        writeln!(text, "{second},{second},{}", 1000 + 100 * second).unwrap();
    }
    std::fs::write(root.join("stepped.csv"), text).unwrap();
    for (file, said) in [
        ("timed.csv", "in the first minute this may be loading"),
        (
            "stepped.csv",
            "in the first minute and the first 50 steps this may be loading",
        ),
    ] {
        let limited = ["--csv", file, "--limit", "64GiB"];
        for verb in ["leak", "oom"] {
            let output = nilo(root, &[&[verb], &limited[..]].concat());
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.contains(said), "{verb} {file}: {text}");
        }
    }
}

/// The level stays above the threshold after the growth that was predicted has stopped.
#[test]
fn a_prediction_that_was_taken_back_does_not_clear_the_warning_above_it() {
    let root = tempfile::tempdir().unwrap();
    run_of(root.path(), "filled", 900, |secs| {
        0.5 + 0.006 * secs.min(550.0)
    });
    let text = text_of(root.path(), "oom", "filled");
    assert!(text.contains("[WARNING] OOM Warning: job memory"), "{text}");
    assert!(text.contains("; withdrawn at 00:"), "{text}");
    assert!(!text.contains("cleared"), "{text}");
    assert!(
        text.ends_with("whether or not an alert was sent; `nilo show` lists the alerts.\n"),
        "{text}"
    );
}

#[test]
fn show_leak_and_oom_agree_on_the_verdict_and_on_the_rate() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let wave = |secs: f64| 0.05 * (secs % 7.0) / 7.0;
    run_of(root, "first-minute", 45, |secs| 0.3 + 0.02 * secs);
    run_of(root, "steady", 300, |secs| 0.5 + 0.011 * secs + wave(secs));
    run_of(root, "far", 300, |secs| 0.5 + 0.001 * secs + wave(secs));
    // A little faster in the end, so that windows of different lengths have different slopes.
    run_of(root, "bent", 300, |secs| {
        0.5 + 0.006 * secs + 0.000_016 * secs * secs + wave(secs)
    });
    for run in ["first-minute", "steady", "far", "bent"] {
        let (leak_status, leak) = of_job(root, "leak", run);
        let (_, oom) = of_job(root, "oom", run);
        assert_eq!((leak_status, &leak["kind"]), (1, &json!("leak")), "{run}");
        assert_eq!(oom["cause"], "leak", "{run}");
        for figure in ["bytes_per_sec", "lasted_secs"] {
            let leaks = match figure {
                "lasted_secs" => &leak["grown_over_secs"],
                _ => &leak["growth_bytes_per_sec"],
            };
            assert_eq!(&oom[format!("growth_{figure}")], leaks, "{run} {figure}");
        }
        let shown = answer(root, &["show", run], 0);
        let findings = shown["findings"].as_array().unwrap();
        let finding = findings.iter().find(|one| one["kind"] == "leak").unwrap();
        assert_eq!(finding["severity"], "warning", "{run}");
        // As text, too: `120 MiB/min` in all three.
        let text = text_of(root, "leak", run);
        let rate = text.split("job memory: leaks ").nth(1).unwrap();
        let rate = rate.split(&[',', '('][..]).next().unwrap().trim();
        let said = finding["text"].as_str().unwrap();
        assert!(
            said.starts_with(&format!("job memory leaks {rate} ")),
            "{said}"
        );
        let said = text_of(root, "oom", run);
        assert!(
            said.contains(&format!("job memory leaks by {rate},")),
            "{said}"
        );
    }
}
