//! A real cgroup of version 1, with a real OOM kill in it.
//!
//! Where cgroups may not be made, the tests say so and pass, but fail under `CI=true`.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

mod support;

use std::path::{Path, PathBuf};

use nilo_sample::limit::smallest;
use nilo_source::{MemoryCgroup, Roots, kernel_log, limiting_cgroup, resolve_limits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use support::Job;

const MIB: u64 = 1 << 20;

/// A cgroup of our own with one below it, removed at the end.
struct TestCgroup {
    folder: PathBuf,
}

impl TestCgroup {
    fn make(name: &str, limit_bytes: u64) -> Option<TestCgroup> {
        let mount = Path::new("/sys/fs/cgroup/memory");
        remove_abandoned(mount);
        let folder = mount.join(format!("nilo-test-{}-{name}", std::process::id()));
        let made = std::fs::create_dir_all(folder.join("task")).and_then(|()| {
            std::fs::write(
                folder.join("memory.limit_in_bytes"),
                limit_bytes.to_string(),
            )
        });
        match made {
            Ok(()) => Some(TestCgroup { folder }),
            Err(error) if std::env::var_os("CI").is_some() => {
                panic!("cgroup v1 memory must be writable in CI: {error}")
            }
            Err(error) => {
                eprintln!("not tested, no writable cgroup v1: {error}");
                None
            }
        }
    }

    /// Starts Python code in the cgroup below.
    fn run(&self, code: &str) -> Job {
        let procs = self.folder.join("task/cgroup.procs");
        let script = format!("echo 0 > {}; exec python3 -c '{code}'", procs.display());
        Job::sh(&script)
    }
}

/// Removes those of test processes that were killed before they could do it; one that is not empty stays.
fn remove_abandoned(mount: &Path) {
    for entry in std::fs::read_dir(mount).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name
            .strip_prefix("nilo-test-")
            .and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_dir(entry.path().join("task"));
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        // The kernel needs a moment to let go of what was killed.
        for _ in 0..100 {
            let _ = std::fs::remove_dir(self.folder.join("task"));
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_job_in_a_cgroup_is_read_and_owned() {
    let Some(cgroup) = TestCgroup::make("read", 256 * MIB) else {
        return;
    };
    let mut job = cgroup.run(
        "import sys; b = bytearray(b\"x\") * (80 << 20); print(1, flush=True); sys.stdin.read()",
    );
    job.hear();
    // The kernel gathers its counters in batches: a job of 80 MiB may read as a little less.
    let roots = Roots::default();
    let limit = smallest(resolve_limits(&roots, job.pid())).unwrap();
    assert_eq!(limit.bytes, 256 * MIB);
    let mut limiting = limiting_cgroup(&roots, job.pid()).unwrap();
    assert!(limit.source.to_string().ends_with(limiting.path()));
    let mut own = MemoryCgroup::of_process(&roots, job.pid())
        .unwrap()
        .unwrap();
    assert!(own.path().ends_with("/task"));
    for reading in [own.read(true), limiting.read(true)] {
        assert!(reading.usage_bytes.unwrap() > 64 * MIB);
        assert!(reading.working_set_bytes.unwrap() > 64 * MIB);
        assert!(reading.peak_bytes >= reading.usage_bytes.map(|_| 64 * MIB));
        assert!(reading.anon_bytes.unwrap() > 64 * MIB);
        assert_eq!(reading.oom_kills, Some(0));
    }
    assert_eq!(own.read(true).limit_bytes, None);
    assert_eq!(limiting.read(true).limit_bytes, Some(256 * MIB));
    let pid = job.pid();
    for cgroup in [&own, &limiting] {
        assert_eq!(cgroup.owned_by(&|other| other == pid), Some(true));
        assert_eq!(cgroup.owned_by(&|_| false), Some(false));
    }
}

#[test]
fn an_oom_kill_is_announced_counted_and_in_the_log() {
    let Some(cgroup) = TestCgroup::make("oom", 48 * MIB) else {
        return;
    };
    let mut job = cgroup.run("import sys; print(1, flush=True); sys.stdin.readline(); b = bytearray(b\"x\") * (200 << 20)");
    job.hear();
    let roots = Roots::default();
    let mut limiting = limiting_cgroup(&roots, job.pid()).unwrap();
    let notice = limiting.oom_notice().unwrap().unwrap();
    assert_eq!(limiting.read(true).oom_kills, Some(0));
    let before = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    job.tell("go");
    let mut wait = [PollFd::new(&notice, PollFlags::IN)];
    let patience = Timespec {
        tv_sec: 30,
        tv_nsec: 0,
    };
    assert_eq!(poll(&mut wait, Some(&patience)).unwrap(), 1);
    let status = job.wait();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9)
    );
    // Counted in the cgroup below, where the victim was, and seen from the one that holds the limit.
    assert_eq!(limiting.read(true).oom_kills, Some(1));
    assert_eq!(limiting.read(false).oom_kills, Some(1));
    // The count stays when the task's cgroup is removed.
    std::fs::remove_dir(cgroup.folder.join("task")).unwrap();
    assert_eq!(limiting.read(true).oom_kills, Some(1));

    // The kernel's clock differs a little from the monotonic one.
    let since = (before.tv_sec.unsigned_abs() * 1_000_000_000).saturating_sub(2_000_000_000);
    let kills = match kernel_log::oom_kills_since(since) {
        Ok(kills) => kills,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            eprintln!("the kernel's log was not tested: {error}");
            return;
        }
    };
    let kill = kills.iter().find(|kill| kill.pid == job.pid()).unwrap();
    assert_eq!(kill.constraint, "CONSTRAINT_MEMCG");
    assert_eq!(kill.oom_memcg.as_deref(), Some(limiting.path()));
    assert!(kill.task_memcg.as_deref().unwrap().ends_with("/task"));
    assert!(kernel_log::oom_kills_since(u64::MAX).unwrap().is_empty());
}
