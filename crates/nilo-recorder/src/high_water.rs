//! Marks of the kernel above the samples: a spike between two ticks shows in a process's high-water mark.
//!
//! When it was, the mark does not tell, only that it came since the mark was read before.
//! So the other processes count with the least that they held in that time: what is claimed was reached for certain.

use std::collections::HashMap;

use nilo_sample::ProcessId;
use nilo_source::TrackedProcess;

/// What is remembered of a process between ticks.
#[derive(Debug, Clone, Copy)]
struct KnownMark {
    /// The high-water mark when last read; `None` before the first reading of a mark that may be older than the process in the tree.
    mark_bytes: Option<u64>,
    /// The largest RSS seen on a tick.
    sampled_peak_bytes: u64,
    /// The least that the rest of the tree held since the mark was read.
    least_others_bytes: u64,
    was_forked: bool,
}

/// The marks of a tree.
#[derive(Debug, Default)]
pub(crate) struct HighWater {
    remembered: HashMap<ProcessId, KnownMark>,
}

impl HighWater {
    /// A process joined; `attached` says that it lived before we came, so that its old mark is not ours.
    ///
    /// Neither is that of a forked one its own: between `vfork` and `exec` it is all that its parent ever held.
    pub(crate) fn join(&mut self, process: &TrackedProcess, attached: bool) {
        let mark_bytes = match attached || process.is_forked {
            true => process.detail.peak_rss_bytes,
            false => Some(0),
        };
        self.remembered.insert(
            process.id,
            KnownMark {
                mark_bytes,
                sampled_peak_bytes: process.reading.rss_bytes,
                least_others_bytes: u64::MAX,
                was_forked: process.is_forked,
            },
        );
    }

    pub(crate) fn leave(&mut self, id: ProcessId) {
        self.remembered.remove(&id);
    }

    /// What a mark proves beyond the samples, for a tree that holds `memory_bytes` now.
    pub(crate) fn rise(&mut self, processes: &[TrackedProcess], memory_bytes: u64) -> Option<u64> {
        let mut highest = None;
        for process in processes {
            let rss = process.reading.rss_bytes;
            let Some(remembered) = self.remembered.get_mut(&process.id) else {
                continue;
            };
            // Another program has marks of its own.
            if remembered.was_forked && !process.is_forked {
                remembered.was_forked = false;
                remembered.mark_bytes = Some(0);
                remembered.sampled_peak_bytes = rss;
            }
            let others = memory_bytes.saturating_sub(process.memory_bytes);
            remembered.least_others_bytes = remembered.least_others_bytes.min(others);
            let new_mark = process.detail.peak_rss_bytes;
            if let Some(mark) = new_mark.filter(|_| process.detail_is_new) {
                let before = remembered.mark_bytes.replace(mark);
                let rose = before.is_some_and(|before| mark > before);
                if rose && mark > remembered.sampled_peak_bytes.max(rss) {
                    let own = process.memory_bytes + (mark - rss);
                    highest = highest.max(Some(remembered.least_others_bytes + own));
                }
                remembered.least_others_bytes = others;
            }
            remembered.sampled_peak_bytes = remembered.sampled_peak_bytes.max(rss);
        }
        highest.filter(|bytes| *bytes > memory_bytes)
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
                ..ProcessReading::default()
            },
            detail: ProcessDetail::default(),
            detail_is_new: false,
            pss_is_new: false,
            memory_bytes: rss,
            is_forked: false,
            first_seen_nanos: 0,
            cpu_before_nanos: 0,
        }
    }

    #[test]
    fn a_mark_above_the_samples_is_a_high_water_once() {
        let mut marks = HighWater::default();
        let mut tree = vec![process(1, 100), process(2, 50)];
        tree.iter().for_each(|process| marks.join(process, false));
        assert_eq!(marks.rise(&tree, 150), None);
        tree[0].detail.peak_rss_bytes = Some(2000);
        tree[0].detail_is_new = true;
        assert_eq!(marks.rise(&tree, 150), Some(2050));
        assert_eq!(marks.rise(&tree, 150), None);
    }

    #[test]
    fn a_mark_from_before_we_attached_is_not_ours() {
        for known_at_once in [true, false] {
            let mut marks = HighWater::default();
            let mut tree = vec![process(1, 100)];
            tree[0].detail.peak_rss_bytes = known_at_once.then_some(5000);
            marks.join(&tree[0], true);
            tree[0].detail.peak_rss_bytes = Some(5000);
            tree[0].detail_is_new = true;
            assert_eq!(marks.rise(&tree, 100), None);
            tree[0].detail.peak_rss_bytes = Some(6000);
            assert_eq!(marks.rise(&tree, 100), Some(6000));
        }
    }

    #[test]
    fn others_count_with_the_least_they_held_since_the_mark_was_read() {
        let mut marks = HighWater::default();
        let mut tree = vec![process(1, 100), process(2, 50)];
        tree.iter().for_each(|process| marks.join(process, false));
        marks.rise(&tree, 150);
        // The other one had 10 in between, and that may have been when the spike was.
        tree[1].reading.rss_bytes = 10;
        tree[1].memory_bytes = 10;
        marks.rise(&tree, 110);
        tree[1].reading.rss_bytes = 300;
        tree[1].memory_bytes = 300;
        tree[0].detail.peak_rss_bytes = Some(500);
        tree[0].detail_is_new = true;
        assert_eq!(marks.rise(&tree, 400), Some(510));
    }

    #[test]
    fn a_child_does_not_bring_its_parents_mark_along() {
        let mut marks = HighWater::default();
        let mut tree = vec![process(1, 100), process(2, 100)];
        tree[1].is_forked = true;
        tree[1].memory_bytes = 0;
        tree.iter().for_each(|process| marks.join(process, false));
        tree[1].detail.peak_rss_bytes = Some(500);
        tree[1].detail_is_new = true;
        assert_eq!(marks.rise(&tree, 100), None);
        // As another program it has a mark of its own.
        tree[1].is_forked = false;
        tree[1].reading.rss_bytes = 5;
        tree[1].memory_bytes = 5;
        tree[1].detail.peak_rss_bytes = Some(40);
        assert_eq!(marks.rise(&tree, 105), Some(140));
    }
}
