//! The same tree over `sysinfo`, for systems without `/proc` (macOS, Windows, the BSDs).
//!
//! Dearer and poorer: tens of microseconds a process instead of two, no peaks, no PSS, CPU time in milliseconds.
//! Only the tree's own processes are refreshed on each tick; the whole machine, to find children, once a second.

use nilo_sample::process::{ProcessId, ProcessInfo};
use sysinfo::{
    Pid, Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, UpdateKind,
};

use crate::error::SourceError;
use crate::holdings::{FamilyKey, Holdings, Newcomer};
use crate::names::{command_text, display_name};
use crate::rank::rank_in;
use crate::source::{Change, ProcessDetail, ProcessReading, ProcessSource, TrackedProcess};

const DISCOVER_EVERY_NANOS: u64 = 1_000_000_000;
const DETAIL_EVERY_NANOS: u64 = 1_000_000_000;

/// A process tree, read through `sysinfo`.
#[derive(Debug)]
pub struct PortableTree {
    system: System,
    processes: Vec<TrackedProcess>,
    pids: Vec<Pid>,
    changes: Vec<Change>,
    ended_cpu_nanos: u64,
    excluded: Option<u32>,
    next_discovery_nanos: u64,
    next_detail_nanos: u64,
    now_nanos: u64,
    blind: Vec<String>,
    holdings: Holdings,
}

impl PortableTree {
    /// An empty tree; `exclude_pid`, usually ourselves, never belongs to it.
    pub fn new(exclude_pid: Option<u32>) -> Result<PortableTree, SourceError> {
        let system = System::new().map_err(|error| SourceError::Unsupported {
            reason: error.to_string(),
        })?;
        Ok(PortableTree {
            system,
            processes: Vec::new(),
            pids: Vec::new(),
            changes: Vec::new(),
            ended_cpu_nanos: 0,
            excluded: exclude_pid,
            next_discovery_nanos: 0,
            next_detail_nanos: 0,
            now_nanos: 0,
            blind: vec![
                "peak memory, PSS, swap and page faults of single processes are not known on this system"
                    .to_owned(),
            ],
            holdings: Holdings::new(4096),
        })
    }

    /// Refreshes every process of the machine and admits the children of members until there are no more.
    fn discover(&mut self) {
        self.system
            .refresh_processes_specifics(ProcessesToUpdate::All, true, everything());
        loop {
            let joined: Vec<ProcessId> = self
                .system
                .processes()
                .values()
                .filter(|process| is_alive(process) && self.welcomes(process))
                .map(identity)
                .collect();
            if joined.is_empty() {
                return;
            }
            for id in joined {
                self.add(id);
            }
        }
    }

    fn welcomes(&self, process: &Process) -> bool {
        // Linux lists threads as well.
        process.thread_kind().is_none()
            && process
                .parent()
                .is_some_and(|parent| self.pids.contains(&parent))
            && !self.pids.contains(&process.pid())
            && self.excluded != Some(process.pid().as_u32())
    }

    fn add(&mut self, id: ProcessId) {
        let pid = Pid::from_u32(id.pid);
        let Some(process) = self.system.process(pid) else {
            return;
        };
        let (info, reading) = (describe(process), reading(process));
        // A forked process has its parent's command line until it calls `exec`.
        let parent = self
            .processes
            .iter()
            .find(|other| other.id.pid == info.parent && other.info.command == info.command);
        let family = parent.and_then(|parent| self.holdings.family_of(parent.id.pid));
        self.holdings.join(Newcomer {
            pid: id.pid,
            parent: info.parent,
            family: family.unwrap_or(FamilyKey::Founder(id.pid)),
            reading,
            faults: 0,
            is_newborn: true,
        });
        self.processes.push(TrackedProcess {
            id,
            info,
            reading,
            detail: detail(process),
            detail_is_new: true,
            pss_is_new: false,
            memory_bytes: 0,
            is_forked: self.holdings.has_relatives(id.pid),
            first_seen_nanos: self.now_nanos,
        });
        self.pids.push(pid);
        self.changes.push(Change::Started(id));
    }

    /// Takes the figures of the last refresh; who is gone, or whose PID somebody else has, leaves.
    fn update(&mut self, with_detail: bool) {
        let mut index = 0;
        while index < self.processes.len() {
            let tracked = &mut self.processes[index];
            tracked.detail_is_new = false;
            let process = self
                .system
                .process(self.pids[index])
                .filter(|process| is_alive(process) && identity(process) == tracked.id);
            let Some(process) = process else {
                self.remove(index);
                continue;
            };
            let fresh = reading(process);
            tracked.reading = ProcessReading {
                cpu_nanos: fresh.cpu_nanos.max(tracked.reading.cpu_nanos),
                ..fresh
            };
            self.holdings.update(tracked.id.pid, tracked.reading);
            if with_detail {
                tracked.detail = detail(process);
                tracked.detail_is_new = true;
                let info = describe(process);
                let is_new = info.name != tracked.info.name || info.command != tracked.info.command;
                // Of a process that is ending there is no command line any more.
                if is_new && !info.command.is_empty() {
                    tracked.info = ProcessInfo {
                        parent: tracked.info.parent,
                        ..info
                    };
                    let pid = tracked.id.pid;
                    tracked.is_forked = false;
                    self.holdings.exec(pid, FamilyKey::Founder(pid), 0);
                    self.changes.push(Change::Renamed(tracked.id));
                }
            }
            index += 1;
        }
    }

