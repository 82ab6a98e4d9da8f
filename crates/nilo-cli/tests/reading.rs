//! Commands that read runs: where their output goes, which folder they read, and what they say of broken and failed runs.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "support/command.rs"]
mod command;
mod support;

use std::path::Path;
use std::process::Command;

use command::{command, nilo_by_itself as nilo};
use nilo_sample::rows::{GpuRow, ProcessRow};
use nilo_sample::{ABSENT, Event, Limit, LimitSource, ProcessId, TableSpec, UnhandledException};
use support::{Program, create, training_run};

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

#[test]
fn a_dash_is_standard_output() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    training_run(&here.join(".nilo"), "base", 4.0);
    for options in [
        &["export", "--long"][..],
        &["export", "--format", "json"],
        &["export", "--format", "parquet"],
    ] {
        let usual = nilo(here, options);
        let dashed = nilo(here, &[options, &["-o", "-"]].concat());
        assert!(usual.status.success() && !usual.stdout.is_empty());
        assert_eq!(dashed.stdout, usual.stdout, "{options:?}");
    }
    let svg = nilo(here, &["plot", "-o", "-"]);
    assert!(svg.stdout.starts_with(b"<svg"), "{svg:?}");
    assert!(svg.stderr.is_empty(), "{svg:?}");
    let png = nilo(here, &["plot", "-o", "-", "--format", "png"]);
    assert!(png.stdout.starts_with(b"\x89PNG"));
    assert!(!here.join("-").exists());
}

#[test]
fn a_dash_is_refused_where_standard_output_is_no_place_for_it() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    training_run(&here.join(".nilo"), "base", 4.0);
    std::fs::write(here.join("text"), "some words").unwrap();
    for arguments in [
        &["export", "--format", "tensorboard", "-o", "-"][..],
        &["run", "--json", "-", "--", "true"],
        &["run", "--memory-log", "-", "--", "true"],
        &["profile", "--duration", "1", "-o", "-"],
        &["monitor", "--duration", "1", "-o", "-"],
        &["bpe", "count", "text", "-o", "-"],
        &["bpe", "train", "text", "--vocab-size", "300", "-o", "-"],
        &["man", "--output", "-"],
    ] {
        let said = refusal(here, arguments);
        assert!(said.contains("standard output"), "{arguments:?}: {said}");
        assert!(said.contains("\nhint: "), "{arguments:?}: {said}");
        assert!(!here.join("-").exists(), "{arguments:?}");
    }
}

#[test]
fn a_format_is_chosen_for_a_name_without_an_extension() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    training_run(&here.join(".nilo"), "base", 4.0);
    let said = refusal(here, &["plot", "-o", "picture"]);
    assert!(said.contains("cannot tell the format of picture"), "{said}");
    stdout(here, &["plot", "-o", "picture", "--format", "png"]);
    let picture = std::fs::read(here.join("picture")).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));
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

/// A run whose program ended with this exception; so many GPUs were read.
fn failed_run(root: &Path, name: &str, message: &str, gpus: u32) {
    let folder = create(root, name, "run", 10);
    let path = folder.path().join("run.json");
    let text = std::fs::read(&path).unwrap();
    let mut description: serde_json::Value = serde_json::from_slice(&text).unwrap();
    description["ending"]["exit_code"] = 1.into();
    std::fs::write(path, description.to_string()).unwrap();
    let mut recorder = Program::in_run(&folder, "recorder");
    for secs in 0..10 {
        recorder.tree(f64::from(secs), GIB, 1e9);
        for index in 0..gpus {
            let row = GpuRow {
                used_bytes: 70.0 * GIB,
                total_bytes: 80.0 * GIB,
                ..GpuRow::ABSENT
            };
            recorder.row(&TableSpec::gpu(index), f64::from(secs), None, row);
        }
    }
    let exception = UnhandledException {
        pid: 4711,
        type_name: "RuntimeError".to_owned(),
        message: message.to_owned(),
        ..UnhandledException::default()
    };
    Program::in_run(&folder, "python").event(9.0, &Event::Exception(Box::new(exception)));
    let ended = Event::CommandEnded {
        cpu_nanos: None,
        peak_bytes: None,
        exit_code: Some(1),
        signal: None,
    };
    recorder.event(10.0, &ended);
}

