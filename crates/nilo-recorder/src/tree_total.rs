//! The memory of a tree from readings of its processes.
//!
//! A sum of RSS counts shared pages once for each process: a parent of 200 MiB with four forked workers would "use" 1 GiB.
//! RSS has two parts, and each is counted in its own way:
//! - Pages of files and shared memory (`statm` tells them on each tick): as many as the process with most of them has, because programs of one job hold the same libraries and buffers.
//! - Anonymous pages: each process's own, less what it shares with others since a `fork`.
//!   Until PSS has been measured, all that a forked process had when first seen is taken as its parent's.
//!
//! A round of PSS measurements then corrects each process, so that the sum is right at that moment; in between, only changes are estimated.

use std::collections::HashMap;

use nilo_sample::ProcessId;
use nilo_source::TrackedProcess;

/// What is remembered of a process between ticks.
#[derive(Debug, Clone, Copy)]
struct Remembered {
    /// What its anonymous pages and its part of the shared ones count too much.
    excess_bytes: i64,
    /// The high-water mark when last read.
    peak_rss_bytes: u64,
    /// The largest RSS seen on a tick.
    sampled_peak_bytes: u64,
}

/// The tree on one tick.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Total {
    pub(crate) memory_bytes: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) swap_bytes: u64,
    /// Processes whose PSS is known.
    pub(crate) pss_processes: u64,
    /// What a mark of the kernel proves beyond the samples since the tick before.
    pub(crate) high_water_bytes: Option<u64>,
}

/// Adds up processes tick by tick.
#[derive(Debug, Default)]
pub(crate) struct TreeTotal {
    remembered: HashMap<ProcessId, Remembered>,
}

/// The shared pages of a tree: counted as often as they are held, and held by one process at most.
#[derive(Debug, Clone, Copy)]
struct SharedPages {
    sum_bytes: u64,
    most_bytes: u64,
}

impl SharedPages {
    fn of<'a>(processes: impl Iterator<Item = &'a TrackedProcess>) -> SharedPages {
        let none = SharedPages {
            sum_bytes: 0,
            most_bytes: 0,
        };
        processes.fold(none, |pages, process| SharedPages {
            sum_bytes: pages.sum_bytes + process.reading.shared_bytes,
            most_bytes: pages.most_bytes.max(process.reading.shared_bytes),
        })
    }

    /// A process's part: all parts together are what one process holds at most.
    fn part_of(self, process: &TrackedProcess) -> i64 {
        if self.sum_bytes == 0 {
            return 0;
        }
        let share = process.reading.shared_bytes as f64 / self.sum_bytes as f64;
        (share * self.most_bytes as f64) as i64
    }
}

fn anonymous_bytes(process: &TrackedProcess) -> u64 {
    process
        .reading
        .rss_bytes
        .saturating_sub(process.reading.shared_bytes)
}

impl TreeTotal {
    /// A process joined. `forked_from` is the parent when it shares the parent's pages;
    /// `attached` says that it lived before we came, so that its old mark is not ours.
    pub(crate) fn join(
        &mut self,
        process: &TrackedProcess,
        forked_from: Option<&TrackedProcess>,
        attached: bool,
    ) {
        let own = anonymous_bytes(process);
        let excess = forked_from.map_or(0, |parent| anonymous_bytes(parent).min(own));
        let mark = if attached {
            process.detail.peak_rss_bytes.unwrap_or(u64::MAX)
        } else {
            0
        };
        self.remembered.insert(
            process.id,
            Remembered {
                excess_bytes: excess as i64,
                peak_rss_bytes: mark,
                sampled_peak_bytes: process.reading.rss_bytes,
            },
        );
    }

    /// The process replaced its memory by `exec`: nothing is shared by assumption any more.
    pub(crate) fn exec(&mut self, id: ProcessId) {
        if let Some(remembered) = self.remembered.get_mut(&id) {
            remembered.excess_bytes = 0;
        }
    }

    pub(crate) fn leave(&mut self, id: ProcessId) {
        self.remembered.remove(&id);
    }

    /// Adds up one tick.
    pub(crate) fn add_up(&mut self, processes: &[TrackedProcess]) -> Total {
        self.take_measurements(processes);
        let mut total = Total::default();
        // The largest amount by which a mark of one process exceeds its level on this tick.
        let mut beyond = 0;
        let mut memory: i64 = 0;
        let pages = SharedPages::of(processes.iter());
        for process in processes {
            let rss = process.reading.rss_bytes;
            total.rss_bytes += rss;
            total.swap_bytes += process.detail.swap_bytes.unwrap_or(0);
            total.pss_processes += u64::from(process.shared_excess_bytes.is_some());
            let level = anonymous_bytes(process) as i64 + pages.part_of(process);
            let Some(remembered) = self.remembered.get_mut(&process.id) else {
                memory += level;
                continue;
            };
            memory += (level - remembered.excess_bytes).max(0);
            if let Some(mark) = process
                .detail
                .peak_rss_bytes
                .filter(|_| process.detail_is_new)
            {
                if remembered.peak_rss_bytes == u64::MAX {
                    remembered.peak_rss_bytes = mark;
                }
                let rose = mark > remembered.peak_rss_bytes;
                if rose && mark > remembered.sampled_peak_bytes.max(rss) {
                    beyond = beyond.max(mark - rss);
                }
                remembered.peak_rss_bytes = mark;
            }
            remembered.sampled_peak_bytes = remembered.sampled_peak_bytes.max(rss);
        }
        total.memory_bytes = match processes {
            [alone] => alone.reading.rss_bytes,
            _ => memory.max(0) as u64,
        };
        total.high_water_bytes = (beyond > 0).then(|| total.memory_bytes + beyond);
        total
    }

