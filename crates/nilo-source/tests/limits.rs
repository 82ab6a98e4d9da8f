//! Limits and cgroups in captured trees: one folder of `testdata/` for each kind of machine.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

use nilo_sample::limit::smallest;
use nilo_source::{CgroupReading, Host, MemoryCgroup, Roots, limiting_cgroup, resolve_limits};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const HOST_BYTES: u64 = 24_098_812 * 1024;
const PID: u32 = 100;

fn roots(case: &str) -> Roots {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(case);
    assert!(folder.is_dir(), "no such fixture: {case}");
    Roots {
        proc: folder.join("proc"),
        cgroup: folder.join("cgroup"),
    }
}

#[test]
fn the_smallest_limit_on_the_way_to_the_root_is_in_force() {
    for (case, bytes, source) in [
        ("v1-plain", 256 * MIB, "cgroup v1 /job"),
        // The task's own cgroup is unlimited.
        ("v1-slurm", 200 * MIB, "cgroup v1 /slurm/uid_0/job_3/step_0"),
        ("v1-docker", 512 * MIB, "cgroup v1 /docker/abc"),
        (
            "v2-systemd",
            8 * GIB,
            "cgroup v2 /user.slice/user-1000.slice",
        ),
        (
            "v2-kubernetes",
            4 * GIB,
            "cgroup v2 /kubepods.slice/kubepods-pod1.slice",
        ),
        ("v2-namespace", GIB, "cgroup v2 /"),
        ("v2-leaf-without-memory", 3 * MIB, "cgroup v2 /a"),
        ("hybrid", 128 * MIB, "RLIMIT_AS"),
        ("no-mountinfo", 99 * MIB, "cgroup v1 /job"),
        ("no-cgroup", HOST_BYTES, "host memory"),
    ] {
        let limit = smallest(resolve_limits(&roots(case), PID)).unwrap();
        assert_eq!(
            (limit.bytes, limit.source.to_string().as_str()),
            (bytes, source),
            "{case}"
        );
    }
}

#[test]
fn every_finite_limit_is_listed() {
    let listed = |case: &str| -> Vec<String> {
        resolve_limits(&roots(case), PID)
            .into_iter()
            .map(|limit| format!("{} {}", limit.source, limit.bytes / MIB))
            .collect()
    };
    assert_eq!(
        listed("v1-slurm"),
        [
            "cgroup v1 /slurm/uid_0/job_3/step_0 200",
            "cgroup v1 /slurm/uid_0/job_3 210",
            "host memory 23533",
        ]
    );
    assert_eq!(
        listed("hybrid"),
        [
            "cgroup v1 /job 256",
            "cgroup v2 /user 300",
            "host memory 23533",
            "RLIMIT_AS 128",
        ]
    );
    assert!(listed("garbage").is_empty());
    // A process that is not there has the machine's limit only.
    assert_eq!(resolve_limits(&roots("v1-slurm"), 7).len(), 1);
}

#[test]
fn the_cgroup_that_limits_is_the_one_with_the_smallest_limit() {
    let mut cgroup = limiting_cgroup(&roots("v1-slurm"), PID).unwrap();
    assert_eq!(cgroup.path(), "/slurm/uid_0/job_3/step_0");
    // Version 1 counts a kill where the victim was: in the task below.
    assert_eq!(cgroup.read(true).oom_kills, Some(1));
    assert_eq!(
        limiting_cgroup(&roots("v2-systemd"), PID).unwrap().path(),
        "/user.slice/user-1000.slice"
    );
    assert!(limiting_cgroup(&roots("no-cgroup"), PID).is_none());
}

