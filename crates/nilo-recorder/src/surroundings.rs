//! What lies around the job: the cgroups that hold it, the limit in force, the machine; its GPUs are in `gpu_rows.rs`.
//!
//! The kernel counts an OOM kill in the victim's own cgroup, while the limit may sit on an ancestor, so both are watched.
//! A job may move itself into another cgroup after its start; processes are looked at again now and then.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nilo_runfile::{RowSink, TableId};
use nilo_sample::rows::{CgroupRow, HostRow};
use nilo_sample::table::or_absent;
use nilo_sample::{Event, Limit, LimitSource, TableSpec, TypedRow, is_absent};
use nilo_source::{
    CgroupReading, Host, HostReading, MemoryCgroup, Roots, TrackedProcess, is_nilo_process,
    limiting_cgroup, resolve_limits,
};
use rustix::event::PollFlags;

use crate::gpu_rows::GpuRows;

const SECOND: u64 = 1_000_000_000;
/// Cheap counters of a cgroup are read at most this often.
const QUICK_NANOS: u64 = 10_000_000;
/// A cgroup that moves by a hundredth, and by more than this, is read whole in between, but not more often than this.
const MOVED_BYTES: u64 = 4 << 20;
const MOVED_NANOS: u64 = SECOND / 5;
/// The machine's own figures take four files.
const HOST_NANOS: u64 = 2 * SECOND;
/// ... and are read at most this often where the machine is all that is watched.
const HOST_ALONE_NANOS: u64 = SECOND / 10;
/// Limits are looked up again this often, and at once when the job moves or a watched limit changes.
const RESOLVE_NANOS: u64 = 5 * SECOND;
/// Whether the job moved is asked this often; in the first seconds faster, while jobs move themselves.
const MEMBERSHIP_NANOS: u64 = SECOND;
const MEMBERSHIP_EARLY_NANOS: u64 = SECOND / 20;
const EARLY_NANOS: u64 = 2 * SECOND;
/// Who else is in the cgroup is asked this often: the list can be long.
const OWNED_NANOS: u64 = 5 * SECOND;
/// More cgroups than this in one job are not followed.
const MOST_CGROUPS: usize = 8;

struct Watched {
    cgroup: MemoryCgroup,
    table: TableId,
    notice: Option<OwnedFd>,
    last_row: Option<CgroupRow>,
    reading: CgroupReading,
    owned: Option<bool>,
    oom_kills: Option<u64>,
    /// When everything was read last, and what usage was then.
    whole_nanos: u64,
    whole_usage_bytes: Option<u64>,
}

impl Watched {
    /// Whether usage went so far since everything was read that it must be asked what moved: memory, or pages of a file being read or written.
    fn has_moved(&self, usage: Option<u64>, now_nanos: u64) -> bool {
        let (Some(usage), Some(then)) = (usage, self.whole_usage_bytes) else {
            return false;
        };
        let far = (then / 100).max(MOVED_BYTES);
        usage.abs_diff(then) > far && now_nanos.saturating_sub(self.whole_nanos) >= MOVED_NANOS
    }
}

/// The job's surroundings.
pub(crate) struct Surroundings {
    roots: Roots,
    started_nanos: u64,
    cgroups: Vec<Watched>,
    limit: Option<Limit>,
    /// A larger limit seen on the last look only.
    looser_limit: Option<Limit>,
    host: Option<Host>,
    host_table: Option<TableId>,
    last_host_row: Option<HostRow>,
    gpus: GpuRows,
    next_quick: u64,
    next_slow: u64,
    next_host: u64,
    next_resolve: u64,
    next_membership: u64,
    membership: Membership,
    next_owned: u64,
    /// Our own PID and our ancestors': a shell that waits for us is no other job.
    company: BTreeSet<u32>,
    /// The sessions of our helpers, such as the process that delivers alerts: neither are those another job.
    own_sessions: Vec<u32>,
    /// We are the job: whoever records us, and its helpers, are no other job.
    is_recorded: bool,
    looked_at: usize,
    /// Who stands for the machine where no process is watched: ourselves.
    machine_pid: Option<u32>,
    host_readings: u64,
    host_alone_nanos: u64,
    /// Processes that were named one by one: each may have a limit of its own.
    named: Vec<u32>,
}

