//! Runs that lost files after their end: what is not known any more is said to be unknown, and never told as zero.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "support/command.rs"]
mod command;
mod support;

use std::path::Path;
use std::process::Output;

use command::nilo_by_itself as nilo;
use nilo_runfile::{RunFolder, append_event};
use nilo_sample::Event;
use support::{Program, create, record_memory, recorder_stream};

const MIB: f64 = 1048576.0;

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(here: &Path, arguments: &[&str]) -> serde_json::Value {
    let output = nilo(here, &[arguments, &["--format", "json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Writes the ending again, as the recorder does when everything is there.
fn end(folder: &RunFolder) {
    folder
        .write_description(&folder.describe().unwrap())
        .unwrap();
}

fn mark(folder: &RunFolder) {
    let text = "one".to_owned();
    append_event(folder.path(), &Event::Mark { text }).unwrap();
}

#[test]
fn figures_of_a_lost_stream_are_unknown_and_not_zero() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let folder = create(&here.join(".nilo"), "lost", "run", 20);
    record_memory(&folder, 20);
    end(&folder);
    assert_eq!(json(here, &["show"])["cpu"]["mean_percent"], 89.55);
    assert!(nilo(here, &["optimize"]).status.success());
    std::fs::remove_file(recorder_stream(folder.path())).unwrap();
    let shown = json(here, &["show"]);
    for key in ["total_secs", "mean_percent", "max_percent"] {
        assert!(shown["cpu"][key].is_null(), "{key}: {shown}");
    }
    for key in ["cpu_secs", "cpu_percent", "late_ticks"] {
        assert!(shown["recorder"][key].is_null(), "{key}: {shown}");
    }
    assert!(!text(&nilo(here, &["show"])).contains("CPU Time"));
    let compared = json(here, &["compare", "last", "last"]);
    assert!(compared["runs"][0]["cpu_secs"].is_null(), "{compared}");
    let compared = text(&nilo(here, &["compare", "last", "last"]));
    assert!(!compared.contains(" 0.00 s"), "{compared}");
    for verb in ["optimize", "leak", "oom", "request"] {
        let answered = nilo(here, &[verb]);
        assert_eq!(answered.status.code(), Some(2), "{verb}: {answered:?}");
        assert!(answered.stdout.is_empty(), "{verb}: {answered:?}");
        let said = String::from_utf8_lossy(&answered.stderr);
        assert!(
            said.contains("error: ") && said.contains("hint: "),
            "{said}"
        );
    }
}

#[test]
fn a_run_without_its_first_samples_says_from_when_on_it_is_known() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let folder = create(&here.join(".nilo"), "headless", "run", 40);
    let mut recorder = Program::in_run(&folder, "recorder");
    for secs in 30..=40 {
        recorder.tree(f64::from(secs), 500.0 * MIB, 1e9);
    }
    drop(recorder);
    mark(&folder);
    end(&folder);
    let shown = json(here, &["show"]);
    assert_eq!(shown["memory"]["first_sample_secs"], 30.0);
    assert_eq!(shown["memory"]["last_sample_secs"], 40.0);
    // That it was damaged is what tells a beginning that was lost from one that was not recorded.
    std::fs::remove_file(folder.path().join("marks.nilo")).unwrap();
    assert!(json(here, &["show"])["memory"]["growth_bytes"].is_null());
    let said = text(&nilo(here, &["show"]));
    assert!(said.contains("11, from 30.0 s to 40.0 s"), "{said}");
    assert!(
        said.contains("Memory Growth:        unknown, as the first samples are lost"),
        "{said}"
    );
}

#[test]
fn lost_marks_and_a_changed_exit_code_are_exit_status_1_of_verify() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let folder = create(&here.join(".nilo"), "marked", "run", 20);
    record_memory(&folder, 20);
    mark(&folder);
    end(&folder);
    assert!(nilo(here, &["verify", "last"]).status.success());
    let description = folder.path().join("run.json");
    let whole = std::fs::read_to_string(&description).unwrap();
    let changed = whole.replace(r#""exit_code": 0"#, r#""exit_code": 7"#);
    assert_ne!(whole, changed);
    std::fs::write(&description, changed).unwrap();
    let verified = nilo(here, &["verify", "last"]);
    assert_eq!(verified.status.code(), Some(1), "{verified:?}");
    assert!(text(&verified).contains("exit code 7"), "{verified:?}");
    std::fs::write(&description, whole).unwrap();
    std::fs::remove_file(folder.path().join("marks.nilo")).unwrap();
    let verified = nilo(here, &["verify", "last"]);
    assert_eq!(verified.status.code(), Some(1), "{verified:?}");
    assert!(text(&verified).contains("marks.nilo"), "{verified:?}");
    let shown = text(&nilo(here, &["show"]));
    assert!(shown.contains("damaged: the file is missing"), "{shown}");
}