#[test]
fn an_exception_that_says_out_of_memory_is_told_so_by_every_command() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let root = here.join(".nilo");
    failed_run(
        &root,
        "cuda",
        "CUDA out of memory. Tried to allocate 20.00 GiB.",
        2,
    );
    failed_run(&root, "other", "shapes do not match", 2);
    let listed = stdout(here, &["runs"]);
    assert!(listed.contains(" exited 1 (out of memory) "), "{listed}");
    assert!(listed.contains(" exited 1 (RuntimeError) "), "{listed}");
    let shown = stdout(here, &["show", "cuda"]);
    assert!(shown.contains("exited with 1, out of memory"), "{shown}");
    let compared = stdout(here, &["compare", "other", "cuda"]);
    assert!(compared.contains("exited 1 (out of memory)"), "{compared}");
}

#[test]
fn a_gpu_is_named_only_where_something_tells_which_it_is() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let root = here.join(".nilo");
    let bare = "CUDA out of memory. Tried to allocate 20.00 GiB.";
    let named = "CUDA out of memory. GPU 1 has a total capacity of 79.11 GiB.";
    for (name, message, gpus, told) in [
        ("bare", bare, 2, "a GPU ran out of memory"),
        ("named", named, 2, "GPU 1 ran out of memory"),
        ("only", bare, 1, "GPU 0 ran out of memory"),
        ("none", bare, 0, "a GPU ran out of memory"),
    ] {
        failed_run(&root, name, message, gpus);
        let shown = stdout(here, &["show", name]);
        assert!(shown.contains(told), "{name}: {shown}");
        let answer = nilo(here, &["oom", name]);
        let text = String::from_utf8(answer.stdout).unwrap();
        assert_eq!(answer.status.code(), Some(1), "{text}");
        let is_told = |index: u32| text.contains(&format!("GPU {index}: ran out"));
        assert!(!is_told(0) || told.starts_with("GPU 0"), "{name}: {text}");
    }
}

#[test]
fn a_damaged_run_is_called_damaged_by_runs_as_by_verify() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let folder = training_run(&here.join(".nilo"), "base", 4.0);
    assert!(!stdout(here, &["runs"]).contains("damaged"));
    let files = std::fs::read_dir(folder.path()).unwrap();
    let recorder = files
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains("/recorder-"))
        .unwrap();
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
    let files = std::fs::read_dir(root.join("backup")).unwrap();
    let recorder = files
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains("/recorder-"))
        .unwrap();
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
        said.contains("; memory was recorded for ") && said.contains(" only; by then:"),
        "{said}"
    );
    let json = stdout(here, &["leak", ".nilo/backup", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let until = json["memory_until_secs"].as_f64().unwrap();
    assert!(until < json["end_secs"].as_f64().unwrap() / 2.0, "{json}");
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
fn infinities_are_counted_by_their_sign() {
    let here = tempfile::tempdir().unwrap();
    let folder = create(&here.path().join(".nilo"), "odd", "python", 10);
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
    let shown = stdout(here.path(), &["show"]);
    assert!(shown.contains("1 inf, 2 -inf"), "{shown}");
}

/// A program that was refused memory at a limit of its own (`ulimit -v`), of which only its processes' tables tell.
fn refused_run(root: &Path) {
    refused_run_that_touches(root, 1.0);
}

/// The same where this share of what it maps is resident.
fn refused_run_that_touches(root: &Path, touched: f64) {
    let folder = create(root, "refused", "run", 4);
    let mut description = folder.describe().unwrap();
    description.limit = Some(Limit {
        bytes: GIB as u64,
        source: LimitSource::Rlimit {
            resource: "as".to_owned(),
        },
    });
    description.ending.as_mut().unwrap().exit_code = Some(1);
    folder.write_description(&description).unwrap();
    let mut recorder = Program::in_run(&folder, "recorder");
    let id = ProcessId {
        pid: 4711,
        start_ticks: 1,
    };
    for tick in 0..40 {
        let (secs, bytes) = (f64::from(tick) / 10.0, f64::from(tick + 1) / 40.5 * GIB);
        let resident = touched * bytes;
        recorder.tree(secs, resident, 0.0);
        let row = ProcessRow {
            rss_bytes: resident,
            memory_bytes: resident,
            virtual_bytes: bytes,
            ..ProcessRow::ABSENT
        };
        recorder.row(&TableSpec::process(id), secs, None, row);
    }
    let ended = Event::CommandEnded {
        cpu_nanos: None,
        peak_bytes: None,
        exit_code: Some(1),
        signal: None,
    };
    recorder.event(4.0, &ended);
}

#[test]
fn every_command_says_that_a_refused_allocation_ended_the_run() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    refused_run(&here.join(".nilo"));
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&nilo(here, arguments).stdout).unwrap()
    };
    let shown = &json(&["show", "--format", "json"])["oom"];
    assert_eq!(shown["kind"], "host-allocation", "{shown}");
    // The first answer reads the recording, the second what was kept of it.
    for _ in 0..2 {
        let listed = json(&["runs", "--format", "json"]);
        assert_eq!(listed["runs"][0]["oom"], *shown);
        assert!(stdout(here, &["runs"]).contains("exited 1 (out of memory)"));
    }
    for command in ["oom", "leak"] {
        let said = String::from_utf8(nilo(here, &[command]).stdout).unwrap();
        let heading = "refused: exited with 1, out of memory after 4 seconds; at its end:";
        assert!(said.starts_with(heading), "{said}");
    }
    let picture = stdout(here, &["plot", "-o", "-"]);
    assert!(picture.contains(">out of memory</text>"), "{picture}");
    assert!(picture.contains("exited 1 (out of memory) after"));
    training_run(&here.join(".nilo"), "base", 4.0);
    let several = stdout(here, &["plot", "refused", "base", "-o", "-"]);
    assert!(several.contains(">out of memory: refused</text>"));
}

