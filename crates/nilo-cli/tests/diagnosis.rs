//! `nilo oom` and `nilo leak` on made-up runs, on small files and on recordings of other tools, as transcripts.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "support/command.rs"]
mod command;
mod support;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use command::{nilo, transcript};
use nilo_sample::TableSpec;
use nilo_sample::rows::{CgroupRow, GpuRow, HostRow};
use serde_json::{Value, json};
use support::{Program, create, training_run};

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
    let ended = nilo_sample::Event::CommandEnded {
        cpu_nanos: None,
        peak_bytes: None,
        exit_code: Some(0),
        signal: None,
    };
    recorder.event(600.0, &ended);
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

/// The run's own limit is 4 GiB; its rows are there every second, as in its export.
#[test]
fn a_limit_given_by_hand_holds_for_a_run_as_for_its_export() {
    let root = tempfile::tempdir().unwrap();
    growing_run(root.path());
    let exported = nilo(root.path(), &["export", "growing", "-o", "growing.csv"]);
    assert!(exported.status.success(), "{exported:?}");
    let given = ["--limit", "8GiB"];
    let of_memory = |verb: &str, source: &[&str], status: i32, name: &str| {
        let answer = answer(root.path(), &[&[verb], source, &given].concat(), status);
        let mut each = answer["resources"].as_array().unwrap().iter();
        each.find(|one| one["name"] == name).unwrap().clone()
    };
    let file = ["--csv", "growing.csv", "--column", "memory_mb"];
    // The GPU of the run warns by itself.
    let run = of_memory("oom", &["growing"], 1, "job memory");
    let csv = of_memory("oom", &file, 0, "memory_mb");
    for figure in ["limit_bytes", "level", "warned", "cause"] {
        assert_eq!(run[figure], csv[figure], "{figure}");
    }
    let near = |figure: &str| {
        let of = |memory: &Value| memory[figure].as_f64().unwrap();
        assert!((of(&run) / of(&csv) - 1.0).abs() < 0.01, "{figure}");
    };
    near("used_percent");
    near("predicted_secs");
    assert_eq!(run["limit_bytes"], 8.0 * GIB);
    let leak = of_memory("leak", &["growing"], 1, "job memory");
    assert_eq!(leak["limit_bytes"], 8.0 * GIB);
    // Below what the run held, the limit is wrong; both say so.
    let too_low = ["oom", "growing", "--limit", "2GiB"];
    let job = &answer(root.path(), &too_low, 1)["resources"][0];
    let reason = job["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("the recording is above the limit that was given"),
        "{reason}"
    );
}

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
        told.ends_with(": too short to tell whether it would go on"),
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

/// The limit of an export is that of the cgroup, of which the job's memory counts pages that are charged elsewhere.
#[test]
fn a_file_with_a_limit_of_its_own_is_not_blamed_on_an_option() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let columns = "timestamp_seconds,memory_mb,cpu_percent,rss_mb,high_water_mb,swap_mb,processes,cgroup_working_set_mb,cgroup_limit_mb,host_available_mb,marks,ending";
    let mut text = format!("{columns}\n");
    for second in 0..20 {
        let level = 13.0 * f64::from(second) + 9.0;
        let (memory, charged) = (level + 4.0, level - 1.0);
        writeln!(
            text,
            "{second},{memory},0,{memory},,0,1,{charged},256,20000,,"
        )
        .unwrap();
    }
    std::fs::write(root.join("killed.csv"), text).unwrap();
    let said = |arguments: &[&str]| {
        let output = nilo(root, arguments);
        String::from_utf8(output.stdout).unwrap()
    };
    let of_column = said(&["oom", "--csv", "killed.csv"]);
    assert!(!of_column.contains("--limit"), "{of_column}");
    let reason =
        "Reason: 101.6% is above the threshold of 85%; memory_mb is above its limit already";
    assert!(of_column.contains(reason), "{of_column}");
    assert!(!of_column.contains("not in sight"), "{of_column}");
    let given = said(&["oom", "--csv", "killed.csv", "--limit", "200MiB"]);
    assert!(given.contains("check --limit and --unit"), "{given}");
}

#[test]
fn options_of_a_file_are_refused_for_a_run() {
    let root = tempfile::tempdir().unwrap();
    growing_run(root.path());
    for arguments in [
        &["oom", "growing", "--column", "rss"][..],
        &["leak", "growing", "--unit", "mb"],
        &["leak", "--pid", "1", "--unit", "mb"],
        &["oom", "--monitor", "--column", "rss"],
        &["oom", "--pid", "1", "--limit", "2GiB"],
    ] {
        let output = nilo(root.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("cannot be used with"), "{said}");
    }
}

#[test]
fn a_run_without_any_limit_is_looked_at_for_leaks_all_the_same() {
    let root = tempfile::tempdir().unwrap();
    training_run(&root.path().join("runs"), "base", 4.0);
    let oom = answer(root.path(), &["oom"], 0);
    let resources = oom["resources"].as_array().unwrap();
    let job = resources.iter().find(|one| one["name"] == "job memory");
    assert_eq!(job.unwrap()["limit_bytes"], Value::Null);
    let leak = answer(root.path(), &["leak"], 0);
    assert_eq!(leak["resources"].as_array().unwrap().len(), resources.len());
}

