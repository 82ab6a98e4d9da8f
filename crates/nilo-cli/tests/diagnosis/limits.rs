//! Limits and thresholds: of the run, of a file, and given by hand.

use std::fmt::Write;

use serde_json::Value;

use super::{GIB, answer, growing_run, small_files};
use crate::command::nilo;
use crate::support::training_run;

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
    assert!(!of_column.contains("OOM Time: none"), "{of_column}");
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