#[test]
fn every_command_measures_a_limit_of_addresses_by_addresses() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    refused_run_that_touches(&here.join(".nilo"), 0.01);
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&nilo(here, arguments).stdout).unwrap()
    };
    let used = (40.0 / 40.5 * GIB) as u64;
    let memory = &json(&["show", "--format", "json"])["memory"];
    assert_eq!(memory["limit_used_bytes"], used, "{memory}");
    assert_eq!(memory["limit_counts"], "address-space");
    let listed = &json(&["runs", "--format", "json"])["runs"][0];
    assert_eq!(listed["limit_used_bytes"], used, "{listed}");
    let shown = stdout(here, &["show"]);
    let line = "1.00 GiB (RLIMIT_AS), 99 % of it used at the peak: 1011.36 MiB of address space in one process";
    assert!(shown.contains(line), "{shown}");
    let oom = String::from_utf8(nilo(here, &["oom"]).stdout).unwrap();
    assert!(oom.contains("OOM Warning: address space"), "{oom}");
    assert!(oom.contains("10.1 MiB, no limit of its own"), "{oom}");
    let request = stdout(here, &["request"]);
    assert!(!request.contains("At present it has"), "{request}");
    let picture = stdout(here, &["plot", "-o", "-"]);
    assert!(!picture.contains("RLIMIT_AS"), "{picture}");
}

#[test]
fn an_export_to_a_file_of_an_unknown_format_is_refused() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    training_run(&here.join(".nilo"), "base", 4.0);
    let refused = nilo(here, &["export", "-o", "run.xyz"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot tell the format of run.xyz") && said.contains("--format"));
    assert!(!here.join("run.xyz").exists());
    for arguments in [
        &["export", "-o", "plain"][..],
        &["export", "--format", "csv", "-o", "run.xyz"],
    ] {
        stdout(here, arguments);
        let written = std::fs::read(here.join(arguments.last().unwrap())).unwrap();
        assert!(written.starts_with(b"timestamp"), "{written:?}");
    }
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

#[test]
fn an_end_without_an_exit_code_is_the_same_word_in_text_json_and_csv() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let folder = create(&here.join(".nilo"), "watched", "watch", 4);
    support::record_memory(&folder, 4);
    // As earlier versions wrote it.
    let path = folder.path().join("run.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut description: serde_json::Value = serde_json::from_str(&text).unwrap();
    description["ending"]
        .as_object_mut()
        .unwrap()
        .remove("exit_code");
    assert_eq!(description["ending"]["status"], "exited");
    std::fs::write(&path, description.to_string()).unwrap();

    let json = |arguments: &[&str]| -> serde_json::Value {
        let arguments = [arguments, &["--format", "json"]].concat();
        serde_json::from_str(&stdout(here, &arguments)).unwrap()
    };
    assert_eq!(json(&["show"])["status"], "ended");
    assert_eq!(json(&["runs"])["runs"][0]["status"], "ended");
    assert_eq!(json(&["export"])["run"]["ending"]["status"], "ended");
    let compared = json(&["compare", "watched", "watched"]);
    assert_eq!(compared["runs"][1]["status"], "ended");
    for arguments in [
        &["runs", "--format", "csv"][..],
        &["compare", "watched", "watched", "--format", "csv"],
        &["runs"],
        &["show"],
        &["oom"],
    ] {
        let told = stdout(here, arguments);
        assert!(told.contains("ended"), "{arguments:?}: {told}");
        assert!(!told.contains("exited"), "{arguments:?}: {told}");
    }
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