    /// Says what each process adds to the tree. The first ones are the oldest as far as known.
    fn share_out(&mut self) {
        self.holdings.settle();
        let pids: Vec<u32> = self
            .processes
            .iter()
            .map(|process| process.id.pid)
            .collect();
        self.holdings.share_out(pids.into_iter(), |index, bytes| {
            self.processes[index].memory_bytes = bytes;
        });
    }

    fn remove(&mut self, index: usize) {
        self.pids.swap_remove(index);
        let process = self.processes.swap_remove(index);
        self.holdings.leave(process.id.pid);
        self.ended_cpu_nanos = self
            .ended_cpu_nanos
            .saturating_add(process.reading.cpu_nanos);
        self.changes.push(Change::Ended {
            id: process.id,
            info: process.info,
            last_reading: process.reading,
            peak_rss_bytes: None,
        });
    }
}

impl ProcessSource for PortableTree {
    fn tick(&mut self, now_nanos: u64) {
        self.now_nanos = now_nanos;
        if !self.pids.is_empty() {
            self.system.refresh_processes_specifics(
                ProcessesToUpdate::Some(&self.pids),
                true,
                quick(),
            );
        }
        let with_detail = now_nanos >= self.next_detail_nanos;
        if with_detail {
            self.next_detail_nanos = now_nanos.saturating_add(DETAIL_EVERY_NANOS);
            self.system.refresh_processes_specifics(
                ProcessesToUpdate::Some(&self.pids),
                true,
                everything(),
            );
        }
        self.update(with_detail);
        if now_nanos >= self.next_discovery_nanos {
            self.next_discovery_nanos = now_nanos.saturating_add(DISCOVER_EVERY_NANOS);
            self.discover();
        }
        self.share_out();
    }

    fn processes(&self) -> &[TrackedProcess] {
        &self.processes
    }

    fn take_changes(&mut self, into: &mut Vec<Change>) {
        into.append(&mut self.changes);
    }

    fn cpu_nanos_total(&self) -> u64 {
        self.processes
            .iter()
            .fold(self.ended_cpu_nanos, |sum, process| {
                sum.saturating_add(process.reading.cpu_nanos)
            })
    }

    fn blind_spots(&self) -> &[String] {
        &self.blind
    }

    fn add_root(&mut self, pid: u32) -> Result<ProcessId, SourceError> {
        let known = self.processes.iter().find(|process| process.id.pid == pid);
        if let Some(process) = known {
            return Ok(process.id);
        }
        self.system.refresh_processes_specifics(
            ProcessesToUpdate::Some(&[Pid::from_u32(pid)]),
            true,
            everything(),
        );
        let id = self
            .system
            .process(Pid::from_u32(pid))
            .filter(|process| is_alive(process))
            .map(identity)
            .ok_or(SourceError::NoSuchProcess { pid })?;
        self.add(id);
        self.discover();
        Ok(id)
    }
}

fn quick() -> ProcessRefreshKind {
    ProcessRefreshKind::nothing()
        .without_tasks()
        .with_memory()
        .with_cpu()
}

fn everything() -> ProcessRefreshKind {
    quick()
        .with_disk_usage()
        .with_user(UpdateKind::OnlyIfNotSet)
        .with_cwd(UpdateKind::OnlyIfNotSet)
        .with_environ(UpdateKind::OnlyIfNotSet)
        .with_cmd(UpdateKind::Always)
}

fn is_alive(process: &Process) -> bool {
    !matches!(
        process.status(),
        ProcessStatus::Zombie | ProcessStatus::Dead
    )
}

/// `sysinfo` knows the start to the second.
fn identity(process: &Process) -> ProcessId {
    ProcessId {
        pid: process.pid().as_u32(),
        start_ticks: process.start_time(),
    }
}

fn reading(process: &Process) -> ProcessReading {
    ProcessReading {
        rss_bytes: process.memory(),
        shared_bytes: 0,
        cpu_nanos: process.accumulated_cpu_time().saturating_mul(1_000_000),
    }
}

fn detail(process: &Process) -> ProcessDetail {
    let disk = process.disk_usage();
    ProcessDetail {
        open_files: process.open_files().map(|count| count as u64),
        read_bytes: Some(disk.total_read_bytes),
        written_bytes: Some(disk.total_written_bytes),
        ..ProcessDetail::default()
    }
}

fn describe(process: &Process) -> ProcessInfo {
    let arguments: Vec<String> = process
        .cmd()
        .iter()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // `sysinfo` keeps the name of before an `exec`, so the name only counts where there are no arguments.
    let comm = process.name().to_string_lossy();
    let comm = if words.is_empty() { &*comm } else { "" };
    ProcessInfo {
        parent: process.parent().map_or(0, Pid::as_u32),
        name: display_name(comm, &words),
        command: command_text(&arguments),
        cwd: process
            .cwd()
            .map(|path| path.to_string_lossy().into_owned()),
        uid: user_number(process),
        rank: rank_in(|name| variable(process, name)),
    }
}

/// A variable that the process was started with.
fn variable(process: &Process, name: &str) -> Option<String> {
    let entries = process.environ().iter();
    let mut entries = entries.map(|entry| entry.to_string_lossy());
    entries.find_map(|entry| {
        let value = entry.strip_prefix(name)?.strip_prefix('=')?;
        Some(value.to_owned())
    })
}

#[cfg(unix)]
fn user_number(process: &Process) -> Option<u32> {
    process.user_id().map(|uid| **uid)
}

#[cfg(not(unix))]
fn user_number(_: &Process) -> Option<u32> {
    None
}
