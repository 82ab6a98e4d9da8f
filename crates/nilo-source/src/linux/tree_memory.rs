//! What the tree holds: following each process's memory, counting faults, measuring, sharing out.

use std::collections::{HashMap, HashSet};

use nilo_sample::process::ProcessId;

use super::{ProcessTree, family_of};
use crate::holdings::{FamilyKey, FaultEvidence, Measured};
use crate::linux::file_pages::counted_twice_bytes;
use crate::linux::measuring::{Findings, TreeState};
use crate::linux::process::{ReadEffort, TickOutcome};
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
        if lost > before.rss_bytes / 2 {
            // `exec` gives back the old memory first; layout and name are those of the new program a moment later.
            self.files[index].renewed_nanos = self.now_nanos;
            self.files[index].next_detail_nanos = self.now_nanos;
        }
        self.left_to_relatives |= self.update_memory(pid, reading);
        self.has_moved = true;
    }

    /// A process has this memory now. Says whether it gave back memory that relatives are taken to hold on to.
    fn update_memory(&mut self, pid: u32, reading: ProcessReading) -> bool {
        if let Some(twice) = self.mapped_twice_now(pid, reading.shared_bytes) {
            self.holdings.see_mapped_twice(pid, twice);
        }
        self.holdings.update(pid, reading)
    }

    /// What of its memory a process counts more than once, where that could raise the level of the tree, whose peak is never taken back.
    pub(super) fn mapped_twice_now(&mut self, pid: u32, shared_bytes: u64) -> Option<u64> {
        if !self.holdings.may_count_twice(pid, shared_bytes) {
            return None;
        }
        let proc = &self.proc;
        let counted = self.measuring.look(shared_bytes, || {
            counted_twice_bytes(proc, pid, shared_bytes)
        })?;
        match counted {
            Ok(Some(twice)) => Some(twice),
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => None,
            // It has ended since: nobody can tell any more, and nothing is claimed.
            Ok(None) | Err(_) => Some(u64::MAX),
        }
    }

    /// Reads the memory of a process that moved since it was read on this tick.
    ///
    /// The parent of a child that was found may have forked it after that: what it took in between came to the child by inheritance,
    /// and would count once more when it is seen to have grown.
    pub(super) fn read_again(&mut self, pid: u32) {
        let mut processes = self.processes.iter();
        let Some(index) = processes.position(|process| process.id.pid == pid) else {
            return;
        };
        let before = self.processes[index].reading;
        let files = &mut self.files[index];
        // One that is gone by now is noticed on the next tick.
        if let TickOutcome::Alive(reading) =
            files.read(&self.proc, before, self.now_nanos, ReadEffort::Thorough)
            && reading != before
        {
            self.processes[index].reading = reading;
            self.follow_memory(index, before);
        }
    }

    /// Where a busy machine let a process grow between the reading of its memory and that of its high-water mark, its memory is read once more:
    /// of what the mark has above it nobody could tell whether it is new or mapped a second time.
    pub(super) fn follow_marks(&mut self) {
        let processes = self.processes.iter().filter(|process| {
            let least = process.reading.rss_bytes + LEAST_GROWTH_BYTES;
            let at_mark = process.detail.at_mark.filter(|_| process.detail_is_new);
            at_mark.is_some_and(|at_mark| at_mark.rss_bytes > least)
        });
        let grown: Vec<u32> = processes.map(|process| process.id.pid).collect();
        for pid in grown {
            self.read_again(pid);
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
        let grown = faults
            .rss_bytes
            .saturating_sub(self.processes[index].reading.rss_bytes);
        if grown > LEAST_GROWTH_BYTES && !faults.memory_replaced {
            self.follow_growth(index, faults.rss_bytes);
        }
        self.take_faults(index, faults.minor, faults.memory_replaced);
    }

    /// A process has grown to `rss_bytes` since it was read on this tick. `stat` does not tell of what kind that is, and what it reads of
    /// shared memory must not count as its own: `statm` is asked again. It has grown further by then, of the same kinds; taking that as well
    /// would be growth without its faults, and these would look like copies when they are counted next.
    fn follow_growth(&mut self, index: usize, rss_bytes: u64) {
        let process = &mut self.processes[index];
        let before = process.reading;
        let effort = ReadEffort::Thorough;
        let later = self.files[index].read(&self.proc, before, self.now_nanos, effort);
        let shared_grown = match later {
            TickOutcome::Alive(later) if later.rss_bytes > before.rss_bytes => {
                let all = later.rss_bytes - before.rss_bytes;
                let shared = later.shared_bytes.saturating_sub(before.shared_bytes);
                let part = shared.min(all) as f64 / all as f64;
                (part * (rss_bytes - before.rss_bytes) as f64) as u64
            }
            // Gone by now, or it gave all of it back: it was there, and of its own as far as anybody knows.
            _ => 0,
        };
        process.reading.rss_bytes = rss_bytes;
        process.reading.shared_bytes += shared_grown;
        let (pid, reading) = (process.id.pid, process.reading);
        self.update_memory(pid, reading);
        self.has_moved = true;
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
        let evidence = self.holdings.count_faults(pid, count, is_young);
        self.has_moved |= evidence != FaultEvidence::default();
        let (soon, seldom) = FAULTS_NANOS;
        let wait = if is_young {
            0
        } else if evidence.doubted_bytes > self.holdings.bytes() / DOUBT_OF_ACCOUNT {
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
            // Who ended meanwhile, or is about to, left its pages to others, and must not be counted beside them; who was born meanwhile made
            // the others' shares smaller; and what was freed before the measurement must not look like growth after it.
            let cpu_nanos = self.cpu_of_each();
            self.read_all(ReadEffort::Thorough);
            self.discover();
            self.set_back_cpu(&cpu_nanos);
            for (files, process) in self.files.iter().zip(&self.processes) {
                if files.is_leaving {
                    self.holdings.begin_leaving(process.id.pid);
                }
            }
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
        for process in &mut self.processes {
            process.mapped_twice_bytes = self.holdings.mapped_twice_bytes(process.id.pid);
        }
        let processes = &mut self.processes;
        self.holdings
            .share_out(pids.into_iter(), is_parent, |place, bytes| {
                processes[oldest_first[place]].memory_bytes = bytes;
            });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tree::TreeOptions;
    use crate::roots::Roots;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    const MIB: u64 = 1 << 20;

    #[test]
    fn shared_memory_that_a_process_maps_between_two_reads_of_a_tick_is_not_its_own() {
        let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
        tree.add_root(std::process::id()).unwrap();
        tree.tick(1);
        let before = tree.processes[0].reading;
        let bytes = 64 << 20;
        // SAFETY: a new mapping, at an address of the kernel's choice, that only this test uses.
        let shared = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let start =
                mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED).unwrap();
            start.cast::<u8>().write_bytes(1, bytes);
            start
        };
        tree.count_faults(0);
        let after = tree.processes[0].reading;
        assert!(after.rss_bytes >= before.rss_bytes + 60 * MIB);
        assert!(after.shared_bytes >= before.shared_bytes + 60 * MIB);
        assert_eq!(after.cpu_nanos, before.cpu_nanos);
        // SAFETY: the mapping of above, which nobody uses any more.
        unsafe { munmap(shared, bytes).unwrap() };
    }

    #[test]
    fn a_process_that_grew_before_its_mark_was_read_is_read_again() {
        let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
        tree.add_root(std::process::id()).unwrap();
        tree.tick(1);
        let before = tree.processes[0].reading.rss_bytes;
        let level = tree.holdings.bytes();
        let descriptor = rustix::fs::memfd_create(c"data", rustix::fs::MemfdFlags::CLOEXEC);
        let descriptor = descriptor.unwrap();
        let bytes = 32 << 20;
        rustix::fs::ftruncate(&descriptor, bytes as u64).unwrap();
        let mut mappings = Vec::new();
        for _ in 0..2 {
            // SAFETY: a new mapping, at an address of the kernel's choice, that only this test uses.
            mappings.push(unsafe {
                let protection = ProtFlags::READ | ProtFlags::WRITE;
                let null = std::ptr::null_mut();
                let start =
                    rustix::mm::mmap(null, bytes, protection, MapFlags::SHARED, &descriptor, 0);
                let start = start.unwrap();
                start.cast::<u8>().write_bytes(1, bytes);
                start
            });
        }
        let process = &mut tree.processes[0];
        process.detail.at_mark = Some(crate::tracked_process::ResidentMemory {
            rss_bytes: before + 64 * MIB,
            anon_bytes: before,
        });
        process.detail_is_new = false;
        tree.follow_marks();
        assert_eq!(tree.processes[0].reading.rss_bytes, before, "an old mark");
        tree.processes[0].detail_is_new = true;
        tree.follow_marks();
        tree.share_out();
        let process = &tree.processes[0];
        assert!(process.reading.rss_bytes > before + 60 * MIB);
        assert!(process.distinct_bytes() < before + 40 * MIB);
        assert!(tree.holdings.bytes() < level + 40 * MIB);
        for start in mappings {
            // SAFETY: a mapping of above, which nobody uses any more.
            unsafe { munmap(start, bytes).unwrap() };
        }
    }
}
