//! CPU time of children that came and went between two looks, of what their parents waited for.
//!
//! Each process of the tree has an account (`children_cpu.rs`), and so has the one that adopts the tree's orphans.
//! Whoever ended and was seen is owed by the one who waited for it. That has two sides to be sure of:
//! a reading counts only after those have been looked at that it may contain and that were still taken for alive,
//! and what is owed is let go only by a reading from after the child was gone: then it was never waited for.

use nilo_sample::process::ProcessId;

use super::ProcessTree;
use crate::linux::children_cpu::{ChildrenCpu, children_nanos};
use crate::linux::cpu_clock::process_cpu_nanos;
use crate::linux::proc_folder::{ProcFolder, STAT_BYTES};
use crate::linux::process::ZombieReading;
use crate::linux::stat::Stat;

/// So long after the last birth on this machine somebody may still wait for a child that nobody saw.
const LATE_WAIT_NANOS: u64 = 1_000_000_000;
/// Whether zombies are still there is looked up this often, and whenever it matters.
const ZOMBIES_EVERY_NANOS: u64 = 1_000_000_000;
/// How often an account is read again because a child was found to be gone; the rest waits for the next tick.
const MOST_READINGS: usize = 8;
/// Deeper trees than this are not walked to their root.
const DEEPEST: usize = 256;

/// The accounts of those who wait for processes of the tree without being alive in it.
#[derive(Debug)]
pub(super) struct WaitingAccounts {
    /// Adopts orphans.
    reaper: Option<(u32, ChildrenCpu)>,
    /// Ended, and not yet settled or not yet waited for.
    ended: Vec<EndedProcess>,
    next_zombies_nanos: u64,
    /// Accounts to settle.
    open: Vec<u32>,
}

/// A process that ended.
#[derive(Debug)]
struct EndedProcess {
    id: ProcessId,
    cpu_nanos: u64,
    children: ChildrenCpu,
    is_zombie: bool,
    is_settled: bool,
}

impl EndedProcess {
    /// What whoever waits for it gets.
    fn counted_nanos(&self) -> u64 {
        self.cpu_nanos.saturating_add(self.children.read_nanos())
    }
}

/// The state of a process that was alive or a zombie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessState {
    Alive,
    Zombie,
    /// Somebody is waiting for it at this moment, and may have its time already.
    Leaving,
    Gone,
}

/// What a look at the children of a process found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChildrenLook {
    Same,
    SomeEnded,
    NotSure,
}

impl WaitingAccounts {
    pub(super) fn new(proc: &ProcFolder, reaper: Option<u32>) -> WaitingAccounts {
        let reaper = reaper.and_then(|pid| {
            let mut buffer = [0; STAT_BYTES];
            let stat = proc.stat_of(pid, &mut buffer)?;
            let mut children =
                ChildrenCpu::new(stat.parent, children_nanos(&stat, proc.ticks_per_sec));
            children.leave_out();
            Some((pid, children))
        });
        WaitingAccounts {
            reaper,
            ended: Vec::new(),
            next_zombies_nanos: 0,
            open: Vec::new(),
        }
    }

    /// A process ended; settled at the end of the tick.
    pub(super) fn leave(
        &mut self,
        id: ProcessId,
        cpu_nanos: u64,
        mut children: ChildrenCpu,
        zombie: Option<ZombieReading>,
    ) {
        if let Some(zombie) = zombie {
            children.see(zombie.children_nanos, cpu_nanos, 0);
            children.parent = zombie.parent;
        }
        self.ended.push(EndedProcess {
            id,
            cpu_nanos,
            children,
            is_zombie: zombie.is_some(),
            is_settled: false,
        });
    }

    /// The youngest that is to be settled: children before their parents.
    fn next_to_settle(&self) -> Option<usize> {
        let ended = self.ended.iter().enumerate();
        ended
            .filter(|(_, ended)| !ended.is_settled)
            .max_by_key(|(_, ended)| (ended.id.start_ticks, ended.id.pid))
            .map(|(place, _)| place)
    }
}

