//! What the tree holds: following each process's memory, counting faults, measuring, sharing out.

use std::collections::{HashMap, HashSet};

use nilo_sample::process::ProcessId;

use super::{ProcessTree, family_of};
use crate::holdings::{FamilyKey, Measured};
use crate::linux::measuring::{Findings, TreeState};
use crate::linux::process::{Attention, TickOutcome};
use crate::tracked_process::ProcessReading;

/// How soon faults of a process that shares memory are counted again, and how seldom when they are of no account.
const FAULTS_NANOS: (u64, u64) = (100_000_000, 600_000_000);
/// Those of a process that was born a moment ago are counted on each tick: it may be gone before it is measured.
const YOUNG_NANOS: u64 = 500_000_000;
/// Doubt of one part in this many of the tree's memory is of account.
const DOUBT_OF_ACCOUNT: u64 = 500;
/// `stat` and `statm` may differ by less than this at one moment: the kernel counts pages for each processor apart.
const LEAST_GROWTH_BYTES: u64 = 1 << 20;
/// A process that lost one part in this many of its memory at once may have called `exec`.
const LOST_PART: u64 = 16;

impl ProcessTree {
    /// A process's memory moved. One that lost much at once may have another program's memory now.
    pub(super) fn follow_memory(&mut self, index: usize, before: ProcessReading) {
        let process = &self.processes[index];
        let (pid, reading) = (process.id.pid, process.reading);
        let lost = before.rss_bytes.saturating_sub(reading.rss_bytes);
        if lost > before.rss_bytes / LOST_PART && self.holdings.has_relatives(pid) {
            self.count_faults(index);
        }
        self.left_to_relatives |= self.holdings.update(pid, reading);
        self.has_moved = true;
    }

    /// A child of this process was found. It may have been forked after the process was read on this tick: what that took
    /// in between came to the child by inheritance, and would count once more when it is seen to have grown.
    pub(super) fn read_again(&mut self, pid: u32) {
        let mut processes = self.processes.iter();
        let Some(index) = processes.position(|process| process.id.pid == pid) else {
            return;
        };
        let before = self.processes[index].reading;
        let files = &mut self.files[index];
        // One that is gone by now is noticed on the next tick.
        if let TickOutcome::Alive(reading) =
            files.read(&self.proc, before, self.now_nanos, Attention::Thorough)
            && reading != before
        {
            self.processes[index].reading = reading;
            self.follow_memory(index, before);
        }
    }

    /// Counts the faults of a process that shares memory: copies of inherited pages show nowhere else.
    fn count_faults(&mut self, index: usize) {
        let Some(faults) = self.files[index].read_faults(&self.proc) else {
            return;
        };
        let clock_nanos = self.processes[index].reading.cpu_nanos;
        self.files[index]
            .children
            .see(faults.children_nanos, clock_nanos, self.now_nanos);
        // Growth since its memory was read would not explain these faults, but hide as many copies later.
        let process = &mut self.processes[index];
        let grown = faults.rss_bytes.saturating_sub(process.reading.rss_bytes);
        if grown > LEAST_GROWTH_BYTES && !faults.memory_replaced {
            process.reading.rss_bytes = faults.rss_bytes;
            self.holdings.update(process.id.pid, process.reading);
            self.has_moved = true;
        }
        self.take_faults(index, faults.minor, faults.memory_replaced);
    }

    /// A child of another family: its parent may have called `exec` since it was last looked at.
    pub(super) fn notice_exec_of(&mut self, parent: u32, family: FamilyKey) {
        if self
            .holdings
            .family_of(parent)
            .is_some_and(|known| known != family)
            && let Some(index) = self
                .processes
                .iter()
                .position(|process| process.id.pid == parent)
        {
            self.count_faults(index);
        }
    }

    pub(super) fn take_faults(&mut self, index: usize, count: u64, replaced: bool) {
        let (files, process) = (&mut self.files[index], &mut self.processes[index]);
        let pid = process.id.pid;
        files.faults_cpu_nanos = process.reading.cpu_nanos;
        if replaced {
            process.is_forked = false;
            let family = family_of(files.layout, pid, None);
            self.holdings.exec(pid, family, count);
            self.has_moved = true;
            return;
        }
        let is_young = self.now_nanos.saturating_sub(process.first_seen_nanos) < YOUNG_NANOS;
        let doubted = self.holdings.count_faults(pid, count, is_young);
        self.has_moved |= doubted > 0;
        let (soon, seldom) = FAULTS_NANOS;
        let wait = if is_young {
            0
        } else if doubted > self.holdings.bytes() / DOUBT_OF_ACCOUNT {
            soon
        } else {
            (2 * files.faults_wait_nanos).clamp(soon, seldom)
        };
        files.faults_wait_nanos = wait;
        files.next_faults_nanos = self.now_nanos.saturating_add(wait);
    }

    /// Counts faults where a process that shares memory has run since the last count.
    pub(super) fn follow_copies(&mut self) {
        for index in 0..self.processes.len() {
            let (files, process) = (&self.files[index], &self.processes[index]);
            let has_run = process.reading.cpu_nanos != files.faults_cpu_nanos;
            if has_run
                && self.now_nanos >= files.next_faults_nanos
                && self.holdings.has_relatives(process.id.pid)
            {
                self.count_faults(index);
            }
        }
    }

