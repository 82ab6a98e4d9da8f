//! What lies around the job: its cgroups (`cgroup_rows.rs`), the limit in force (`job_limit.rs`), the machine (`host_rows.rs`), GPUs (`gpu_rows.rs`). Here is the timetable by which they are looked at.
//!
//! A job may move itself into another cgroup after its start; processes are looked at again now and then.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

use nilo_runfile::RowSink;
use nilo_sample::{Limit, LimitSource, ProcessId};
use nilo_source::{
    MemoryCgroup, ProcessFile, Roots, TrackedProcess, limiting_cgroup, with_ancestors,
};
use rustix::event::PollFlags;

use crate::cgroup_rows::CgroupRows;
use crate::gpu_rows::GpuRows;
use crate::host_rows::HostRows;
use crate::ignored_processes::IgnoredProcesses;
use crate::job_cgroups::{JobCgroups, LimitedProcess};
use crate::job_limit::JobLimit;

const SECOND: u64 = 1_000_000_000;
/// Cheap counters of a cgroup are read at most this often, all of them once a second.
const QUICK_NANOS: u64 = 10_000_000;
/// The machine's own figures take four files.
const HOST_NANOS: u64 = 2 * SECOND;
/// ... and are read at most this often where the machine is all that is watched.
const HOST_ALONE_NANOS: u64 = SECOND / 10;
/// Limits are looked up again this often, and at once when the job moves or a watched limit changes.
const RESOLVE_NANOS: u64 = 5 * SECOND;
/// Whether the job moved or limited itself is asked this often; in the first seconds faster, while jobs do so.
const MEMBERSHIP_NANOS: u64 = SECOND;
const MEMBERSHIP_EARLY_NANOS: u64 = SECOND / 20;
const EARLY_NANOS: u64 = 2 * SECOND;
/// Who else is in the cgroup is asked this often: the list can be long.
const OWNED_NANOS: u64 = 5 * SECOND;

/// The job's surroundings.
pub(crate) struct Surroundings {
    roots: Roots,
    started_nanos: u64,
    cgroups: CgroupRows,
    job_cgroups: JobCgroups,
    limit: JobLimit,
    host: HostRows,
    gpus: GpuRows,
    ignored: IgnoredProcesses,
    membership: ProcessFile,
    own_limits: ProcessFile,
    next_quick: u64,
    next_slow: u64,
    next_host: u64,
    next_resolve: u64,
    next_membership: u64,
    next_owned: u64,
    /// Who stands for the machine where no process is watched: ourselves.
    machine_pid: Option<u32>,
    host_alone_nanos: u64,
}

impl Surroundings {
    pub(crate) fn new(roots: Roots, now_nanos: u64, first_pid: u32) -> Surroundings {
        let gpus = GpuRows::new(&roots, now_nanos, first_pid);
        let ignored = IgnoredProcesses::new(&roots, false);
        Surroundings::with(roots, now_nanos, first_pid, gpus, ignored)
    }

    /// Of a program that looks at itself: without GPUs, and perhaps recorded by `nilo run`.
    pub(crate) fn of_own_process(roots: Roots, now_nanos: u64, pid: u32) -> Surroundings {
        let gpus = GpuRows::none(&roots, now_nanos, pid);
        let ignored = IgnoredProcesses::new(&roots, true);
        Surroundings::with(roots, now_nanos, pid, gpus, ignored)
    }

    fn with(
        roots: Roots,
        now_nanos: u64,
        first_pid: u32,
        gpus: GpuRows,
        ignored: IgnoredProcesses,
    ) -> Surroundings {
        Surroundings {
            limit: JobLimit::new(&roots, first_pid),
            host: HostRows::new(&roots),
            roots,
            started_nanos: now_nanos,
            cgroups: CgroupRows::default(),
            job_cgroups: JobCgroups::default(),
            gpus,
            ignored,
            membership: ProcessFile::cgroups(),
            own_limits: ProcessFile::limits(),
            next_quick: 0,
            next_slow: 0,
            next_host: 0,
            next_resolve: 0,
            next_membership: 0,
            next_owned: 0,
            machine_pid: None,
            host_alone_nanos: HOST_ALONE_NANOS,
        }
    }

