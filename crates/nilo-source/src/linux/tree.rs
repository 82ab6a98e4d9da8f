//! The tree: its processes, and the tick that reads them all.
//!
//! Order of a tick: read who is alive (so that a reused PID is free again), find who joined, read the detail that is due (`tree_details.rs`),
//! count what children used that nobody saw (`tree_children.rs`), follow what the tree holds, measure it where that is in doubt (`tree_memory.rs`).
//! `processes` and `files` run in parallel; the first is what callers see.

#[path = "tree_children.rs"]
mod children;
#[path = "tree_details.rs"]
mod details;
#[path = "tree_memory.rs"]
mod memory;

use children::WaitingAccounts;
use nilo_sample::process::ProcessId;

use crate::descriptors::descriptor_allowance;
use crate::error::SourceError;
use crate::holdings::{FamilyKey, Holdings, NewProcess};
use crate::linux::blind::BlindSpots;
use crate::linux::budget::CpuBudget;
use crate::linux::describe::{command_of, describe};
use crate::linux::discover::{Discovery, Membership};
use crate::linux::measuring::Measuring;
use crate::linux::proc_folder::{ProcFolder, STAT_BYTES};
use crate::linux::process::{OpenFiles, ProcessFiles, ReadEffort, TickOutcome};
use crate::roots::Roots;
use crate::tracked_process::{Change, ProcessDetail, ProcessReading, TrackedProcess};

/// Trees of up to this many processes are read whole on each tick; in larger ones, those that stand still are looked at less often.
const SMALL_TREE: usize = 4;
/// So long after a process joined or left, everybody is looked at on each tick.
const LATELY_NANOS: u64 = 250_000_000;

/// How a tree is watched.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeOptions {
    /// Interval of [`ProcessDetail`].
    pub detail_every_nanos: u64,
    /// Share of one core that detail may take; with many processes each one's turn comes more rarely.
    pub detail_budget: f64,
    /// Share of one core that measuring shared memory may take while it is in doubt; 0 turns it off.
    pub measuring_budget: f64,
    /// CPU time that measuring may take in advance, so that a tree is measured soon after it changed.
    pub measuring_burst_nanos: u64,
    /// The process that adopts the tree's orphans (`PR_SET_CHILD_SUBREAPER`), usually ourselves: all its children belong to the tree.
    pub include_orphans_of: Option<u32>,
    /// A process that never belongs to the tree, usually ourselves.
    pub exclude_pid: Option<u32>,
    /// Descriptors to keep open; `None`: the soft limit less a reserve.
    pub max_kept_files: Option<usize>,
}

impl Default for TreeOptions {
    fn default() -> TreeOptions {
        TreeOptions {
            detail_every_nanos: 1_000_000_000,
            detail_budget: 0.002,
            measuring_budget: 0.01,
            measuring_burst_nanos: 2_000_000_000,
            include_orphans_of: None,
            exclude_pid: None,
            max_kept_files: None,
        }
    }
}

/// Where a process that is taken in has been until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessOrigin {
    /// Born in the tree, or there from its beginning.
    Inside,
    /// It joins a tree that has been read before.
    Elsewhere,
}

/// A process tree, read from `/proc`.
#[derive(Debug)]
pub struct ProcessTree {
    proc: ProcFolder,
    options: TreeOptions,
    members: Membership,
    discovery: Discovery,
    /// Births were told since before the first root began.
    knows_births: bool,
    processes: Vec<TrackedProcess>,
    files: Vec<ProcessFiles>,
    kept_files: usize,
    changes: Vec<Change>,
    /// CPU time of those that ended, and of those that nobody saw.
    ended_cpu_nanos: u64,
    waiting: WaitingAccounts,
    detail_budget: CpuBudget,
    detail_cursor: usize,
    holdings: Holdings,
    /// What all of it held on the last tick.
    memory_bytes: u64,
    measuring: Measuring,
    /// The last time a process joined or left.
    last_coming_nanos: u64,
    /// Whether anything happened on this tick that moves memory.
    has_moved: bool,
    /// On this tick a process gave back memory that its relatives are taken to hold.
    left_to_relatives: bool,
    thorough: bool,
    blind: BlindSpots,
    found: Vec<u32>,
    now_nanos: u64,
    has_ticked: bool,
}

