//! `nilo oom` and `nilo leak` on made-up runs, on small files and on recordings of other tools, as transcripts.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "../support/command.rs"]
mod command;
mod growth;
mod limits;
mod shared_memory;
#[path = "../support/mod.rs"]
mod support;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use command::{nilo, transcript};
use nilo_sample::TableSpec;
use nilo_sample::rows::GpuRow;
use serde_json::{Value, json};
use support::{Program, command_ended, create};

const GIB: f64 = 1073741824.0;

fn answer(root: &Path, arguments: &[&str], status: i32) -> Value {
    let output = nilo(root, &[arguments, &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A file with a row a second.
fn write_csv(root: &Path, name: &str, secs: u32, level_mib: impl Fn(f64) -> f64) {
    let mut text = "t_s,rss_mb\n".to_owned();
    for second in 0..secs {
        writeln!(text, "{second},{:.3}", level_mib(f64::from(second))).unwrap();
    }
    std::fs::write(root.join(name), text).unwrap();
}

/// A level that jumps within each cycle of half a minute.
fn cycle(secs: f64) -> f64 {
    40.0 * (secs % 30.0) / 30.0
}

fn small_files(root: &Path) {
    write_csv(root, "leak.csv", 600, |secs| {
        1000.0 + 2.0 * secs + cycle(secs)
    });
    write_csv(root, "flat.csv", 600, |_| 1500.0);
    write_csv(root, "sawtooth.csv", 600, |secs| {
        1000.0 + 20.0 * cycle(secs)
    });
    write_csv(root, "short.csv", 5, |secs| 1000.0 + 100.0 * secs);
    write_csv(root, "one.csv", 1, |_| 1000.0);
}

/// The recorder of a run against a limit of 4 GiB.
fn limited_run(root: &Path, name: &str, secs: u32) -> Program {
    let folder = create(&root.join("runs"), name, "run", u64::from(secs));
    let path = folder.path().join("run.json");
    let mut description: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let cgroup = json!({"type": "cgroup", "path": "/job_1", "version": 1});
    description["limit"] = json!({"bytes": (4.0 * GIB) as u64, "source": cgroup});
    std::fs::write(path, description.to_string()).unwrap();
    Program::in_run(&folder, "recorder")
}

/// A run of ten minutes against a limit of 4 GiB, with a GPU of 80 GiB of which most is in use.
fn growing_run(root: &Path) {
    let mut recorder = limited_run(root, "growing", 600);
    for second in 0..600 {
        let secs = f64::from(second);
        let memory = (1.0 + 2.8 * secs / 600.0) * GIB;
        recorder.tree(secs, memory, secs * 1e9);
        let row = GpuRow {
            used_bytes: 70.0 * GIB,
            total_bytes: 80.0 * GIB,
            ..GpuRow::ABSENT
        };
        recorder.row(&TableSpec::gpu(0), secs, None, row);
    }
    recorder.event(600.0, &command_ended(Some(0), None));
}

/// A run against a limit of 4 GiB whose level in GiB is a function of the second, sampled twice a second.
fn run_of(root: &Path, name: &str, secs: u32, level_gib: impl Fn(f64) -> f64) {
    let mut recorder = limited_run(root, name, secs);
    for tick in 0..2 * secs {
        let secs = f64::from(tick) / 2.0;
        let memory = level_gib(secs) * GIB;
        recorder.tree(secs, memory, secs * 1e9);
    }
}

fn from_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

#[test]
fn small_files_are_judged() {
    let root = tempfile::tempdir().unwrap();
    small_files(root.path());
    for name in ["leak", "flat", "sawtooth", "short", "one"] {
        let file = format!("{name}.csv");
        let with_limit = ["--csv", &file, "--limit", "2300MiB"];
        let oom = transcript(root.path(), &[&["oom"][..], &with_limit].concat());
        let leak = transcript(root.path(), &[&["leak"][..], &with_limit].concat());
        insta::assert_snapshot!(format!("file-{name}"), format!("{oom}\n{leak}"));
    }
}

#[test]
fn a_file_without_a_limit_is_asked_for_one() {
    let root = tempfile::tempdir().unwrap();
    small_files(root.path());
    let text = transcript(root.path(), &["oom", "--csv", "leak.csv"]);
    insta::assert_snapshot!("no-limit", text);
}

#[test]
fn a_check_is_one_line_and_the_threshold_counts_mebibytes() {
    let root = tempfile::tempdir().unwrap();
    small_files(root.path());
    let check = |more: &[&str]| {
        let asked = ["leak", "--csv", "leak.csv", "--check"];
        let output = nilo(root.path(), &[&asked[..], more].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        (output.status.code().unwrap(), text)
    };
    let (status, text) = check(&[]);
    assert_eq!(status, 1);
    assert!(
        text.starts_with("leak found: rss_mb leaks 120 MiB/min"),
        "{text}"
    );
    assert_eq!(check(&["--threshold", "1000"]).0, 1);
    let (status, text) = check(&["--threshold", "1500"]);
    assert_eq!(status, 0);
    assert!(text.starts_with("no leak found: rss_mb grows"), "{text}");
    assert_eq!(check(&["--format", "json"]).0, 1);
}

#[test]
fn a_run_that_grows_is_warned_of_and_so_is_a_full_gpu() {
    let root = tempfile::tempdir().unwrap();
    growing_run(root.path());
    insta::assert_snapshot!("run-oom", transcript(root.path(), &["oom"]));
    insta::assert_snapshot!("run-leak", transcript(root.path(), &["leak", "growing"]));
    let oom = answer(root.path(), &["oom"], 1);
    assert_eq!(oom["schema"], "nilo.oom/1");
    let job = &oom["resources"][0];
    assert_eq!(
        (&job["name"], &job["level"]),
        (&json!("job memory"), &json!("critical"))
    );
    let left = job["predicted_secs"].as_f64().unwrap();
    assert!((20.0..80.0).contains(&left), "{left}");
    assert!(job["warnings"][0]["before_end_secs"].as_f64().unwrap() > 150.0);
    let leak = answer(root.path(), &["leak"], 1);
    assert_eq!(
        (&leak["schema"], &leak["leak"]),
        (&json!("nilo.leak/1"), &json!(true))
    );
    let rate = leak["resources"][0]["growth_bytes_per_sec"]
        .as_f64()
        .unwrap();
    assert!((rate / (2.8 * GIB / 600.0) - 1.0).abs() < 0.02, "{rate}");
}

#[test]
fn real_gpu_traces_that_leak_are_found_and_the_others_are_not() {
    let root = tempfile::tempdir().unwrap();
    for (trace, leaks) in [
        ("retain-graph", 1),
        ("slow-leak", 1),
        ("steady", 0),
        ("eval-bump", 0),
        ("cache-plateau", 0),
        ("variable-length", 0),
    ] {
        let file = from_root(&format!("bench/verdicts/testdata/traces/gpu/{trace}.csv"));
        let what = ["--csv", file.to_str().unwrap(), "--limit", "12GiB"];
        let columns = ["--column", "reserved", "--column", "allocated"];
        let arguments = [&what[..], &columns].concat();
        answer(root.path(), &[&["leak"][..], &arguments].concat(), leaks);
        let dies = i32::from(trace == "retain-graph");
        let oom = answer(root.path(), &[&["oom"][..], &arguments].concat(), dies);
        let only = &oom["resources"][0];
        if dies == 1 {
            assert_eq!(
                (&only["level"], &only["cause"]),
                (&json!("critical"), &json!("leak"))
            );
            assert!(only["warnings"][0]["before_end_secs"].as_f64().unwrap() > 1.0);
        }
        if trace == "slow-leak" {
            // The true time after the end of the trace is 287 s.
            let left = only["predicted_secs"].as_f64().unwrap();
            assert!((230.0..340.0).contains(&left), "{left}");
        }
    }
}

#[test]
fn logs_of_other_tools_are_judged() {
    let root = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for name in ["psrecord.log", "mprof-functions.dat", "nvidia-smi.csv"] {
        let file = from_root(&format!("crates/nilo-import/testdata/{name}"));
        std::fs::copy(file, root.path().join(name)).unwrap();
        let limited: &[&str] = match name {
            "nvidia-smi.csv" => &["oom", "--csv", name],
            _ => &["oom", "--csv", name, "--limit", "100MiB"],
        };
        text += &transcript(root.path(), limited);
        text += &transcript(root.path(), &["leak", "--check", "--csv", name]);
    }
    insta::assert_snapshot!("other-tools", text);
}

#[test]
fn what_cannot_be_judged_is_said_in_a_sentence() {
    let root = tempfile::tempdir().unwrap();
    small_files(root.path());
    for (name, content) in [
        ("empty.csv", ""),
        ("header.csv", "t_s,rss_mb\n"),
        ("nan.csv", "t_s,rss_mb\n0,nan\n1,\n2,NaN\n"),
        ("words.csv", "t_s,rss_mb\n0,many\n"),
        ("percent.csv", "t_s,memory_percent\n0,10\n1,11\n"),
        ("backwards.csv", "t_s,rss_mb\n5,10\n4,11\n3,12\n2,13\n"),
        ("half.csv", "t_s,rss_mb,heap_mb\n0,1,\n1,nan,\n2,3,\n"),
    ] {
        std::fs::write(root.path().join(name), content).unwrap();
    }
    let mut text = String::new();
    for arguments in [
        &["oom"][..],
        &["oom", "--csv", "missing.csv"],
        &["oom", "--csv", "empty.csv"],
        &["oom", "--csv", "header.csv"],
        &["leak", "--csv", "nan.csv"],
        &["leak", "--csv", "words.csv"],
        &["oom", "--csv", "percent.csv"],
        &["oom", "--csv", "percent.csv", "--limit", "8GiB"],
        &["leak", "--csv", "backwards.csv"],
        &["leak", "--csv", "half.csv"],
        &["oom", "--csv", "flat.csv", "--column", "vms"],
        &["oom", "--csv", "flat.csv", "--unit", "acres"],
        &["oom", "--csv", "flat.csv", "--limit", "0"],
        &["oom", "--csv", "flat.csv", "--threshold", "0"],
        &["oom", "--csv", "flat.csv", "--threshold", "-5"],
        &["oom", "--csv", "flat.csv", "--threshold", "100.1"],
        &["oom", "--csv", "flat.csv", "--threshold", "nan"],
        &["leak", "--csv", "flat.csv", "--threshold", "0"],
        &["oom", "base", "--csv", "flat.csv"],
        &["oom", "--limit", "8GiB"],
    ] {
        text += &transcript(root.path(), arguments);
        text += "\n";
    }
    insta::assert_snapshot!("diagnosis-errors", text);
}

/// What a command's JSON says of the job's memory.
fn of_job(root: &Path, verb: &str, run: &str) -> (i32, Value) {
    let output = nilo(root, &[verb, run, "--format", "json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut each = answer["resources"].as_array().unwrap().iter();
    let job = each.find(|one| one["name"] == "job memory").unwrap();
    (output.status.code().unwrap(), job.clone())
}

fn text_of(root: &Path, verb: &str, run: &str) -> String {
    String::from_utf8(nilo(root, &[verb, run]).stdout).unwrap()
}