    /// No process is watched: the cgroup and the limit are our own, and nobody's share of a GPU is asked for.
    pub(crate) fn watch_host_only(&mut self) {
        self.machine_pid = Some(std::process::id());
        self.gpus.watch_host_only();
    }

    pub(crate) fn is_of_machine(&self) -> bool {
        self.machine_pid.is_some()
    }

    /// These processes were named one by one. Limits that not all of them share hold for their own cgroups only.
    pub(crate) fn watch_named(&mut self, pids: &[u32]) {
        self.limit.watch_named(&self.roots, pids);
    }

    /// Reads the GPUs this often, and the machine where it is all that is looked at.
    pub(crate) fn read_every(&mut self, nanos: u64) {
        self.gpus.read_every(nanos);
        self.host_alone_nanos = nanos - nanos / 4;
    }

    /// Records these GPUs, whoever uses them.
    pub(crate) fn choose_gpus(&mut self, indices: Option<Vec<u32>>) {
        self.gpus.choose(indices);
    }

    /// How often the host was read.
    pub(crate) fn host_readings(&self) -> u64 {
        self.host.readings()
    }

    /// How often each GPU was read, by its index.
    pub(crate) fn gpu_readings(&self) -> impl Iterator<Item = (u32, u64)> {
        self.gpus.readings()
    }

    /// What new programs could get on this machine at the last look.
    pub(crate) fn available_bytes(&self) -> Option<u64> {
        self.host.available_bytes()
    }

    /// Processes of this session are ours, though they are no part of the job.
    pub(crate) fn ignore_session(&mut self, session: Option<u32>) {
        self.ignored.add_session(session);
    }

    /// A process of the job became another program, and may have moved into another cgroup before.
    pub(crate) fn has_exec(&mut self, id: ProcessId) {
        self.job_cgroups.ask_again(id);
    }

    /// This process is ours, though it is no part of the job.
    pub(crate) fn add_helper(&mut self, pid: Option<u32>) {
        self.ignored.add_process(pid);
    }

    pub(crate) fn limit(&self) -> Option<&Limit> {
        self.limit.get()
    }

    /// What is held of a cgroup's limit, as last read; file pages that the kernel can drop do not count.
    pub(crate) fn held_of_limit_bytes(&self) -> Option<u64> {
        match &self.limit.get()?.source {
            LimitSource::Cgroup { path, .. } => self.cgroups.held_bytes(path),
            _ => None,
        }
    }

    /// CPU time that threads of our own have taken.
    pub(crate) fn helper_cpu_nanos(&self) -> u64 {
        self.gpus.cpu_nanos()
    }

    /// Descriptors that become readable when the kernel is about to kill, and how to poll them.
    pub(crate) fn notices(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.cgroups.notices()
    }

    /// The kernel gave notice: read every counter at once and write it down before anything else happens.
    ///
    /// Whoever is about to be killed is still in the cgroup: if it is a stranger, this is the time to see it.
    pub(crate) fn on_notice(
        &mut self,
        writer: &mut dyn RowSink,
        now_nanos: u64,
        processes: &[TrackedProcess],
    ) {
        self.look_for_strangers(processes, false);
        self.cgroups.take_notices(writer, now_nanos);
        self.read_cgroups(writer, now_nanos, processes, true);
    }

    /// The OOM-kill counters as they read now.
    pub(crate) fn counters(&mut self) -> Vec<(String, u64)> {
        self.cgroups.counters()
    }