impl ProcessTree {
    /// An empty tree; roots are added with [`ProcessTree::add_root`].
    pub fn new(roots: &Roots, options: TreeOptions) -> Result<ProcessTree, SourceError> {
        let proc = ProcFolder::open(&roots.proc)?;
        let members = Membership {
            reaper: options.include_orphans_of,
            excluded: options.exclude_pid,
            ..Membership::default()
        };
        let waiting = WaitingAccounts::new(&proc, options.include_orphans_of);
        Ok(ProcessTree {
            discovery: Discovery::new(&proc),
            knows_births: false,
            // A second's worth may be saved up.
            detail_budget: CpuBudget::new(
                options.detail_budget,
                (options.detail_budget.max(0.0) * 1e9) as u64,
            ),
            holdings: Holdings::new(proc.page_bytes),
            memory_bytes: 0,
            measuring: Measuring::new(CpuBudget::new(
                options.measuring_budget,
                options.measuring_burst_nanos,
            )),
            last_coming_nanos: 0,
            has_moved: false,
            left_to_relatives: false,
            thorough: false,
            proc,
            options,
            members,
            processes: Vec::new(),
            files: Vec::new(),
            kept_files: 0,
            changes: Vec::new(),
            ended_cpu_nanos: 0,
            waiting,
            detail_cursor: 0,
            blind: BlindSpots::default(),
            found: Vec::new(),
            now_nanos: 0,
            has_ticked: false,
        })
    }

    /// How closely a tick looks: where one process left, others may have too.
    fn effort(&self) -> ReadEffort {
        let lately = self.now_nanos.saturating_sub(self.last_coming_nanos) < LATELY_NANOS;
        match self.processes.len() {
            _ if self.thorough => ReadEffort::Thorough,
            count if count > SMALL_TREE && !lately => ReadEffort::Patient,
            _ => ReadEffort::Usual,
        }
    }

    /// Reads who is alive.
    ///
    /// What a process gives back of inherited memory is left to its relatives, unless they are gone, which is not seen of those that were passed over.
    /// So they are asked too: a parent frees what it had in common with its workers when they have ended.
    fn read_all(&mut self, effort: ReadEffort) {
        self.read_each(effort);
        if std::mem::take(&mut self.left_to_relatives) && effort == ReadEffort::Patient {
            self.read_each(ReadEffort::Usual);
            self.left_to_relatives = false;
        }
    }

    fn read_each(&mut self, effort: ReadEffort) {
        let mut index = 0;
        while index < self.processes.len() {
            let process = &mut self.processes[index];
            match self.files[index].read(&self.proc, process.reading, self.now_nanos, effort) {
                TickOutcome::Alive(reading) => {
                    let before = std::mem::replace(&mut process.reading, reading);
                    if before.rss_bytes != reading.rss_bytes
                        || before.shared_bytes != reading.shared_bytes
                    {
                        self.follow_memory(index, before);
                    }
                    index += 1;
                }
                TickOutcome::Ended => self.remove(index),
            }
        }
    }

    /// Finds who joined.
    fn discover(&mut self) {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        self.discovery
            .look(&self.proc, &mut self.members, self.now_nanos, &mut found);
        for pid in &found {
            self.add(*pid, ProcessOrigin::Inside);
        }
        self.found = found;
        self.holdings.end_look();
    }

