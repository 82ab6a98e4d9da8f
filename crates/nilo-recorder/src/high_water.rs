//! Marks of the kernel above the samples: a spike between two ticks shows in a process's high-water mark.

use std::collections::HashMap;

use nilo_sample::ProcessId;
use nilo_source::TrackedProcess;

/// What is remembered of a process between ticks.
#[derive(Debug, Clone, Copy)]
struct Remembered {
    /// The high-water mark when last read; `None` for one that lived before us and was not read yet.
    mark_bytes: Option<u64>,
    /// The largest RSS seen on a tick.
    sampled_peak_bytes: u64,
}

/// The marks of a tree.
#[derive(Debug, Default)]
pub(crate) struct HighWater {
    remembered: HashMap<ProcessId, Remembered>,
}

impl HighWater {
    /// A process joined; `attached` says that it lived before we came, so that its old mark is not ours.
    pub(crate) fn join(&mut self, process: &TrackedProcess, attached: bool) {
        let mark_bytes = match attached {
            true => process.detail.peak_rss_bytes,
            false => Some(0),
        };
        self.remembered.insert(
            process.id,
            Remembered {
                mark_bytes,
                sampled_peak_bytes: process.reading.rss_bytes,
            },
        );
    }

    pub(crate) fn leave(&mut self, id: ProcessId) {
        self.remembered.remove(&id);
    }

    /// What a mark proves beyond the samples since the last tick, for a tree that holds `memory_bytes` now.
    pub(crate) fn rise(&mut self, processes: &[TrackedProcess], memory_bytes: u64) -> Option<u64> {
        // The largest amount by which a mark of one process exceeds its level on this tick.
        let mut beyond = 0;
        for process in processes {
            let rss = process.reading.rss_bytes;
            let Some(remembered) = self.remembered.get_mut(&process.id) else {
                continue;
            };
            let new_mark = process.detail.peak_rss_bytes;
            if let Some(mark) = new_mark.filter(|_| process.detail_is_new) {
                let before = remembered.mark_bytes.replace(mark);
                let rose = before.is_some_and(|before| mark > before);
                if rose && mark > remembered.sampled_peak_bytes.max(rss) {
                    beyond = beyond.max(mark - rss);
                }
            }
            remembered.sampled_peak_bytes = remembered.sampled_peak_bytes.max(rss);
        }
        (beyond > 0).then_some(memory_bytes + beyond)
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
            memory_bytes: rss,
            first_seen_nanos: 0,
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
}