#[test]
fn a_version_one_cgroup_is_read() {
    let mut cgroup = MemoryCgroup::of_process(&roots("v1-plain"), PID)
        .unwrap()
        .unwrap();
    assert_eq!((cgroup.path(), cgroup.version()), ("/job", 1));
    assert_eq!(
        cgroup.read(true),
        CgroupReading {
            usage_bytes: Some(261 * MIB),
            // 240 MiB of it are file pages that nobody uses.
            working_set_bytes: Some(21 * MIB),
            peak_bytes: Some(262 * MIB),
            limit_bytes: Some(256 * MIB),
            anon_bytes: Some(14 * MIB),
            file_bytes: Some(241 * MIB),
            shmem_bytes: Some(MIB),
            swap_bytes: Some(0),
            oom_kills: Some(1),
            limit_hits: None,
        }
    );
    let quick = cgroup.read(false);
    assert_eq!(quick.usage_bytes, Some(261 * MIB));
    assert_eq!((quick.working_set_bytes, quick.anon_bytes), (None, None));
}

#[test]
fn a_version_two_cgroup_is_read() {
    let mut cgroup = MemoryCgroup::of_process(&roots("v2-systemd"), PID)
        .unwrap()
        .unwrap();
    assert_eq!(cgroup.version(), 2);
    assert_eq!(
        cgroup.read(true),
        CgroupReading {
            usage_bytes: Some(95 * MIB),
            working_set_bytes: Some(85 * MIB),
            peak_bytes: Some(100 * MIB),
            limit_bytes: None,
            anon_bytes: Some(60 * MIB),
            file_bytes: Some(30 * MIB),
            shmem_bytes: Some(15 * MIB),
            swap_bytes: Some(7 * MIB),
            oom_kills: Some(3),
            limit_hits: Some(35),
        }
    );
    assert!(cgroup.oom_notice().unwrap().is_some());
}

#[test]
fn a_kernel_without_a_peak_has_none() {
    let mut cgroup = MemoryCgroup::of_process(&roots("v2-kubernetes"), PID)
        .unwrap()
        .unwrap();
    assert_eq!(cgroup.read(true).peak_bytes, None);
}

#[test]
fn the_nearest_cgroup_that_accounts_for_memory_is_taken() {
    let cgroup = MemoryCgroup::of_process(&roots("v2-leaf-without-memory"), PID)
        .unwrap()
        .unwrap();
    assert_eq!(cgroup.path(), "/a");
}

#[test]
fn without_cgroups_there_is_none() {
    assert!(
        MemoryCgroup::of_process(&roots("no-cgroup"), PID)
            .unwrap()
            .is_none()
    );
    assert!(MemoryCgroup::of_process(&roots("no-cgroup"), 7).is_err());
}

#[test]
fn garbage_is_absent_and_not_zero() {
    let mut cgroup = MemoryCgroup::of_process(&roots("garbage"), PID)
        .unwrap()
        .unwrap();
    assert_eq!(cgroup.read(true), CgroupReading::default());
    let reading = Host::new(&roots("garbage")).unwrap().read();
    assert_eq!(reading.total_bytes, None);
}

#[test]
fn who_is_in_the_cgroup_decides_whose_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("memory.current", "1\n");
    write("cgroup.procs", "10\n11\n");
    write("below/deeper/cgroup.procs", "12\n");
    let cgroup = MemoryCgroup::at(folder.path(), "/x", 2).unwrap();
    assert_eq!(cgroup.owned_by(&|pid| (10..=12).contains(&pid)), Some(true));
    assert_eq!(
        cgroup.owned_by(&|pid| (10..=11).contains(&pid)),
        Some(false)
    );
    // A process that our namespace does not show.
    write("below/cgroup.procs", "0\n");
    assert_eq!(
        cgroup.owned_by(&|pid| (10..=12).contains(&pid)),
        Some(false)
    );
    std::fs::remove_file(folder.path().join("cgroup.procs")).unwrap();
    assert_eq!(cgroup.owned_by(&|_| true), None);
}

#[test]
fn limits_of_this_very_process_include_the_machine() {
    let limits = resolve_limits(&Roots::default(), std::process::id());
    let limit = smallest(limits.clone()).unwrap();
    assert!(limit.bytes > MIB);
    assert!(
        limits
            .iter()
            .any(|limit| limit.source.to_string() == "host memory")
    );
}