    /// Takes a process in; `None` when it is gone already.
    fn add(&mut self, pid: u32, origin: ProcessOrigin) -> Option<ProcessId> {
        let mut buffer = [0; STAT_BYTES];
        let stat = self.proc.stat_of(pid, &mut buffer);
        let Some(stat) = stat else {
            self.members.pids.remove(&pid);
            return None;
        };
        if stat.state == b'Z' && stat.threads <= 1 {
            self.members.pids.remove(&pid);
            if self.has_ticked && origin == ProcessOrigin::Inside {
                self.count_unseen_zombie(pid, &stat);
            }
            return None;
        }
        let keeping = self.keeping_for_one_more();
        let mut files = ProcessFiles::new(&self.proc, pid, &stat, keeping, self.now_nanos);
        let TickOutcome::Alive(reading) = files.read(
            &self.proc,
            ProcessReading::default(),
            self.now_nanos,
            ReadEffort::Usual,
        ) else {
            self.members.pids.remove(&pid);
            return None;
        };
        let command = command_of(&self.proc, pid);
        files.command_hash = command_hash(stat.comm, &command.raw);
        let id = ProcessId {
            pid,
            start_ticks: stat.start_ticks,
        };
        if stat.session == pid {
            self.members.sessions.insert(pid);
        }
        let info = describe(&self.proc, pid, &stat, &command);
        let forked = self
            .processes
            .iter()
            .find(|process| process.id.pid == info.parent && process.info.command == info.command);
        let family = forked.and_then(|parent| self.holdings.family_of(parent.id.pid));
        let family = family_of(stat.layout(), pid, family);
        self.notice_exec_of(info.parent, family);
        self.read_again(info.parent);
        self.expect_child_of(info.parent);
        if origin == ProcessOrigin::Elsewhere {
            files.children.leave_out();
        }
        let mapped_twice_bytes = self.mapped_twice_now(pid, reading.shared_bytes);
        self.holdings.join(NewProcess {
            pid,
            parent: info.parent,
            family,
            reading,
            faults: stat.minor_faults,
            is_newborn: self.has_ticked,
            mapped_twice_bytes,
        });
        self.has_moved = true;
        self.members.pids.insert(pid);
        self.kept_files += keeping.descriptors();
        self.files.push(files);
        self.processes.push(TrackedProcess {
            id,
            info,
            reading,
            detail: ProcessDetail::default(),
            detail_is_new: false,
            pss_is_new: false,
            memory_bytes: 0,
            mapped_twice_bytes: 0,
            is_forked: self.holdings.has_relatives(pid),
            first_seen_nanos: self.now_nanos,
            cpu_before_nanos: match origin {
                ProcessOrigin::Inside => 0,
                ProcessOrigin::Elsewhere => reading.cpu_nanos,
            },
        });
        self.last_coming_nanos = self.now_nanos;
        self.changes.push(Change::Started(id));
        Some(id)
    }

    /// As much is kept open as the limit allows: first come, first served.
    fn keeping_for_one_more(&mut self) -> OpenFiles {
        if !self.proc.is_live {
            return OpenFiles::Nothing;
        }
        let allowance = self
            .options
            .max_kept_files
            .unwrap_or_else(descriptor_allowance);
        // Half of the room goes to full sets, the rest to the files of the tick.
        let after = |keeping: OpenFiles| self.kept_files + keeping.descriptors();
        if after(OpenFiles::Everything) <= allowance / 2 {
            OpenFiles::Everything
        } else if after(OpenFiles::OnlyTick) <= allowance {
            OpenFiles::OnlyTick
        } else {
            self.blind.say_once("descriptors", || {
                format!("only {allowance} files may be kept open: reading the processes beyond that costs more")
            });
            OpenFiles::Nothing
        }
    }

    fn remove(&mut self, index: usize) {
        let files = self.files.swap_remove(index);
        let process = self.processes.swap_remove(index);
        self.kept_files -= files.keeping().descriptors();
        self.members.pids.remove(&process.id.pid);
        self.discovery.expect_again(process.id.pid);
        let zombie = files.zombie_reading(&self.proc);
        let mut last_reading = process.reading;
        if let Some(cpu_nanos) = zombie.and_then(|zombie| zombie.cpu_nanos) {
            last_reading.cpu_nanos = last_reading.cpu_nanos.max(cpu_nanos);
        }
        let spent_nanos = last_reading
            .cpu_nanos
            .saturating_sub(process.cpu_before_nanos);
        self.ended_cpu_nanos = self.ended_cpu_nanos.saturating_add(spent_nanos);
        self.waiting
            .leave(process.id, last_reading.cpu_nanos, files.children, zombie);
        self.holdings.leave(process.id.pid);
        self.measuring.forget(process.id.pid);
        self.has_moved = true;
        self.last_coming_nanos = self.now_nanos;
        self.changes.push(Change::Ended {
            id: process.id,
            info: process.info,
            last_reading,
            peak_rss_bytes: process.detail.peak_rss_bytes,
        });
    }

    /// Those added before the first tick, when nobody had said what time it is, begin with it.
    fn begin_clock(&mut self, now_nanos: u64) {
        for (process, files) in self.processes.iter_mut().zip(&mut self.files) {
            process.first_seen_nanos = now_nanos;
            files.begin(now_nanos);
        }
        self.last_coming_nanos = now_nanos;
        self.has_ticked = true;
    }
}