impl ProcessTree {
    /// A process came, ended, and nobody has waited for it yet: it counts now, not when somebody does.
    pub(super) fn count_unseen_zombie(&mut self, pid: u32, stat: &Stat<'_>) {
        let id = ProcessId {
            pid,
            start_ticks: stat.start_ticks,
        };
        if self.waiting.ended.iter().any(|ended| ended.id == id) {
            return;
        }
        let Some(cpu_nanos) = self.proc.is_live.then(|| process_cpu_nanos(pid)).flatten() else {
            return;
        };
        self.ended_cpu_nanos = self.ended_cpu_nanos.saturating_add(cpu_nanos);
        let zombie = ZombieReading {
            cpu_nanos: Some(cpu_nanos),
            children_nanos: children_nanos(stat, self.proc.ticks_per_sec),
            parent: stat.parent,
        };
        let children = ChildrenCpu::new(stat.parent, 0);
        self.waiting.leave(id, cpu_nanos, children, Some(zombie));
    }

    /// A child of this process was found.
    pub(super) fn expect_child_of(&mut self, pid: u32) {
        if let Some(account) = self.account(pid) {
            account.expect();
        }
    }

    /// Reads what is due and takes it into the total.
    pub(super) fn follow_children(&mut self) {
        let births =
            !self.proc.is_live || self.discovery.saw_births(self.now_nanos, LATE_WAIT_NANOS);
        for index in 0..self.processes.len() {
            let clock_nanos = self.processes[index].reading.cpu_nanos;
            let children = &self.files[index].children;
            if births && children.is_due(clock_nanos, self.now_nanos) || self.thorough {
                self.read_children_of(index);
            }
            if self.files[index].children.is_open() {
                self.waiting.open.push(self.processes[index].id.pid);
            }
        }
        if let Some((reaper, children)) = self.waiting.reaper {
            // Ourselves, mostly: whether it ran says nothing.
            if births && children.is_due(self.now_nanos, self.now_nanos) || self.thorough {
                self.read_account(reaper);
            }
            self.waiting.open.push(reaper);
        }
        self.look_at_zombies();
        self.settle_ended();
        while let Some(pid) = self.waiting.open.pop() {
            self.settle(pid);
            self.settle_ended();
        }
    }

    /// The account of a process, of the tree or its reaper.
    fn account(&mut self, pid: u32) -> Option<&mut ChildrenCpu> {
        // Those that ended first: another process may have the number already.
        let mut ended = self.waiting.ended.iter_mut();
        if let Some(ended) = ended.find(|ended| ended.id.pid == pid && !ended.is_settled) {
            return Some(&mut ended.children);
        }
        let mut processes = self.processes.iter();
        if let Some(index) = processes.position(|process| process.id.pid == pid) {
            return Some(&mut self.files[index].children);
        }
        let reaper = self.waiting.reaper.as_mut();
        reaper.and_then(|(reaper, children)| (*reaper == pid).then_some(children))
    }

    fn read_children_of(&mut self, index: usize) -> bool {
        let clock_nanos = self.processes[index].reading.cpu_nanos;
        let files = &mut self.files[index];
        let read = files.read_children(&self.proc);
        if let Some(nanos) = read {
            files.children.see(nanos, clock_nanos, self.now_nanos);
        }
        read.is_some()
    }

    /// Reads an account; false when nobody has it any more.
    fn read_account(&mut self, pid: u32) -> bool {
        let mut processes = self.processes.iter();
        if let Some(index) = processes.position(|process| process.id.pid == pid) {
            return self.read_children_of(index);
        }
        let mut buffer = [0; STAT_BYTES];
        let Some(stat) = self.proc.stat_of(pid, &mut buffer) else {
            return false;
        };
        let nanos = children_nanos(&stat, self.proc.ticks_per_sec);
        let now_nanos = self.now_nanos;
        match self.account(pid) {
            Some(account) => {
                account.see(nanos, now_nanos, now_nanos);
                true
            }
            None => false,
        }
    }