impl Surroundings {
    pub(crate) fn new(roots: Roots, now_nanos: u64, first_pid: u32) -> Surroundings {
        let gpus = GpuRows::new(&roots, now_nanos, first_pid);
        Surroundings::with_gpus(roots, now_nanos, first_pid, gpus)
    }

    /// Of a program that looks at itself: without GPUs, and perhaps recorded by `nilo run`.
    pub(crate) fn of_own_process(roots: Roots, now_nanos: u64, pid: u32) -> Surroundings {
        let gpus = GpuRows::none(&roots, now_nanos, pid);
        let mut surroundings = Surroundings::with_gpus(roots, now_nanos, pid, gpus);
        surroundings.is_recorded = true;
        surroundings
    }

    fn with_gpus(roots: Roots, now_nanos: u64, first_pid: u32, gpus: GpuRows) -> Surroundings {
        let limit = nilo_sample::limit::smallest(resolve_limits(&roots, first_pid));
        let host = Host::new(&roots).ok();
        Surroundings {
            company: ancestors(&roots),
            gpus,
            roots,
            started_nanos: now_nanos,
            cgroups: Vec::new(),
            limit,
            looser_limit: None,
            host,
            host_table: None,
            last_host_row: None,
            next_quick: 0,
            next_slow: 0,
            next_host: 0,
            next_resolve: 0,
            next_membership: 0,
            membership: Membership::default(),
            next_owned: 0,
            own_sessions: Vec::new(),
            is_recorded: false,
            looked_at: 0,
            machine_pid: None,
            host_readings: 0,
            host_alone_nanos: HOST_ALONE_NANOS,
            named: Vec::new(),
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
        self.named = pids.to_vec();
        self.limit = self.shared_limit(&self.named);
    }

    /// The smallest limit that holds for all of these processes together.
    fn shared_limit(&self, pids: &[u32]) -> Option<Limit> {
        let mut shared: Option<Vec<Limit>> = None;
        for pid in pids {
            let limits = resolve_limits(&self.roots, *pid);
            // A process that has just ended has none.
            if limits.is_empty() {
                continue;
            }
            match &mut shared {
                None => shared = Some(limits),
                Some(shared) => shared.retain(|limit| limits.contains(limit)),
            }
        }
        nilo_sample::limit::smallest(shared.unwrap_or_default())
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

    /// How often the host and the GPUs were read.
    pub(crate) fn readings(&self) -> (u64, u64) {
        (self.host_readings, self.gpus.readings())
    }

    /// What new programs could get on this machine at the last look.
    pub(crate) fn available_bytes(&self) -> Option<u64> {
        let available = self.last_host_row?.available_bytes;
        (!is_absent(available)).then_some(available as u64)
    }

    /// Processes of this session are ours, though they are no part of the job.
    pub(crate) fn ignore_session(&mut self, session: Option<u32>) {
        self.own_sessions.extend(session);
    }

    /// This process is ours, though it is no part of the job.
    pub(crate) fn add_helper(&mut self, pid: Option<u32>) {
        self.company.extend(pid);
    }

    pub(crate) fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    /// What is held of a cgroup's limit, as last read; file pages that the kernel can drop do not count.
    pub(crate) fn held_of_limit_bytes(&self) -> Option<u64> {
        let LimitSource::Cgroup { path, .. } = &self.limit.as_ref()?.source else {
            return None;
        };
        let mut each = self.cgroups.iter();
        let reading = &each.find(|it| it.cgroup.path() == path)?.reading;
        let shmem = reading.shmem_bytes.unwrap_or(0);
        let files = reading.file_bytes.unwrap_or(0).saturating_sub(shmem);
        Some(reading.usage_bytes?.saturating_sub(files))
    }

    /// CPU time that threads of our own have taken.
    pub(crate) fn helper_cpu_nanos(&self) -> u64 {
        self.gpus.cpu_nanos()
    }

    /// Descriptors that become readable when the kernel is about to kill.
    ///
    /// v1 gives an eventfd; v2 raises an exceptional condition on `memory.events`, which as a file is always readable.
    pub(crate) fn notices(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.cgroups.iter().filter_map(|watched| {
            let flags = if watched.cgroup.version() == 1 {
                PollFlags::IN
            } else {
                PollFlags::PRI
            };
            Some((watched.notice.as_ref()?.as_fd(), flags))
        })
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
        for watched in &mut self.cgroups {
            let Some(fd) = &watched.notice else { continue };
            let mut buffer = [0u8; 512];
            if watched.cgroup.version() == 2 {
                // Reading from the start arms the next notice; the file changes for other reasons too.
                rustix::io::pread(fd, &mut buffer, 0).ok();
            } else if rustix::io::read(fd, &mut buffer[..8]).is_ok() {
                let cgroup = watched.cgroup.path().to_owned();
                writer.event(now_nanos, &Event::OomNotice { cgroup });
            }
        }
        self.read_cgroups(writer, now_nanos, true);
    }

    /// The OOM-kill counters as they read now.
    pub(crate) fn counters(&mut self) -> Vec<(String, u64)> {
        let counters = self.cgroups.iter_mut().filter_map(|watched| {
            let kills = watched.cgroup.read(true).oom_kills?;
            Some((watched.cgroup.path().to_owned(), kills))
        });
        counters.collect()
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
            if self.membership.changed(&self.roots, processes) {
                self.next_resolve = 0;
            }
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
            self.read_host(writer, now_nanos);
        }
        if slow || now_nanos >= self.next_quick {
            self.next_quick = now_nanos + QUICK_NANOS;
            self.read_cgroups(writer, now_nanos, slow);
        }
        self.gpus.tick(writer, now_nanos, processes, last);
    }

    /// Finds the cgroups of the first process and of one other each time.
    fn resolve(&mut self, writer: &mut dyn RowSink, now_nanos: u64, processes: &[TrackedProcess]) {
        let first = processes.first().map(|process| process.id.pid);
        let Some(first) = first.or(self.machine_pid) else {
            return;
        };
        self.looked_at = (self.looked_at + 1) % processes.len().max(1);
        let other = processes.get(self.looked_at).map(|process| process.id.pid);
        for pid in [Some(first), other.filter(|pid| *pid != first)]
            .into_iter()
            .flatten()
        {
            if let Ok(Some(own)) = MemoryCgroup::of_process(&self.roots, pid) {
                self.watch(writer, own);
            }
        }
        let is_alive = |pid: &u32| processes.iter().any(|process| process.id.pid == *pid);
        let mut limited: Vec<u32> = self.named.iter().copied().filter(is_alive).collect();
        if limited.is_empty() {
            limited.push(first);
        }
        let limit = self.shared_limit(&limited);
        self.adopt_limit(writer, now_nanos, limit);
        let known = self.cgroups.len();
        for pid in limited {
            if let Some(limiting) = limiting_cgroup(&self.roots, pid) {
                self.watch(writer, limiting);
            }
        }
        if self.cgroups.len() > known {
            self.next_owned = 0;
        }
    }

    /// A dying process already counts as a member of the root cgroup, so a looser limit must be seen twice.
    fn adopt_limit(&mut self, writer: &mut dyn RowSink, now_nanos: u64, limit: Option<Limit>) {
        let Some(limit) = limit.filter(|limit| Some(limit) != self.limit.as_ref()) else {
            self.looser_limit = None;
            return;
        };
        let looser = self
            .limit
            .as_ref()
            .is_some_and(|known| limit.bytes > known.bytes);
        if looser && self.looser_limit.as_ref() != Some(&limit) {
            self.looser_limit = Some(limit);
            return;
        }
        let limit = Some(limit);
        writer.event(
            now_nanos,
            &Event::LimitChanged {
                limit: limit.clone(),
            },
        );
        self.limit = limit;
        self.looser_limit = None;
    }

    fn watch(&mut self, writer: &mut dyn RowSink, cgroup: MemoryCgroup) {
        let known = self
            .cgroups
            .iter()
            .any(|watched| watched.cgroup.path() == cgroup.path());
        let left_by_the_dying = cgroup.path() == "/" && !self.cgroups.is_empty();
        if known || left_by_the_dying || self.cgroups.len() >= MOST_CGROUPS {
            return;
        }
        let table = writer.define(&TableSpec::cgroup(cgroup.path()));
        let notice = cgroup.oom_notice().ok().flatten();
        self.cgroups.push(Watched {
            cgroup,
            table,
            notice,
            last_row: None,
            reading: CgroupReading::default(),
            owned: None,
            oom_kills: None,
            whole_nanos: 0,
            whole_usage_bytes: None,
        });
        self.next_slow = 0;
        self.next_owned = 0;
    }

    /// Asks whether each cgroup holds anybody besides this job. Once the job is gone the last answer stands.
    fn look_for_strangers(&mut self, processes: &[TrackedProcess], last: bool) {
        if last
            && processes.is_empty()
            && self.cgroups.iter().all(|watched| watched.owned.is_some())
        {
            return;
        }
        let ours: BTreeSet<u32> = processes.iter().map(|process| process.id.pid).collect();
        let (company, sessions) = (&self.company, &self.own_sessions);
        let (roots, is_recorded) = (&self.roots, self.is_recorded);
        let is_ours = |pid| {
            ours.contains(&pid)
                || company.contains(&pid)
                || is_recorded && is_nilo_process(roots, pid)
                || session_of(pid).is_some_and(|session| sessions.contains(&session))
        };
        for watched in &mut self.cgroups {
            let owned = watched.cgroup.owned_by(&is_ours);
            watched.owned = owned.or(watched.owned);
        }
    }

    /// Usage as often as asked; everything else with `whole`.
    fn read_cgroups(&mut self, writer: &mut dyn RowSink, now_nanos: u64, whole: bool) {
        for watched in &mut self.cgroups {
            let usage = watched.cgroup.usage_bytes();
            if whole || watched.has_moved(usage, now_nanos) {
                watched.reading = watched.cgroup.read(true);
                watched.whole_nanos = now_nanos;
                watched.whole_usage_bytes = watched.reading.usage_bytes;
            } else {
                let reading = &mut watched.reading;
                // What moved little moved in memory: inactive file pages stay as last read.
                let inactive = reading.usage_bytes.zip(reading.working_set_bytes);
                let inactive = inactive.map(|(usage, set)| usage.saturating_sub(set));
                reading.working_set_bytes = usage
                    .zip(inactive)
                    .map(|(usage, inactive)| usage.saturating_sub(inactive));
                reading.usage_bytes = usage;
            }
            let reading = &watched.reading;
            let row = cgroup_row(reading, watched.owned);
            if watched.last_row != Some(row) {
                let limit_before = watched.last_row.map(|last| last.limit_bytes.to_bits());
                if limit_before != Some(row.limit_bytes.to_bits()) {
                    self.next_resolve = 0;
                }
                writer.append(watched.table, now_nanos, None, &row.values());
                watched.last_row = Some(row);
            }
            if let Some(kills) = reading.oom_kills {
                if watched.oom_kills.is_some_and(|before| kills > before) {
                    let cgroup = Some(watched.cgroup.path().to_owned());
                    writer.event(now_nanos, &Event::OomKill { cgroup, kills });
                }
                watched.oom_kills = Some(kills);
            }
        }
    }

    fn read_host(&mut self, writer: &mut dyn RowSink, now_nanos: u64) {
        let Some(host) = &mut self.host else { return };
        let reading = host.read();
        self.host_readings += 1;
        let row = host_row(&reading);
        if self.last_host_row != Some(row) {
            let table = *self
                .host_table
                .get_or_insert_with(|| writer.define(&TableSpec::host()));
            writer.append(table, now_nanos, None, &row.values());
            self.last_host_row = Some(row);
        }
    }
}

fn cgroup_row(reading: &CgroupReading, owned: Option<bool>) -> CgroupRow {
    CgroupRow {
        usage_bytes: or_absent(reading.usage_bytes),
        working_set_bytes: or_absent(reading.working_set_bytes),
        peak_bytes: or_absent(reading.peak_bytes),
        limit_bytes: or_absent(reading.limit_bytes),
        anon_bytes: or_absent(reading.anon_bytes),
        file_bytes: or_absent(reading.file_bytes),
        shmem_bytes: or_absent(reading.shmem_bytes),
        swap_bytes: or_absent(reading.swap_bytes),
        oom_kills: or_absent(reading.oom_kills),
        limit_hits: or_absent(reading.limit_hits),
        owned: or_absent(owned.map(u64::from)),
    }
}

fn host_row(reading: &HostReading) -> HostRow {
    HostRow {
        total_bytes: or_absent(reading.total_bytes),
        available_bytes: or_absent(reading.available_bytes),
        swap_total_bytes: or_absent(reading.swap_total_bytes),
        swap_used_bytes: or_absent(reading.swap_used_bytes),
        shm_total_bytes: or_absent(reading.shm_total_bytes),
        shm_used_bytes: or_absent(reading.shm_used_bytes),
        pressure_some_nanos: or_absent(reading.pressure_some_nanos),
        pressure_full_nanos: or_absent(reading.pressure_full_nanos),
        oom_kills: or_absent(reading.oom_kills),
    }
}

/// Which cgroups the first process is in, through a descriptor that is kept open: the cheap question whether it moved.
#[derive(Default)]
struct Membership {
    pid: u32,
    file: Option<File>,
    text: Vec<u8>,
}

impl Membership {
    fn changed(&mut self, roots: &Roots, processes: &[TrackedProcess]) -> bool {
        let Some(first) = processes.first() else {
            return false;
        };
        if self.pid != first.id.pid {
            self.pid = first.id.pid;
            self.file = File::open(roots.proc.join(self.pid.to_string()).join("cgroup")).ok();
        }
        let mut buffer = [0u8; 4096];
        let read = self
            .file
            .as_ref()
            .and_then(|file| file.read_at(&mut buffer, 0).ok());
        let text = &buffer[..read.unwrap_or(0)];
        let changed = !text.is_empty() && text != self.text;
        if changed {
            self.text = text.to_vec();
        }
        changed
    }
}

fn session_of(pid: u32) -> Option<u32> {
    // Not through rustix, which takes no 0: that is the answer for a session led from outside of our PID namespace.
    // SAFETY: a plain system call.
    let session = unsafe { libc::getsid(i32::try_from(pid).ok()?) };
    u32::try_from(session).ok().filter(|session| *session > 0)
}

/// Our own PID and those of our parents up to the first process.
fn ancestors(roots: &Roots) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut pid = std::process::id();
    while pid > 1 && found.insert(pid) && found.len() < 64 {
        let Ok(stat) = std::fs::read_to_string(roots.proc.join(pid.to_string()).join("stat"))
        else {
            break;
        };
        // The name stands in parentheses and may hold anything, so the fields begin after the last one.
        let parent = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(1));
        pid = parent.and_then(|text| text.parse().ok()).unwrap_or(0);
    }
    found
}