impl ProcessTree {
    /// Reads everything once. `now_nanos` is the caller's monotonic clock.
    pub fn tick(&mut self, now_nanos: u64) {
        let since_last_tick = now_nanos.saturating_sub(self.now_nanos);
        self.now_nanos = now_nanos;
        if !self.has_ticked {
            self.begin_clock(now_nanos);
        }
        for process in &mut self.processes {
            process.detail_is_new = false;
            process.pss_is_new = false;
        }
        self.read_all(self.effort());
        self.discover();
        self.read_details();
        self.follow_marks();
        self.follow_copies();
        self.follow_children();
        if self.has_moved {
            self.holdings.settle();
        }
        self.measure(since_last_tick);
        if std::mem::take(&mut self.has_moved) {
            self.share_out();
        }
    }

    /// Reads the memory of the processes that are known, and says what the tree holds. What is found beside that waits for the next tick.
    pub fn glance(&mut self, now_nanos: u64) -> u64 {
        self.now_nanos = now_nanos;
        self.read_all(self.effort());
        if self.has_moved {
            self.holdings.settle();
        }
        self.holdings.bytes()
    }

    /// From here on every tick looks at everything: for the last tick, which must not take the dead for the sleeping.
    pub fn be_thorough(&mut self) {
        self.thorough = true;
    }

    /// Those alive on the last tick.
    pub fn processes(&self) -> &[TrackedProcess] {
        &self.processes
    }

    /// Moves what happened since the last call to the end of `into`.
    pub fn take_changes(&mut self, into: &mut Vec<Change>) {
        into.append(&mut self.changes);
    }

    /// Bytes in distinct pages that the tree holds, each counted once and in full, whoever else maps it.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// CPU time of the whole tree; processes that ended stay counted, and those that nobody saw count once they were waited for.
    ///
    /// What was there before the first tick counts from its birth, what joins later with a root of its own from there on.
    pub fn cpu_nanos_total(&self) -> u64 {
        self.processes
            .iter()
            .fold(self.ended_cpu_nanos, |sum, process| {
                let reading = process.reading.cpu_nanos;
                sum.saturating_add(reading.saturating_sub(process.cpu_before_nanos))
            })
    }

    /// What could not be seen and why, each said once; the list only grows.
    pub fn blind_spots(&self) -> &[String] {
        self.blind.said()
    }

    /// Adds a process and its descendants.
    pub fn add_root(&mut self, pid: u32) -> Result<ProcessId, SourceError> {
        if self.has_ticked {
            // Those who were born in the tree since are not taken for newcomers.
            self.discover();
        }
        let known = self.processes.iter().find(|process| process.id.pid == pid);
        let origin = match self.has_ticked {
            true => ProcessOrigin::Elsewhere,
            false => ProcessOrigin::Inside,
        };
        let id = match known {
            Some(process) => process.id,
            None => self
                .add(pid, origin)
                .ok_or(SourceError::NoSuchProcess { pid })?,
        };
        self.look_everywhere(origin);
        self.read_details();
        Ok(id)
    }

    /// A process of the tree is about to begin, and with it the tree: what is born from here on may belong to it.
    ///
    /// To look at all processes of a machine with thousands of them takes longer than a short command runs.
    pub fn expect_first_root(&mut self) {
        self.knows_births = self.proc.is_live && self.discovery.begin();
    }

    /// Watches a process that has just begun, with all that it starts; see `expect_first_root`.
    pub fn add_first_root(&mut self, pid: u32) -> Result<ProcessId, SourceError> {
        if !self.knows_births {
            return self.add_root(pid);
        }
        let id = self.add(pid, ProcessOrigin::Inside);
        self.read_details();
        id.ok_or(SourceError::NoSuchProcess { pid })
    }

    fn look_everywhere(&mut self, origin: ProcessOrigin) {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        self.discovery
            .look_everywhere(&self.proc, &mut self.members, &mut found);
        for pid in &found {
            self.add(*pid, origin);
        }
        self.found = found;
    }
}

/// Who belongs together: the same address space layout, or else the family of the parent whose command line it has.
fn family_of(layout: Option<u64>, pid: u32, parent: Option<FamilyKey>) -> FamilyKey {
    let known = layout.map(FamilyKey::Layout);
    known.or(parent).unwrap_or(FamilyKey::Founder(pid))
}

/// FNV-1a over the short name and the arguments.
fn command_hash(comm: &[u8], arguments: &[u8]) -> u64 {
    comm.iter()
        .chain(&[0])
        .chain(arguments)
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
