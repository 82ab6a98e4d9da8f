//! Commands that read runs: where their output goes, which folder they read, and what they say of broken and failed runs.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "../support/command.rs"]
mod command;
mod damage;
mod failures;
mod output_files;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::Command;

use command::{command, nilo_by_itself as nilo};
use support::training_run;

const GIB: f64 = 1073741824.0;

fn stdout(here: &Path, arguments: &[&str]) -> String {
    let output = nilo(here, arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What is said on standard error by a command that fails.
fn refusal(here: &Path, arguments: &[&str]) -> String {
    let output = nilo(here, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The commands that read runs.
const READERS: [&[&str]; 12] = [
    &["runs"],
    &["show"],
    &["compare", "last", "last"],
    &["export"],
    &["plot"],
    &["verify", "--all"],
    &["oom"],
    &["leak"],
    &["request"],
    &["optimize"],
    &["rm", "last"],
    &["prune", "--keep", "0"],
];

/// A fallback folder with a run of this directory is no answer to a misspelt name, nor to that of a file.
#[test]
fn a_folder_that_is_not_there_is_an_error_for_whoever_reads() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    std::fs::write(here.join(".nilo"), "not a folder").unwrap();
    let recorded = nilo(here, &["run", "--quiet", "--", "true"]);
    assert!(recorded.status.success(), "{recorded:?}");
    assert!(stdout(here, &["runs"]).contains("exited 0"));
    for verb in READERS {
        let said = refusal(here, &[verb, &["--dir", "nosuchdir"]].concat());
        assert!(
            said.starts_with("error: no such folder: nosuchdir\nhint: "),
            "{said}"
        );
        let said = refusal(here, &[verb, &["--dir", ".nilo"]].concat());
        assert!(
            said.starts_with("error: not a folder: .nilo\nhint: "),
            "{said}"
        );
    }
    assert!(stdout(here, &["runs"]).contains("exited 0"));
}

/// Each example in the error of an option is a value that this option takes.
#[test]
fn examples_in_errors_are_values_that_the_option_takes() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    training_run(&here.join(".nilo"), "base", 4.0);
    std::fs::write(here.join("trace.csv"), "t_s,rss_mb\n0,100\n1,100\n").unwrap();
    std::fs::write(here.join("text"), "some words").unwrap();
    for (arguments, option, wrong) in [
        (&["prune", "--dry-run"][..], "--older-than", "1x"),
        (&["request"], "--time", "foo"),
        (&["request"], "--time", "90"),
        (&["run", "--quiet"], "--interval", "x"),
        (&["run", "--quiet"], "--tag", "x"),
        (&["runs"], "--tag", "x"),
        (&["oom"], "--threshold", "x"),
        (&["leak"], "--threshold", "x"),
        (&["oom", "--csv", "trace.csv"], "--limit", "x"),
        (
            &["bpe", "count", "text", "-o", "counts"],
            "--memory-budget",
            "x",
        ),
    ] {
        let with = |value: &str| {
            let command: &[&str] = if arguments[0] == "run" {
                &["--", "true"]
            } else {
                &[]
            };
            nilo(here, &[arguments, &[option, value], command].concat())
        };
        let refused = with(wrong);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        let (_, examples) = said
            .split_once("(example")
            .unwrap_or_else(|| panic!("{option} gives no example: {said}"));
        let (examples, _) = examples.split_once(')').unwrap();
        let (_, examples) = examples.split_once(": ").unwrap();
        for example in examples.split(", ") {
            let taken = with(example);
            let said = String::from_utf8_lossy(&taken.stderr);
            assert!(
                !said.contains("invalid value"),
                "{option} {example}: {said}"
            );
        }
    }
}

#[test]
fn a_settings_file_that_is_no_file_is_told_and_holds_nobody_up() {
    let told = |make: &dyn Fn(&Path), what: &str| {
        let here = tempfile::tempdir().unwrap();
        make(&here.path().join("nilo.toml"));
        let output = nilo(here.path(), &["runs"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let expected = format!("nilo.toml is ignored: it is {what}, not a file");
        assert_eq!(said.matches(&expected).count(), 1, "{said}");
    };
    told(&|path| std::fs::create_dir(path).unwrap(), "a directory");
    let fifo = |path: &Path| {
        let made = Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    };
    told(&fifo, "a FIFO");
}

#[test]
fn a_variable_that_is_set_to_nothing_counts_as_not_set() {
    let here = tempfile::tempdir().unwrap();
    let run = |variable: &str, value: &str, arguments: &[&str]| {
        let mut command = command(here.path(), arguments);
        command.env("TMPDIR", here.path()).env(variable, value);
        command.output().unwrap()
    };
    let recorded = run("NILO_INTERVAL", "", &["run", "--", "true"]);
    assert!(recorded.status.success(), "{recorded:?}");
    let listed = run("NILO_DIR", "", &["runs"]);
    assert!(
        String::from_utf8_lossy(&listed.stdout).contains("exited 0"),
        "{listed:?}"
    );
    let wrong = run("NILO_INTERVAL", "soon", &["run", "--", "true"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}
