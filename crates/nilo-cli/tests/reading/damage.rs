//! Damaged runs, copies of runs, and recordings that were cut off: how each is called.

use std::process::Command;

use super::{GIB, refusal, stdout};
use crate::command::nilo_by_itself as nilo;
use crate::support::{Program, create, recorder_stream, training_run};

#[test]
fn a_damaged_run_is_called_damaged_by_runs_as_by_verify() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let folder = training_run(&here.join(".nilo"), "base", 4.0);
    assert!(!stdout(here, &["runs"]).contains("damaged"));
    let recorder = recorder_stream(folder.path());
    let mut bytes = std::fs::read(&recorder).unwrap();
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..middle + 64] {
        *byte ^= 0x55;
    }
    std::fs::write(recorder, bytes).unwrap();
    assert_eq!(nilo(here, &["verify"]).status.code(), Some(1));
    let listed = nilo(here, &["runs"]);
    let text = String::from_utf8_lossy(&listed.stdout);
    assert!(text.contains("exited 0, damaged"), "{text}");
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(said.contains("1 run is damaged"), "{said}");
    let json = stdout(here, &["runs", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["runs"][0]["damaged"], true);
}

/// The hint is pasted into the shell: it has to find the copy, and not the run that it was copied from.
#[test]
fn a_damaged_copy_is_told_apart_from_its_run_and_so_is_the_end_of_its_samples() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let root = here.join(".nilo");
    let folder = training_run(&root, "train", 4.0);
    let copied = Command::new("cp")
        .arg("-r")
        .args([folder.path(), &root.join("backup")])
        .status();
    assert!(copied.unwrap().success());
    let recorder = recorder_stream(&root.join("backup"));
    let file = std::fs::File::options().write(true).open(recorder).unwrap();
    file.set_len(8_000).unwrap();
    let listed = nilo(here, &["runs"]);
    let rows = String::from_utf8(listed.stdout).unwrap();
    let has_row = |run: &str| rows.lines().any(|row| row.starts_with(run));
    assert!(
        has_row("backup ") && has_row("20261115-075530-417-train "),
        "{rows}"
    );
    let json = stdout(here, &["runs", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let folders = json["runs"].as_array().unwrap().iter();
    let folders: Vec<_> = folders.map(|run| run["folder"].as_str()).collect();
    assert!(
        folders.contains(&Some("backup")) && folders.contains(&None),
        "{json}"
    );
    for asked in [&["runs"][..], &["leak", ".nilo/backup"]] {
        let said = String::from_utf8(nilo(here, asked).stderr).unwrap();
        assert!(said.contains("1 run is damaged"), "{said}");
        let hint = said.split("incomplete: nilo ").nth(1).unwrap();
        let pasted: Vec<&str> = hint.split_whitespace().collect();
        let verified = nilo(here, &pasted);
        assert_eq!(verified.status.code(), Some(1), "{asked:?}: {verified:?}");
    }
    let said = stdout(here, &["leak", ".nilo/backup"]);
    assert!(!said.contains("at its end"), "{said}");
    assert!(
        said.contains("; memory recorded for the first ") && said.contains(" only; at that point:"),
        "{said}"
    );
    let json = stdout(here, &["leak", ".nilo/backup", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let until = json["memory_until_secs"].as_f64().unwrap();
    assert!(until < json["end_secs"].as_f64().unwrap() / 2.0, "{json}");
}

#[test]
fn a_recording_whose_recorder_was_killed_is_not_called_damaged() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let folder = create(&here.join(".nilo"), "killed", "run", 4);
    let mut description = folder.describe().unwrap();
    description.ending = None;
    folder.write_description(&description).unwrap();
    let mut recorder = Program::in_run(&folder, "recorder");
    for tick in 0..40 {
        recorder.tree(f64::from(tick) / 10.0, GIB, 0.0);
    }
    drop(recorder);
    assert!(stdout(here, &["verify"]).contains("ok"));
    for arguments in [
        &["plot", "-o", "-"][..],
        &["export", "-o", "-"],
        &["show"],
        &["runs"],
        &["leak"],
    ] {
        let output = nilo(here, arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("damaged"), "{arguments:?}: {said}");
    }
    // Of a run that ended, the tail is missing.
    description.ending = create(&here.join("other"), "ended", "run", 4)
        .describe()
        .unwrap()
        .ending;
    folder.write_description(&description).unwrap();
    let output = nilo(here, &["plot", "-o", "-"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 run is damaged"));
}

#[test]
fn a_copied_run_is_refused_by_every_command_unless_its_path_is_given() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let root = here.join(".nilo");
    training_run(&root, "train", 4.0);
    let id = "20261115-075530-417-train";
    let copied = Command::new("cp")
        .args(["-r", id, "backup"])
        .current_dir(&root)
        .status();
    assert!(copied.unwrap().success());
    for command in [
        &["show"][..],
        &["plot", "-o", "-"],
        &["export"],
        &["verify"],
        &["oom"],
        &["leak"],
        &["optimize"],
        &["request"],
        &["compare", ".nilo/backup"],
        &["rm"],
    ] {
        for asked in [id, "train", "last", "20261115"] {
            let told = refusal(here, &[command, &[asked]].concat());
            let first = format!("error: 2 folders hold the run {id}:\n");
            assert!(told.starts_with(&first), "{command:?} {asked}: {told}");
            for path in [".nilo/backup\n", &format!(".nilo/{id}\n")] {
                assert!(told.contains(path), "{command:?} {asked}: {told}");
            }
            let last = told.lines().last();
            assert_eq!(last, Some("hint: name one by its path"), "{command:?}");
        }
    }
    for command in [&["show"][..], &["plot", "-o", "-"], &["export"], &["rm"]] {
        let output = nilo(here, &[command, &[".nilo/backup"]].concat());
        assert!(output.status.success(), "{command:?}: {output:?}");
    }
    assert!(stdout(here, &["show"]).contains("train"));
}
