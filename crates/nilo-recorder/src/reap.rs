//! Collecting children that ended: the command itself and the orphans that fell to us.

use std::collections::HashMap;
use std::io;

use nilo_sample::ResourceUsage;
use nilo_source::{Roots, own_children};

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reaped {
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// What it used, and every child that it waited for.
    pub(crate) usage: ResourceUsage,
    /// The largest resident set of it or of any child that it waited for.
    pub(crate) max_rss_bytes: u64,
}

/// Those collected and not yet asked for.
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    ended: HashMap<u32, Reaped>,
    largest_rss_bytes: u64,
    /// Children that we had before the job: those of a shell that became us by `exec`, and as a container's first process our own helpers.
    strangers: Vec<u32>,
}

/// Who is left of our children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemainingChildren {
    Somebody,
    Nobody,
}

impl Reaper {
    /// To be called before the command is started.
    pub(crate) fn new() -> Reaper {
        Reaper {
            strangers: own_children(&Roots::default()),
            ..Reaper::default()
        }
    }

    /// Whether every process of the job has ended, daemons included.
    ///
    /// This needs no list of them: whoever lost its parent is our child, and whoever has one lives below our children.
    pub(crate) fn all_ended(&mut self) -> bool {
        match self.collect() {
            RemainingChildren::Nobody => true,
            RemainingChildren::Somebody if self.strangers.is_empty() => false,
            RemainingChildren::Somebody => own_children(&Roots::default())
                .iter()
                .all(|child| self.strangers.contains(child)),
        }
    }

    /// Waits, without blocking, for every child that has ended.
    pub(crate) fn collect(&mut self) -> RemainingChildren {
        loop {
            let mut status = 0;
            // SAFETY: wait4 fills the two structures, for which zero is a valid state.
            let (pid, usage) = unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                (
                    libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage),
                    usage,
                )
            };
            if pid <= 0 {
                let error = io::Error::last_os_error().raw_os_error();
                return match pid < 0 && error == Some(libc::ECHILD) {
                    true => RemainingChildren::Nobody,
                    false => RemainingChildren::Somebody,
                };
            }
            let exited = libc::WIFEXITED(status);
            let max_rss_bytes = usage.ru_maxrss.max(0) as u64 * maxrss_unit();
            if !self.strangers.contains(&(pid as u32)) {
                self.largest_rss_bytes = self.largest_rss_bytes.max(max_rss_bytes);
            }
            self.ended.insert(
                pid as u32,
                Reaped {
                    exit_code: exited.then(|| libc::WEXITSTATUS(status)),
                    signal: (!exited).then(|| libc::WTERMSIG(status)),
                    usage: usage_of(&usage),
                    max_rss_bytes,
                },
            );
        }
    }

    /// The largest resident set of any process of the job that we collected, or that one of these had waited for.
    ///
    /// Whichever program it ran then, these were pages of the job.
    pub(crate) fn largest_rss_bytes(&self) -> u64 {
        self.largest_rss_bytes
    }

    pub(crate) fn get(&self, pid: u32) -> Option<Reaped> {
        self.ended.get(&pid).copied()
    }

    /// Forgets one, so that a long job with many orphans does not grow us.
    pub(crate) fn take(&mut self, pid: u32) -> Option<Reaped> {
        self.ended.remove(&pid)
    }
}

/// `ru_maxrss` is in kibibytes on Linux and in bytes on macOS.
fn maxrss_unit() -> u64 {
    if cfg!(target_os = "macos") { 1 } else { 1024 }
}

/// The kernel counts I/O in blocks of this size, whatever the file system's are.
const BLOCK_BYTES: u64 = 512;

fn usage_of(usage: &libc::rusage) -> ResourceUsage {
    let count = |number: libc::c_long| number.max(0) as u64;
    ResourceUsage {
        user_nanos: nanos_of(usage.ru_utime),
        system_nanos: nanos_of(usage.ru_stime),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        read_bytes: count(usage.ru_inblock) * BLOCK_BYTES,
        written_bytes: count(usage.ru_oublock) * BLOCK_BYTES,
    }
}

fn nanos_of(time: libc::timeval) -> u64 {
    time.tv_sec.max(0) as u64 * 1_000_000_000 + time.tv_usec.max(0) as u64 * 1000
}