    /// Reads what is due on this tick.
    pub(crate) fn tick(
        &mut self,
        writer: &mut dyn RowSink,
        now_nanos: u64,
        processes: &[TrackedProcess],
        last: bool,
    ) {
        if now_nanos >= self.next_membership {
            let early = now_nanos - self.started_nanos < EARLY_NANOS;
            let every = if early {
                MEMBERSHIP_EARLY_NANOS
            } else {
                MEMBERSHIP_NANOS
            };
            self.next_membership = now_nanos + every;
            if let Some(first) = processes.first().map(|process| process.id.pid)
                && (self.membership.has_changed(&self.roots, first)
                    || self.has_another_limit(first))
            {
                self.next_resolve = 0;
            }
        }
        if !self.is_of_machine() && self.job_cgroups.look(&self.roots, now_nanos, processes) {
            self.next_resolve = 0;
        }
        if now_nanos >= self.next_resolve {
            self.next_resolve = now_nanos + RESOLVE_NANOS;
            self.resolve(writer, now_nanos, processes);
        }
        if now_nanos >= self.next_owned || last {
            self.next_owned = now_nanos + OWNED_NANOS;
            self.look_for_strangers(processes, last);
        }
        let slow = now_nanos >= self.next_slow || last;
        if slow {
            self.next_slow = now_nanos + SECOND;
        }
        if now_nanos >= self.next_host || last {
            let every = match self.is_of_machine() {
                true => self.host_alone_nanos,
                false => HOST_NANOS,
            };
            self.next_host = now_nanos + every;
            self.host.write(writer, now_nanos);
        }
        if slow || now_nanos >= self.next_quick {
            self.next_quick = now_nanos + QUICK_NANOS;
            self.read_cgroups(writer, now_nanos, processes, slow);
        }
        self.gpus.tick(writer, now_nanos, processes, last);
    }

    /// Whether the process whose limits are the job's has set itself another one, as a program does when it begins.
    fn has_another_limit(&mut self, first: u32) -> bool {
        match self.job_cgroups.limited(first) {
            LimitedProcess::Of(pid) => self.own_limits.has_changed(&self.roots, pid),
            LimitedProcess::AsBefore => false,
        }
    }

    /// Finds the cgroups that processes of the job are in, those that limit them, and the limit in force.
    fn resolve(&mut self, writer: &mut dyn RowSink, now_nanos: u64, processes: &[TrackedProcess]) {
        let first = processes.first().map(|process| process.id.pid);
        let Some(first) = first.or(self.machine_pid) else {
            return;
        };
        let mut members = vec![first];
        members.extend(self.job_cgroups.samples().filter(|pid| *pid != first));
        for pid in &members {
            if let Ok(Some(own)) = MemoryCgroup::of_process(&self.roots, *pid) {
                self.watch(writer, own);
            }
        }
        let main = self.job_cgroups.limited(first);
        let limited = self.limit.limited(main, processes);
        self.limit.look_up(&self.roots, writer, now_nanos, &limited);
        for pid in limited.into_iter().chain(members) {
            if let Some(limiting) = limiting_cgroup(&self.roots, pid) {
                self.watch(writer, limiting);
            }
        }
    }

    /// A cgroup that is new is read whole, and asked who is in it, on this tick.
    fn watch(&mut self, writer: &mut dyn RowSink, cgroup: MemoryCgroup) {
        if self.cgroups.watch(writer, cgroup) {
            self.next_slow = 0;
            self.next_owned = 0;
        }
    }

    /// Asks whether each cgroup holds anybody besides this job. Once the job is gone the last answer stands.
    fn look_for_strangers(&mut self, processes: &[TrackedProcess], last: bool) {
        if last && processes.is_empty() && self.cgroups.owners_are_known() {
            return;
        }
        let ours: BTreeSet<u32> = processes.iter().map(|process| process.id.pid).collect();
        let (ignored, roots) = (&self.ignored, &self.roots);
        // One that was born since the tree was looked at is the job's too.
        let is_child = |pid| !with_ancestors(roots, pid).is_disjoint(&ours);
        let is_ours = |pid| ours.contains(&pid) || ignored.contains(roots, pid) || is_child(pid);
        self.cgroups.look_for_strangers(held_by(processes), is_ours);
    }

    fn read_cgroups(
        &mut self,
        writer: &mut dyn RowSink,
        now_nanos: u64,
        processes: &[TrackedProcess],
        whole: bool,
    ) {
        if !self.is_of_machine() {
            let job_cgroups = &self.job_cgroups;
            self.cgroups
                .see_members(|path| job_cgroups.has_member_in(path));
        }
        self.cgroups.read(now_nanos, whole);
        if self.cgroups.may_have_strangers(held_by(processes)) {
            self.look_for_strangers(processes, false);
        }
        if self.cgroups.write(writer, now_nanos) {
            self.next_resolve = 0;
        }
    }
}

/// What the job holds.
fn held_by(processes: &[TrackedProcess]) -> u64 {
    processes.iter().map(|process| process.memory_bytes).sum()
}

#[cfg(test)]
#[path = "surroundings_tests.rs"]
mod tests;