    /// After a round of measurements each process counts exactly its PSS.
    fn take_measurements(&mut self, processes: &[TrackedProcess]) {
        let pages = SharedPages::of(processes.iter());
        for process in processes.iter().filter(|process| process.pss_is_new) {
            let remembered = self.remembered.get_mut(&process.id);
            if let (Some(remembered), Some(pss)) = (remembered, process.detail.pss_bytes) {
                let level = anonymous_bytes(process) as i64 + pages.part_of(process);
                remembered.excess_bytes = level - pss as i64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::ProcessInfo;
    use nilo_source::{ProcessDetail, ProcessReading};

    fn process(pid: u32, rss: u64) -> TrackedProcess {
        TrackedProcess {
            id: ProcessId {
                pid,
                start_ticks: 0,
            },
            info: ProcessInfo::default(),
            reading: ProcessReading {
                rss_bytes: rss,
                shared_bytes: 0,
                cpu_nanos: 0,
            },
            detail: ProcessDetail::default(),
            detail_is_new: false,
            pss_is_new: false,
            shared_excess_bytes: None,
            first_seen_nanos: 0,
        }
    }

    fn measured(process: &mut TrackedProcess, pss: u64) {
        process.detail.pss_bytes = Some(pss);
        process.shared_excess_bytes = Some(process.reading.rss_bytes - pss);
        process.pss_is_new = true;
    }

    #[test]
    fn forked_workers_are_not_counted_again_before_they_are_measured() {
        let mut total = TreeTotal::default();
        let mut tree = vec![process(1, 200)];
        total.join(&tree[0], None, false);
        for pid in 2..6 {
            let worker = process(pid, 190);
            total.join(&worker, Some(&tree[0]), false);
            tree.push(worker);
        }
        assert_eq!(total.add_up(&tree).memory_bytes, 200);
        tree[1].reading.rss_bytes = 250;
        let sum = total.add_up(&tree);
        assert_eq!(
            (sum.memory_bytes, sum.rss_bytes),
            (260, 200 + 250 + 3 * 190)
        );
    }

    #[test]
    fn a_round_of_measurements_takes_the_place_of_the_assumption() {
        let mut total = TreeTotal::default();
        let mut tree = vec![process(1, 200), process(2, 190)];
        total.join(&tree[0], None, false);
        let parent = tree[0].clone();
        total.join(&tree[1], Some(&parent), false);
        measured(&mut tree[0], 105);
        measured(&mut tree[1], 115);
        let sum = total.add_up(&tree);
        assert_eq!((sum.memory_bytes, sum.pss_processes), (220, 2));
        tree[0].pss_is_new = false;
        tree[1].pss_is_new = false;
        tree[1].reading.rss_bytes += 40;
        assert_eq!(total.add_up(&tree).memory_bytes, 260);
    }

    #[test]
    fn a_buffer_that_workers_map_later_is_counted_once() {
        let mut total = TreeTotal::default();
        let mut tree = vec![process(1, 410), process(2, 10), process(3, 10)];
        tree[0].reading.shared_bytes = 400;
        for process in &tree {
            total.join(process, None, false);
        }
        measured(&mut tree[0], 410);
        measured(&mut tree[1], 10);
        measured(&mut tree[2], 10);
        assert_eq!(total.add_up(&tree).memory_bytes, 430);
        for worker in &mut tree[1..] {
            worker.reading.rss_bytes = 410;
            worker.reading.shared_bytes = 400;
        }
        tree.iter_mut()
            .for_each(|process| process.pss_is_new = false);
        let memory = total.add_up(&tree).memory_bytes;
        assert!((425..=435).contains(&memory), "{memory}");
    }

    #[test]
    fn twenty_copies_of_a_program_hold_its_code_once() {
        let mut total = TreeTotal::default();
        let tree: Vec<TrackedProcess> = (1..=20)
            .map(|pid| {
                let mut copy = process(pid, 17);
                copy.reading.shared_bytes = 16;
                copy
            })
            .collect();
        tree.iter()
            .for_each(|process| total.join(process, None, false));
        let memory = total.add_up(&tree).memory_bytes;
        assert!((20..=36).contains(&memory), "{memory}");
    }

    #[test]
    fn a_mark_above_the_samples_is_a_high_water_once() {
        let mut total = TreeTotal::default();
        let mut tree = vec![process(1, 100), process(2, 50)];
        total.join(&tree[0], None, false);
        total.join(&tree[1], None, false);
        assert_eq!(total.add_up(&tree).high_water_bytes, None);
        tree[0].detail.peak_rss_bytes = Some(2000);
        tree[0].detail_is_new = true;
        assert_eq!(total.add_up(&tree).high_water_bytes, Some(2050));
        assert_eq!(total.add_up(&tree).high_water_bytes, None);
    }

    #[test]
    fn a_mark_from_before_we_attached_is_not_ours() {
        let mut total = TreeTotal::default();
        let mut tree = vec![process(1, 100)];
        tree[0].detail.peak_rss_bytes = Some(5000);
        total.join(&tree[0], None, true);
        tree[0].detail_is_new = true;
        assert_eq!(total.add_up(&tree).high_water_bytes, None);
        tree[0].detail.peak_rss_bytes = Some(6000);
        assert_eq!(total.add_up(&tree).high_water_bytes, Some(6000));
    }

    #[test]
    fn one_process_alone_is_its_rss() {
        let mut total = TreeTotal::default();
        let mut tree = vec![process(1, 100)];
        tree[0].shared_excess_bytes = Some(60);
        total.join(&tree[0], None, false);
        assert_eq!(total.add_up(&tree).memory_bytes, 100);
    }
}
