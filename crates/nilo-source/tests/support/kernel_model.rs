//! Processes as the kernel keeps them, written down as a captured `/proc`: who forks, uses time, ends, waits.

use std::collections::BTreeMap;

use nilo_source::Roots;
use tempfile::TempDir;

/// Nanoseconds of a tick of `stat`.
pub const TICK: u64 = 10_000_000;
/// The process that gets orphans without a reaper; nobody watches it.
pub const INIT: u32 = 1;

#[derive(Debug, Clone)]
struct Modelled {
    parent: u32,
    started: u64,
    own_ticks: u64,
    children_ticks: u64,
    is_zombie: bool,
    /// `SIGCHLD` is ignored: children go without being waited for.
    ignores_children: bool,
}

/// Processes and what they used.
pub struct KernelModel {
    folder: TempDir,
    processes: BTreeMap<u32, Modelled>,
    reaper: u32,
    born: u64,
    used_ticks: u64,
}

impl KernelModel {
    /// Only `init`, which waits for nobody it does not have to, and the process that adopts orphans.
    pub fn new(reaper: u32) -> KernelModel {
        let mut kernel = KernelModel {
            folder: tempfile::tempdir().unwrap(),
            processes: BTreeMap::new(),
            reaper,
            born: 0,
            used_ticks: 0,
        };
        kernel.insert(INIT, 0);
        if reaper != INIT {
            kernel.insert(reaper, INIT);
        }
        kernel
    }

    pub fn roots(&self) -> Roots {
        Roots {
            proc: self.folder.path().to_owned(),
            ..Roots::default()
        }
    }

    fn insert(&mut self, pid: u32, parent: u32) {
        self.born += 1;
        let process = Modelled {
            parent,
            started: self.born,
            own_ticks: 0,
            children_ticks: 0,
            is_zombie: false,
            ignores_children: false,
        };
        self.processes.insert(pid, process);
        self.write(pid);
    }

    fn write(&self, pid: u32) {
        let folder = self.folder.path().join(pid.to_string());
        let Some(process) = self.processes.get(&pid) else {
            std::fs::remove_dir_all(folder).unwrap();
            return;
        };
        let state = if process.is_zombie { 'Z' } else { 'S' };
        let (parent, own) = (process.parent, process.own_ticks);
        let (children, started) = (process.children_ticks, process.started);
        std::fs::create_dir_all(&folder).unwrap();
        let stat = format!(
            "{pid} (p) {state} {parent} 1 1 0 -1 0 0 0 0 0 {own} 0 {children} 0 20 0 1 0 {started} 4096 10 0"
        );
        std::fs::write(folder.join("stat"), stat).unwrap();
    }

    fn change(&mut self, pid: u32, change: impl FnOnce(&mut Modelled)) {
        change(self.processes.get_mut(&pid).unwrap());
        self.write(pid);
    }

    pub fn is_alive(&self, pid: u32) -> bool {
        let process = self.processes.get(&pid);
        process.is_some_and(|process| !process.is_zombie)
    }

    pub fn exists(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// What all processes have used since the beginning, or since [`KernelModel::forget_used`].
    pub fn used_nanos(&self) -> u64 {
        self.used_ticks * TICK
    }

    pub fn forget_used(&mut self) {
        self.used_ticks = 0;
    }

    pub fn fork(&mut self, parent: u32, pid: u32) {
        assert!(self.is_alive(parent) && !self.exists(pid));
        self.insert(pid, parent);
    }

    pub fn burn(&mut self, pid: u32, ticks: u64) {
        self.used_ticks += ticks;
        self.change(pid, |process| process.own_ticks += ticks);
    }

    /// The same of somebody of the tree; what others use is not its.
    pub fn burn_unless_reaper(&mut self, pid: u32, ticks: u64) {
        if pid != INIT && pid != self.reaper {
            self.burn(pid, ticks);
        }
    }

    pub fn parent_of(&self, pid: u32) -> u32 {
        self.processes[&pid].parent
    }

    pub fn ignore_children(&mut self, pid: u32) {
        self.change(pid, |process| process.ignores_children = true);
    }

    /// Ends a process: its children go to the reaper, and zombies among them with them.
    pub fn end(&mut self, pid: u32) {
        let reaper = match pid == self.reaper {
            true => INIT,
            false => self.reaper,
        };
        let of_pid =
            |(child, process): (&u32, &Modelled)| (process.parent == pid).then_some(*child);
        let children: Vec<u32> = self.processes.iter().filter_map(of_pid).collect();
        for child in children {
            self.change(child, |process| process.parent = reaper);
        }
        let parent = self.processes[&pid].parent;
        self.change(pid, |process| process.is_zombie = true);
        if self.processes[&parent].ignores_children {
            self.processes.remove(&pid);
            self.write(pid);
        }
    }

    /// The parent of a zombie waits for it.
    pub fn wait_for(&mut self, pid: u32) {
        let gone = self.processes.remove(&pid).unwrap();
        assert!(gone.is_zombie);
        self.write(pid);
        let ticks = gone.own_ticks + gone.children_ticks;
        self.change(gone.parent, |process| process.children_ticks += ticks);
    }

    /// Born, used, ended and waited for between two looks.
    pub fn short_child(&mut self, parent: u32, ticks: u64) {
        let pid = 4_000_000;
        self.fork(parent, pid);
        self.burn(pid, ticks);
        self.end(pid);
        if self.exists(pid) {
            self.wait_for(pid);
        }
    }
}
