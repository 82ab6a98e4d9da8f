//! How a run ended is told alike by every command: out of memory, refused memory, or without an exit code.

use std::path::Path;

use nilo_sample::rows::{GpuRow, ProcessRow};
use nilo_sample::{Event, Limit, LimitSource, ProcessId, TableSpec, UnhandledException};

use super::{GIB, stdout};
use crate::command::nilo_by_itself as nilo;
use crate::support::{Program, command_ended, create, record_memory, training_run};

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
    recorder.event(10.0, &command_ended(Some(1), None));
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
    assert!(listed.contains(" gpu-out-of-memory "), "{listed}");
    assert!(listed.contains(" exited 1 (RuntimeError) "), "{listed}");
    let shown = stdout(here, &["show", "cuda"]);
    let told =
        "GPU out of memory after 9.00 s: tried to allocate 20.00 GiB on the GPU; exited with 1";
    assert!(shown.contains(told), "{shown}");
    let compared = stdout(here, &["compare", "other", "cuda"]);
    assert!(compared.contains("gpu-out-of-memory"), "{compared}");
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
    recorder.event(4.0, &command_ended(Some(1), None));
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
    assert!(!request.contains("Current limit"), "{request}");
    let note = "refused was refused memory at RLIMIT_AS of 1.00 GiB: --mem does not raise that limit, `ulimit -v` does";
    assert!(request.contains(note), "{request}");
    let advice = stdout(here, &["optimize"]);
    let change =
        "change: ulimit -v 1572864 where it is set to 1048576 (more than 1011.36 MiB is needed";
    assert!(
        advice.contains(change) && advice.contains("it limits address space"),
        "{advice}"
    );
    assert!(!advice.contains("nilo request"), "{advice}");
    assert!(
        shown.contains("raise `ulimit -v` (1.00 GiB now)"),
        "{shown}"
    );
    let picture = stdout(here, &["plot", "-o", "-"]);
    assert!(!picture.contains("RLIMIT_AS"), "{picture}");
}

#[test]
fn an_end_without_an_exit_code_is_the_same_word_in_text_json_and_csv() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let folder = create(&here.join(".nilo"), "watched", "watch", 4);
    record_memory(&folder, 4);
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
