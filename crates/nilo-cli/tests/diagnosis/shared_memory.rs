//! `/dev/shm`: what fills it, and which part of it is the job's.

use std::path::Path;

use nilo_sample::TableSpec;
use nilo_sample::rows::{CgroupRow, HostRow};
use serde_json::json;

use super::{GIB, answer, text_of};
use crate::support::{Program, create};

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
    let share = "/dev/shm (this job's share): too short to detect a leak (available for the last sample only; ";
    assert!(text.contains(share), "{text}");
    let leak = answer(root, &["leak", "late"], 0);
    let mut each = leak["resources"].as_array().unwrap().iter();
    let shm = each.find(|one| one["name"] == "/dev/shm").unwrap();
    assert_eq!(shm["job_part_only"], true);
    let job = leak["resources"].as_array().unwrap().iter();
    let mut job = job.filter(|one| one["name"] == "job memory");
    assert_eq!(job.next().unwrap()["job_part_only"], false);
}