    /// Takes what this process's children used into the total. Says whether it could be done now.
    fn settle(&mut self, pid: u32) -> bool {
        for _ in 0..MOST_READINGS {
            match self.account(pid) {
                Some(account) if account.is_outdated() => {
                    // One that is gone by now is settled with its end.
                    if !self.read_account(pid) {
                        return false;
                    }
                }
                Some(_) => {}
                None => return false,
            }
            let growth = self.account(pid).and_then(|account| account.unexplained());
            let look = growth.map_or(ChildrenLook::Same, |growth| {
                self.look_at_children(pid, growth)
            });
            match look {
                ChildrenLook::Same => {
                    let rounding_nanos = self.rounding_nanos();
                    let taken = self
                        .account(pid)
                        .map(|account| account.take(rounding_nanos));
                    let (new_nanos, _) = taken.unwrap_or_default();
                    self.ended_cpu_nanos = self.ended_cpu_nanos.saturating_add(new_nanos);
                    return true;
                }
                ChildrenLook::SomeEnded => self.settle_ended(),
                ChildrenLook::NotSure => return false,
            }
        }
        false
    }

    /// User and system time are each cut to whole ticks.
    fn rounding_nanos(&self) -> u64 {
        2 * 1_000_000_000 / self.proc.ticks_per_sec.max(1)
    }

    /// Looks whether children of this process that are taken for alive or for zombies are gone: what they used may be in its growth.
    fn look_at_children(&mut self, parent: u32, growth_nanos: u64) -> ChildrenLook {
        let most_nanos = growth_nanos.saturating_add(self.rounding_nanos());
        let mut look = ChildrenLook::Same;
        for ended in &mut self.waiting.ended {
            if ended.children.parent != parent
                || !ended.is_settled
                || ended.counted_nanos() > most_nanos
            {
                continue;
            }
            match process_state(&self.proc, ended.id) {
                ProcessState::Leaving => return ChildrenLook::NotSure,
                ProcessState::Gone => {
                    (ended.is_zombie, ended.is_settled) = (false, false);
                    look = ChildrenLook::SomeEnded;
                }
                ProcessState::Alive | ProcessState::Zombie => {}
            }
        }
        let mut index = 0;
        while index < self.processes.len() {
            let (process, files) = (&self.processes[index], &self.files[index]);
            let counted_nanos = process.reading.cpu_nanos + files.children.read_nanos();
            if files.children.parent == parent && counted_nanos <= most_nanos {
                match process_state(&self.proc, process.id) {
                    ProcessState::Leaving => return ChildrenLook::NotSure,
                    ProcessState::Gone | ProcessState::Zombie => {
                        self.remove(index);
                        look = ChildrenLook::SomeEnded;
                        continue;
                    }
                    ProcessState::Alive => {}
                }
            }
            index += 1;
        }
        look
    }

    fn look_at_zombies(&mut self) {
        if self.now_nanos < self.waiting.next_zombies_nanos {
            return;
        }
        self.waiting.next_zombies_nanos = self.now_nanos.saturating_add(ZOMBIES_EVERY_NANOS);
        for ended in &mut self.waiting.ended {
            if ended.is_settled && process_state(&self.proc, ended.id) == ProcessState::Gone {
                (ended.is_zombie, ended.is_settled) = (false, false);
            }
        }
    }

    /// Settles those that ended: whoever waited for them owes what was counted of them.
    fn settle_ended(&mut self) {
        while let Some(place) = self.waiting.next_to_settle() {
            let ended = &self.waiting.ended[place];
            let (pid, parent) = (ended.id.pid, ended.children.parent);
            if ended.is_zombie {
                if !self.settle_zombie(place) {
                    continue;
                }
            } else {
                let ended = self.waiting.ended.swap_remove(place);
                let (counted, owed) = (ended.counted_nanos(), ended.children.owed_nanos());
                if ended.children.may_be_orphan {
                    self.owe_upwards(parent, counted.saturating_add(owed));
                } else {
                    // Its children that are gone were waited for by itself before it ended, or by somebody further up after that.
                    self.owe(parent, counted);
                    self.owe_upwards(parent, owed);
                }
            }
            self.find_parents_of_children(pid, parent);
        }
    }

