//! The job of `testdata/job`, laid out in a scratch folder and moved from one captured moment to the next.
//!
//! Moment 0: one process. 1: it has forked a worker. 2: it has grown. 3: the worker is gone.

use std::path::{Path, PathBuf};

use nilo_runfile::Update;
use nilo_sample::{Event, Subject, TypedRow};
use nilo_source::Roots;

/// The job's first process.
pub(crate) const JOB: u32 = 100;
/// The worker that it forks.
pub(crate) const WORKER: u32 = 101;
/// The cgroup that holds both, with a limit of 512 MiB.
pub(crate) const CGROUP: &str = "/nilo-capture";
pub(crate) const TENTH: u64 = 100_000_000;

/// A captured machine that can be changed.
pub(crate) struct CapturedJob {
    folder: tempfile::TempDir,
}

impl CapturedJob {
    pub(crate) fn at(moment: u32) -> CapturedJob {
        let job = CapturedJob {
            folder: tempfile::tempdir().unwrap(),
        };
        job.move_to(moment);
        // The driver's PIDs are ours only where this link says so.
        let namespace = job.folder.path().join("proc/self/ns/pid");
        std::fs::create_dir_all(namespace.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("pid:[4026531836]", namespace).unwrap();
        job
    }

    /// Everything is as it was captured at this moment. Files are written over, as a recorder keeps them open.
    pub(crate) fn move_to(&self, moment: u32) {
        let captured = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/job");
        let captured = captured.join(moment.to_string());
        copy(&captured, self.folder.path());
        for pid in [JOB, WORKER] {
            if !captured.join(format!("proc/{pid}")).exists() {
                self.end(pid);
            }
        }
    }

    /// A process is gone.
    pub(crate) fn end(&self, pid: u32) {
        std::fs::remove_dir_all(self.path(&format!("proc/{pid}"))).ok();
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots {
            proc: self.path("proc"),
            cgroup: self.path("cgroup"),
        }
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        std::fs::write(self.path(path), text).unwrap();
    }

    /// Writes a file of the job's cgroup.
    pub(crate) fn write_cgroup(&self, name: &str, text: &str) {
        self.write(&format!("cgroup/memory{CGROUP}/{name}"), text);
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    /// A number of the job's cgroup.
    pub(crate) fn cgroup(&self, name: &str) -> f64 {
        let text = self.read(&format!("cgroup/memory{CGROUP}/{name}"));
        text.trim().parse().unwrap()
    }

    /// Resident memory of a process by its `stat`, which is what is read of a process that does not run on this machine.
    pub(crate) fn rss_bytes(&self, pid: u32) -> f64 {
        let stat = self.read(&format!("proc/{pid}/stat"));
        let pages: f64 = stat.split(' ').nth(23).unwrap().parse().unwrap();
        pages * 4096.0
    }

    /// CPU time of a process by its `stat`, in which nothing before the times contains a space.
    pub(crate) fn cpu_nanos(&self, pid: u32) -> f64 {
        let stat = self.read(&format!("proc/{pid}/stat"));
        let ticks = stat.split(' ').skip(13).take(2);
        ticks.map(|text| text.parse::<f64>().unwrap() * 1e7).sum()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &place),
            false => std::fs::write(place, std::fs::read(entry.path()).unwrap()).unwrap(),
        }
    }
}

/// The rows about a subject, with their times.
pub(crate) fn rows<R: TypedRow>(update: &Update, subject: &Subject) -> Vec<(u64, R)> {
    let tables = update.tables.iter();
    let tables = tables.filter(|table| table.spec.subject == *subject);
    let rows = tables.flat_map(|table| table.times.iter().copied().zip(table.rows::<R>()));
    rows.collect()
}

/// The events, without their times.
pub(crate) fn events(update: &Update) -> Vec<&Event> {
    update.events.iter().map(|timed| &timed.event).collect()
}

/// The subject of the job's cgroup.
pub(crate) fn cgroup_subject() -> Subject {
    Subject::Cgroup {
        path: CGROUP.to_owned(),
    }
}
