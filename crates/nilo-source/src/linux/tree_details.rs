//! What is read of a process about once a second: its details, and its command line when it may be another one.

use super::{ProcessTree, SMALL_TREE, command_hash};
use crate::linux::cpu_clock::own_thread_nanos;
use crate::linux::describe::{Command, describe};
use crate::linux::proc_folder::STAT_BYTES;
use crate::tracked_process::Change;

/// A process's detail is read this soon after it joined, then ever more rarely up to the full interval: short lives have peaks too.
const SOONEST_DETAIL_NANOS: u64 = 50_000_000;
/// What was `exec` is over after this.
const EXEC_NANOS: u64 = 1_000_000_000;
/// The command line is compared this often even when nothing hints at a change.
const COMMAND_EVERY_NANOS: u64 = 5_000_000_000;

impl ProcessTree {
    /// Reads the detail that is due, in turn, inside the budget; the first one of a process is always read, and the last one:
    /// it has the high-water mark.
    pub(super) fn read_details(&mut self) {
        self.detail_budget.refill(self.now_nanos);
        let count = self.processes.len();
        if count == 0 {
            return;
        }
        let mut price_from = None;
        for step in 0..count {
            let index = (self.detail_cursor + step) % count;
            if self.files[index].next_detail_nanos > self.now_nanos && !self.thorough {
                continue;
            }
            let process = &self.processes[index];
            // What was read in the middle of `exec` is of the old program, and the new one may sleep from its start.
            let is_new = self.now_nanos < self.files[index].renewed_nanos + EXEC_NANOS;
            if !is_new && self.files[index].slept_since_detail(process.reading) {
                self.schedule_detail(index);
                continue;
            }
            let is_first = process.detail.threads.is_none();
            if !is_first && !self.thorough && !self.detail_budget.allows() {
                self.detail_cursor = index;
                break;
            }
            let before = *price_from.get_or_insert_with(own_thread_nanos);
            self.read_detail(index);
            let after = own_thread_nanos();
            self.detail_budget.spend(after.saturating_sub(before));
            price_from = Some(after);
        }
    }

    pub(super) fn read_detail(&mut self, index: usize) {
        let (files, process) = (&mut self.files[index], &mut self.processes[index]);
        let outcome = files.read_detail(&self.proc, process.reading, &mut process.detail);
        process.detail_is_new = true;
        if outcome.refused {
            self.blind
                .refused(process.id.pid, &process.info.name, process.info.uid);
        }
        if let Some(children_nanos) = outcome.children_nanos {
            let clock_nanos = process.reading.cpu_nanos;
            files
                .children
                .see(children_nanos, clock_nanos, self.now_nanos);
        }
        if outcome.leads_session {
            self.members.sessions.insert(process.id.pid);
        }
        if let Some(count) = process.detail.minor_faults {
            self.take_faults(index, count, outcome.memory_replaced);
        }
        self.schedule_detail(index);
        let files = &mut self.files[index];
        if outcome.program_changed || self.now_nanos >= files.next_command_nanos {
            let wait = match self.look_at_command(index) {
                true => COMMAND_EVERY_NANOS,
                false => 0,
            };
            self.files[index].next_command_nanos = self.now_nanos.saturating_add(wait);
        }
    }

    pub(super) fn schedule_detail(&mut self, index: usize) {
        let (files, process) = (&mut self.files[index], &self.processes[index]);
        let begun_nanos = process.first_seen_nanos.max(files.renewed_nanos);
        let age = self.now_nanos.saturating_sub(begun_nanos);
        // The kernel keeps the high-water mark until it is read, so in a larger tree it may wait.
        let turns = if self.processes.len() > SMALL_TREE {
            2
        } else {
            1
        };
        let every = self.options.detail_every_nanos.saturating_mul(turns).max(1);
        let interval = (age / 4).clamp(SOONEST_DETAIL_NANOS.min(every), every);
        let wait = spread(interval, process.id.pid, self.now_nanos);
        files.next_detail_nanos = self.now_nanos.saturating_add(wait);
    }

    /// Looks what the process runs; false where that cannot be told now.
    pub(super) fn look_at_command(&mut self, index: usize) -> bool {
        let (files, process) = (&mut self.files[index], &mut self.processes[index]);
        let pid = process.id.pid;
        let mut raw = [0u8; 8192];
        let Ok(count) = self
            .proc
            .open_of(pid, "cmdline")
            .and_then(|file| rustix::io::read(file, &mut raw[..]))
        else {
            return false;
        };
        // In the middle of `exec` there is no command line. A process that was killed gives its memory back, and the command line with it, before it is gone.
        if count == 0 {
            return false;
        }
        let hash = command_hash(files.comm(), &raw[..count]);
        if hash == files.command_hash {
            return true;
        }
        let mut buffer = [0; STAT_BYTES];
        let Some(stat) = self.proc.stat_of(pid, &mut buffer) else {
            return false;
        };
        files.command_hash = hash;
        let command = Command {
            raw: raw[..count].to_vec(),
        };
        let mut info = describe(&self.proc, pid, &stat, &command);
        info.parent = process.info.parent;
        if info.name != process.info.name || info.command != process.info.command {
            self.changes.push(Change::Renamed(process.id));
        }
        process.info = info;
        true
    }
}

/// An interval moved by up to an eighth either way, so that processes born together are not read together.
fn spread(interval: u64, pid: u32, now_nanos: u64) -> u64 {
    let mixed = (u64::from(pid) ^ now_nanos).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    interval - interval / 8 + mixed % (interval / 4).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_stay_within_an_eighth() {
        for pid in 0..1000 {
            let moved = spread(1000, pid, u64::from(pid) * 77);
            assert!((875..1125).contains(&moved), "{moved}");
        }
        assert_eq!(spread(0, 1, 2), 0);
    }
}