    /// Its last account is known. It has not been waited for yet, so nobody owes anything until then.
    /// False when children of it have to be settled first.
    fn settle_zombie(&mut self, place: usize) -> bool {
        let ended = &self.waiting.ended[place];
        let (pid, parent) = (ended.id.pid, ended.children.parent);
        if let Some(growth) = ended.children.unexplained()
            && self.look_at_children(pid, growth) == ChildrenLook::SomeEnded
        {
            return false;
        }
        let ended = &mut self.waiting.ended[place];
        ended.is_settled = true;
        // Nothing comes here any more: what is left belongs to those who wait for its children, or for itself.
        let (new_nanos, lost_nanos) = ended.children.take(0);
        self.ended_cpu_nanos = self.ended_cpu_nanos.saturating_add(new_nanos);
        self.owe_upwards(parent, lost_nanos);
        true
    }

    /// This was counted of somebody for whom this process waited; nobody keeps an account for strangers.
    fn owe(&mut self, pid: u32, nanos: u64) {
        if let Some(account) = self.account(pid)
            && nanos > 0
        {
            account.owe(nanos);
            self.waiting.open.push(pid);
        }
    }

    /// The same, where anybody from this process on upwards may have waited.
    fn owe_upwards(&mut self, pid: u32, nanos: u64) {
        if nanos == 0 {
            return;
        }
        let reaper = self.waiting.reaper.map(|(reaper, _)| reaper);
        let mut next = Some(pid);
        for _ in 0..DEEPEST {
            let Some(pid) = next.filter(|pid| Some(*pid) != reaper) else {
                break;
            };
            self.owe(pid, nanos);
            let mut ended = self.waiting.ended.iter();
            if ended.any(|ended| ended.id.pid == pid && !ended.is_settled) {
                // It hands on what it did not wait for when it is settled.
                return;
            }
            next = self.account(pid).map(|account| account.parent);
        }
        if let Some(reaper) = reaper {
            self.owe(reaper, nanos);
        }
    }

    /// The children of one that ended have another parent now. Of those that are gone, it or anybody further up has waited for them.
    fn find_parents_of_children(&mut self, pid: u32, parent: u32) {
        for ended in &mut self.waiting.ended {
            if ended.children.parent == pid
                && !find_parent(&self.proc, ended.id, &mut ended.children, parent)
            {
                (ended.is_zombie, ended.is_settled) = (false, false);
            }
        }
        let mut index = 0;
        while index < self.processes.len() {
            let (id, children) = (self.processes[index].id, &mut self.files[index].children);
            if children.parent == pid && !find_parent(&self.proc, id, children, parent) {
                self.remove(index);
            } else {
                index += 1;
            }
        }
    }
}

/// Reads who the parent is. False when the process is gone: then the one whom its parent had may have waited for it.
fn find_parent(proc: &ProcFolder, id: ProcessId, children: &mut ChildrenCpu, before: u32) -> bool {
    let mut buffer = [0; STAT_BYTES];
    let stat = proc.stat_of(id.pid, &mut buffer);
    let stat = stat.filter(|stat| stat.start_ticks == id.start_ticks);
    children.may_be_orphan |= stat.is_none();
    children.parent = stat.map_or(before, |stat| stat.parent);
    stat.is_some()
}

fn process_state(proc: &ProcFolder, id: ProcessId) -> ProcessState {
    let mut buffer = [0; STAT_BYTES];
    match proc.stat_of(id.pid, &mut buffer) {
        Some(stat) if stat.start_ticks != id.start_ticks => ProcessState::Gone,
        None => ProcessState::Gone,
        Some(stat) => match stat.state {
            b'Z' if stat.threads <= 1 => ProcessState::Zombie,
            b'X' | b'x' => ProcessState::Leaving,
            _ => ProcessState::Alive,
        },
    }
}