    /// Measures what is in doubt, as far as the budget goes.
    pub(super) fn measure(&mut self, since_last_tick_nanos: u64) {
        let scene = TreeState {
            now_nanos: self.now_nanos,
            since_last_tick_nanos,
            last_coming_nanos: self.last_coming_nanos,
            processes: self.processes.len(),
        };
        if !self.measuring.is_due(&self.holdings, scene) {
            return;
        }
        let mut refused = Vec::new();
        let findings = self.measuring.step(
            &self.proc,
            &self.holdings,
            self.processes.iter().map(|process| process.id.pid),
            scene,
            |pid| refused.push(pid),
        );
        for pid in refused {
            if let Some(process) = self.processes.iter().find(|process| process.id.pid == pid) {
                self.blind
                    .refused(pid, &process.info.name, process.info.uid);
            }
        }
        if let Some(findings) = findings {
            // Who ended meanwhile left its pages to others, and must not be counted beside them; who was born meanwhile made
            // the others' shares smaller; and what was freed before the measurement must not look like growth after it.
            let cpu_nanos = self.cpu_of_each();
            self.read_all(Attention::Thorough);
            self.discover();
            self.set_back_cpu(&cpu_nanos);
            if !self.measuring.keeps(&findings, &self.holdings) {
                return;
            }
            self.count_faults_since(&findings);
            let before = self.holdings.bytes();
            self.take_findings(findings);
            self.holdings.settle();
            self.measuring.learn(before, self.holdings.bytes());
        }
    }

    fn cpu_of_each(&self) -> HashMap<ProcessId, u64> {
        let processes = self.processes.iter();
        processes
            .map(|process| (process.id, process.reading.cpu_nanos))
            .collect()
    }

    /// A measurement takes time: CPU time that was used meanwhile belongs to the next tick, or the curve would zigzag.
    fn set_back_cpu(&mut self, before: &HashMap<ProcessId, u64>) {
        for process in &mut self.processes {
            if let Some(cpu_nanos) = before.get(&process.id) {
                process.reading.cpu_nanos = *cpu_nanos;
            }
        }
    }

    /// Counts the faults of those that went on after they were measured: what they copied since is in the figures of their relatives,
    /// which no longer share it with them, and belongs to nobody else.
    fn count_faults_since(&mut self, findings: &Findings) {
        for index in 0..self.processes.len() {
            let (files, process) = (&self.files[index], &self.processes[index]);
            let pid = process.id.pid;
            if findings.measured.contains_key(&pid)
                && process.reading.cpu_nanos != files.faults_cpu_nanos
                && self.holdings.has_relatives(pid)
            {
                self.count_faults(index);
            }
        }
    }

    fn take_findings(&mut self, findings: Findings) {
        let measured = findings.measured.iter().map(|(pid, read)| {
            let since_begin = read.faults.zip(read.faults_at_begin);
            let measured = Measured {
                anon_bytes: read.rollup.anon_bytes,
                anon_pss_bytes: read.rollup.anon_pss_bytes,
                anon_alone_bytes: read.rollup.anon_alone_bytes,
                uses_huge_pages: read.rollup.anon_huge_bytes > 0,
                faults: read.faults,
                faults_since_begin: since_begin.map_or(0, |(now, begin)| now.saturating_sub(begin)),
            };
            (*pid, measured)
        });
        let measured = measured.collect();
        for (family, begin) in findings.families {
            self.holdings.take_anon(family, begin, &measured);
        }
        if let Some(files) = findings.files {
            let alive = |pid| self.members.pids.contains(&pid);
            let counted = files.finish(self.proc.page_bytes, alive);
            self.holdings.take_files(&counted, findings.file_doubt);
        }
        for process in &mut self.processes {
            if let Some(read) = findings.measured.get(&process.id.pid) {
                process.detail.pss_bytes = Some(read.rollup.pss_bytes);
                process.detail.uss_bytes = Some(read.rollup.uss_bytes);
                process.pss_is_new = true;
            }
        }
        self.has_moved = true;
    }

    /// Says what each process adds to the tree, the oldest first.
    pub(super) fn share_out(&mut self) {
        self.holdings.settle();
        self.memory_bytes = self.holdings.bytes();
        let mut oldest_first: Vec<usize> = (0..self.processes.len()).collect();
        oldest_first.sort_unstable_by_key(|index| {
            let id = self.processes[*index].id;
            (id.start_ticks, id.pid)
        });
        let pids: Vec<u32> = oldest_first
            .iter()
            .map(|index| self.processes[*index].id.pid)
            .collect();
        let parents: HashSet<u32> = self.processes.iter().map(|it| it.info.parent).collect();
        let is_parent = |pid: u32| parents.contains(&pid);
        let processes = &mut self.processes;
        self.holdings
            .share_out(pids.into_iter(), is_parent, |place, bytes| {
                processes[oldest_first[place]].memory_bytes = bytes;
            });
    }
}
