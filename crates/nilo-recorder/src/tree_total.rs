//! The memory of a tree from readings of its processes.
//!
//! A sum of RSS counts shared pages once for each process: a parent of 200 MiB with four forked workers would "use" 1 GiB.
//! So each process counts with its RSS less the excess that its last PSS measurement showed.
//! Until a forked process has been measured, all it had when first seen is taken as shared with its parent, which is what `fork` does.
//! Its parent and siblings keep their old figures until then: halves of one measurement and one assumption do not add up.

use std::collections::HashMap;

use nilo_sample::ProcessId;
use nilo_source::TrackedProcess;

/// What is remembered of a process between ticks.
#[derive(Debug, Clone, Copy)]
struct Remembered {
    /// What of its RSS others count already: by assumption after a fork, then as measured.
    shared_bytes: u64,
    /// It was forked and PSS has not been measured since.
    assumed: bool,
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
    /// Parents of forked processes that wait for their first measurement.
    families: Vec<u32>,
}

impl TreeTotal {
    /// A process joined. `forked_from_bytes` is the parent's RSS when it shares the parent's pages;
    /// `attached` says that it lived before we came, so that its old mark is not ours.
    pub(crate) fn join(
        &mut self,
        process: &TrackedProcess,
        forked_from_bytes: Option<u64>,
        attached: bool,
    ) {
        let rss = process.reading.rss_bytes;
        let assumed = forked_from_bytes.map_or(0, |parent| parent.min(rss));
        let mark = if attached {
            process.detail.peak_rss_bytes.unwrap_or(u64::MAX)
        } else {
            0
        };
        self.remembered.insert(
            process.id,
            Remembered {
                shared_bytes: assumed,
                assumed: assumed > 0,
                peak_rss_bytes: mark,
                sampled_peak_bytes: rss,
            },
        );
    }

    /// The process replaced its memory by `exec`: nothing is shared by assumption any more.
    pub(crate) fn exec(&mut self, id: ProcessId) {
        if let Some(remembered) = self.remembered.get_mut(&id) {
            remembered.shared_bytes = 0;
            remembered.assumed = false;
        }
    }

    pub(crate) fn leave(&mut self, id: ProcessId) {
        self.remembered.remove(&id);
    }

    /// Finds the parents of which some forked child has not been measured.
    fn find_families_in_between(&mut self, processes: &[TrackedProcess]) {
        self.families.clear();
        for process in processes
            .iter()
            .filter(|process| process.shared_excess_bytes.is_none())
        {
            let assumed = self
                .remembered
                .get(&process.id)
                .is_some_and(|known| known.assumed);
            if assumed && !self.families.contains(&process.info.parent) {
                self.families.push(process.info.parent);
            }
        }
    }

    /// Adds up one tick.
    pub(crate) fn add_up(&mut self, processes: &[TrackedProcess]) -> Total {
        let mut total = Total::default();
        // The largest amount by which a mark of one process exceeds its level on this tick.
        let mut beyond = 0;
        let alone = processes.len() == 1;
        self.find_families_in_between(processes);
        for process in processes {
            let rss = process.reading.rss_bytes;
            let in_between = self.families.contains(&process.id.pid)
                || self.families.contains(&process.info.parent);
            let mut remembered = self.remembered.get_mut(&process.id);
            if let (Some(remembered), Some(excess), false) =
                (&mut remembered, process.shared_excess_bytes, in_between)
            {
                remembered.shared_bytes = excess;
                remembered.assumed = false;
            }
            let shared = match &remembered {
                Some(remembered) if !alone => remembered.shared_bytes,
                _ => 0,
            };
            total.rss_bytes += rss;
            total.memory_bytes += rss.saturating_sub(shared);
            total.swap_bytes += process.detail.swap_bytes.unwrap_or(0);
            total.pss_processes += u64::from(process.shared_excess_bytes.is_some());
            let Some(remembered) = remembered else {
                continue;
            };
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
        total.high_water_bytes = (beyond > 0).then(|| total.memory_bytes + beyond);
        total
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
                cpu_nanos: 0,
            },
            detail: ProcessDetail::default(),
            detail_is_new: false,
            pss_is_new: false,
            shared_excess_bytes: None,
            first_seen_nanos: 0,
        }
    }

    #[test]
    fn forked_workers_are_not_counted_again_before_they_are_measured() {
        let mut total = TreeTotal::default();
        let mut tree = vec![process(1, 200)];
        total.join(&tree[0], None, false);
        for pid in 2..6 {
            tree.push(process(pid, 190));
            total.join(&tree[pid as usize - 1], Some(200), false);
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
    fn measured_pss_takes_the_place_of_the_assumption() {
        let mut total = TreeTotal::default();
        let mut tree = vec![process(1, 200), process(2, 190)];
        total.join(&tree[0], None, false);
        total.join(&tree[1], Some(200), false);
        tree[0].shared_excess_bytes = Some(95);
        tree[1].shared_excess_bytes = Some(95);
        let sum = total.add_up(&tree);
        assert_eq!((sum.memory_bytes, sum.pss_processes), (200, 2));
    }

    #[test]
    fn a_family_is_measured_as_a_whole() {
        let mut total = TreeTotal::default();
        let mut tree = vec![process(1, 200), process(2, 200), process(3, 200)];
        tree[1].info.parent = 1;
        tree[2].info.parent = 1;
        total.join(&tree[0], None, false);
        total.join(&tree[1], Some(200), false);
        total.join(&tree[2], Some(200), false);
        // Each shares its pages with the two others: PSS is a third.
        for measured in 0..3 {
            tree[measured].shared_excess_bytes = Some(134);
            let memory = total.add_up(&tree).memory_bytes;
            assert!((198..=200).contains(&memory), "{memory} after {measured}");
        }
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
