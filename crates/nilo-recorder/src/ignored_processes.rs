//! Who may be in the job's cgroup without being another job: ourselves, the shell that waits for us, our helpers.

use std::collections::BTreeSet;

use nilo_source::{Roots, is_nilo_process, with_ancestors};

/// Processes that are not of the job, and no other job either.
pub(crate) struct IgnoredProcesses {
    /// Our own PID, our ancestors' and our helpers'.
    pids: BTreeSet<u32>,
    /// The sessions of our helpers, such as the process that delivers alerts.
    sessions: Vec<u32>,
    /// We are the job: whoever records us, and its helpers, are no other job.
    is_recorded: bool,
}

impl IgnoredProcesses {
    pub(crate) fn new(roots: &Roots, is_recorded: bool) -> IgnoredProcesses {
        IgnoredProcesses {
            pids: with_ancestors(roots, std::process::id()),
            sessions: Vec::new(),
            is_recorded,
        }
    }

    pub(crate) fn add_process(&mut self, pid: Option<u32>) {
        self.pids.extend(pid);
    }

    pub(crate) fn add_session(&mut self, session: Option<u32>) {
        self.sessions.extend(session);
    }

    pub(crate) fn contains(&self, roots: &Roots, pid: u32) -> bool {
        self.pids.contains(&pid)
            || self.is_recorded && is_nilo_process(roots, pid)
            || session_of(pid).is_some_and(|session| self.sessions.contains(&session))
    }
}

fn session_of(pid: u32) -> Option<u32> {
    // Not through rustix, which takes no 0: that is the answer for a session led from outside of our PID namespace.
    // SAFETY: a plain system call.
    let session = unsafe { libc::getsid(i32::try_from(pid).ok()?) };
    u32::try_from(session).ok().filter(|session| *session > 0)
}