#[test]
fn the_threshold_alone_warns_and_a_higher_one_does_not() {
    let root = tempfile::tempdir().unwrap();
    small_files(root.path());
    let flat = ["oom", "--csv", "flat.csv", "--limit", "1700MiB"];
    let warned = answer(root.path(), &flat, 1);
    assert_eq!(warned["resources"][0]["level"], "high");
    assert_eq!(warned["level"], "high");
    assert_eq!(warned["resources"][0]["warned"], true);
    answer(
        root.path(),
        &[&flat[..], &["--threshold", "90"]].concat(),
        0,
    );
    answer(
        root.path(),
        &[&flat[..], &["--threshold", "100"]].concat(),
        0,
    );
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

/// A run of ten minutes that stands still while `/dev/shm` fills by `rate` GiB a second; `own` is what its own cgroup has of that.
fn run_beside_shared_memory(root: &Path, name: &str, own: bool, rate: f64) {
    let folder = create(&root.join("runs"), name, "run", 600);
    let mut recorder = Program::in_run(&folder, "recorder");
    for second in 0..600 {
        let secs = f64::from(second);
        let filled = (0.1 + rate * secs) * GIB;
        if own {
            let row = CgroupRow {
                usage_bytes: GIB + filled,
                working_set_bytes: GIB + filled,
                anon_bytes: GIB,
                shmem_bytes: filled,
                file_bytes: filled,
                owned: 1.0,
                ..CgroupRow::ABSENT
            };
            recorder.row(&TableSpec::cgroup("/job_1"), secs, None, row);
        }
        let row = HostRow {
            total_bytes: 64.0 * GIB,
            available_bytes: 60.0 * GIB,
            shm_total_bytes: 8.0 * GIB,
            shm_used_bytes: filled,
            ..HostRow::ABSENT
        };
        recorder.row(&TableSpec::host(), secs, None, row);
        recorder.tree(secs, GIB, secs * 1e9);
    }
}

#[test]
fn what_fills_dev_shm_is_the_jobs_leak_only_with_evidence() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    run_beside_shared_memory(root, "stranger", false, 0.002);
    let leak = answer(root, &["leak", "stranger"], 0);
    assert_eq!(leak["leak"], false);
    let shown = answer(root, &["show", "stranger"], 0);
    assert_eq!(shown["findings"], json!([]));
    run_beside_shared_memory(root, "own", true, 0.002);
    let leak = answer(root, &["leak", "own"], 1);
    assert_eq!(leak["resources"][0]["name"], "/dev/shm");
    let text = text_of(root, "leak", "own");
    assert!(
        text.contains("/dev/shm (this job's share): leaks 123 MiB/min"),
        "{text}"
    );
    // It has one name, whether or not the job's share of it is known.
    for (name, own) in [("theirs", false), ("still", true)] {
        run_beside_shared_memory(root, name, own, 0.0);
        let text = text_of(root, "leak", name);
        assert!(text.contains("\n/dev/shm: no lasting growth"), "{text}");
    }
}

/// The kernel was asked late which part of `/dev/shm` is the job's.
#[test]
fn a_part_that_is_known_for_a_moment_is_not_said_to_be_watched_for_less_than_it_was() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let folder = create(&root.join("runs"), "late", "run", 40);
    let mut recorder = Program::in_run(&folder, "recorder");
    for second in 0..40 {
        let secs = f64::from(second);
        if second == 38 {
            let row = CgroupRow {
                usage_bytes: GIB,
                working_set_bytes: GIB,
                shmem_bytes: 0.1 * GIB,
                file_bytes: 0.1 * GIB,
                owned: 1.0,
                ..CgroupRow::ABSENT
            };
            recorder.row(&TableSpec::cgroup("/job_1"), secs, None, row);
        }
        let row = HostRow {
            total_bytes: 64.0 * GIB,
            available_bytes: 60.0 * GIB,
            shm_total_bytes: 8.0 * GIB,
            shm_used_bytes: 0.1 * GIB,
            ..HostRow::ABSENT
        };
        recorder.row(&TableSpec::host(), secs, None, row);
        recorder.tree(secs, GIB, secs * 1e9);
    }
    drop(recorder);
    let text = text_of(root, "leak", "late");
    let share = "/dev/shm (this job's share): too short to detect a leak (it is known of the last sample only; ";
    assert!(text.contains(share), "{text}");
    let leak = answer(root, &["leak", "late"], 0);
    let mut each = leak["resources"].as_array().unwrap().iter();
    let shm = each.find(|one| one["name"] == "/dev/shm").unwrap();
    assert_eq!(shm["job_part_only"], true);
    let job = leak["resources"].as_array().unwrap().iter();
    let mut job = job.filter(|one| one["name"] == "job memory");
    assert_eq!(job.next().unwrap()["job_part_only"], false);
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

/// The level stays above the threshold after the growth that was foretold has stopped.
#[test]
fn a_prediction_that_was_taken_back_does_not_clear_the_warning_above_it() {
    let root = tempfile::tempdir().unwrap();
    run_of(root.path(), "filled", 900, |secs| {
        0.5 + 0.006 * secs.min(550.0)
    });
    let text = text_of(root.path(), "oom", "filled");
    assert!(text.contains("[WARNING] OOM Warning: job memory"), "{text}");
    assert!(text.contains("; taken back at 00:"), "{text}");
    assert!(!text.contains("cleared"), "{text}");
    assert!(
        text.ends_with("whether or not anybody was alerted; `nilo show` lists the alerts.\n"),
        "{text}"
    );
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
