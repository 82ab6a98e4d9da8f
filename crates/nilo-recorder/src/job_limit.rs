//! The limit in force for the job, looked up again and again: jobs move, and limits are changed under them.

use nilo_runfile::RowSink;
use nilo_sample::limit::smallest;
use nilo_sample::{Event, Limit};
use nilo_source::{Roots, TrackedProcess, resolve_limits};

use crate::job_cgroups::LimitedProcess;

/// The limit of the job.
pub(crate) struct JobLimit {
    limit: Option<Limit>,
    /// A larger limit seen on the last look only.
    looser: Option<Limit>,
    /// Processes that were named one by one: each may have a limit of its own.
    named: Vec<u32>,
}

impl JobLimit {
    pub(crate) fn new(roots: &Roots, first_pid: u32) -> JobLimit {
        JobLimit {
            limit: smallest(resolve_limits(roots, first_pid)),
            looser: None,
            named: Vec::new(),
        }
    }

    /// These processes were named one by one. Limits that not all of them share hold for their own cgroups only.
    pub(crate) fn watch_named(&mut self, roots: &Roots, pids: &[u32]) {
        self.named = pids.to_vec();
        self.limit = shared_limit(roots, pids);
    }

    pub(crate) fn get(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    /// The processes whose limits count: of several that were named those that live, else the one in which the job mostly is.
    pub(crate) fn limited(&self, main: LimitedProcess, processes: &[TrackedProcess]) -> Vec<u32> {
        let is_alive = |pid: &u32| processes.iter().any(|process| process.id.pid == *pid);
        let named = self.named.iter().copied().filter(is_alive);
        let named: Vec<u32> = named.filter(|_| self.named.len() > 1).collect();
        match main {
            _ if !named.is_empty() => named,
            LimitedProcess::Of(pid) => vec![pid],
            LimitedProcess::AsBefore => Vec::new(),
        }
    }

    /// Looks the limit up again, and writes down when it is another one.
    ///
    /// A dying process already counts as a member of the root cgroup, so a looser limit must be seen twice.
    pub(crate) fn look_up(
        &mut self,
        roots: &Roots,
        writer: &mut dyn RowSink,
        now_nanos: u64,
        limited: &[u32],
    ) {
        let found = shared_limit(roots, limited);
        let Some(limit) = found.filter(|limit| Some(limit) != self.limit.as_ref()) else {
            self.looser = None;
            return;
        };
        let known = self.limit.as_ref();
        let is_looser = known.is_some_and(|known| limit.bytes > known.bytes);
        if is_looser && self.looser.as_ref() != Some(&limit) {
            self.looser = Some(limit);
            return;
        }
        self.limit = Some(limit);
        self.looser = None;
        let limit = self.limit.clone();
        writer.event(now_nanos, &Event::LimitChanged { limit });
    }
}

/// The smallest limit that holds for all of these processes together.
fn shared_limit(roots: &Roots, pids: &[u32]) -> Option<Limit> {
    let mut shared: Option<Vec<Limit>> = None;
    for pid in pids {
        let limits = resolve_limits(roots, *pid);
        // A process that has just ended has none.
        if limits.is_empty() {
            continue;
        }
        match &mut shared {
            None => shared = Some(limits),
            Some(shared) => shared.retain(|limit| limits.contains(limit)),
        }
    }
    smallest(shared.unwrap_or_default())
}
