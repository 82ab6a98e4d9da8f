//! Marks of the kernel above the samples: a spike between two ticks shows in a process's high-water mark.
//!
//! When it was, the mark does not tell, only that it came since the mark was read before.
//! So the other processes count with the least that they held in that time: what is claimed was reached for certain.
//!
//! A mark counts a page once for each time that its process has mapped it. What of that was measured is taken off.

use std::collections::HashMap;

use nilo_sample::ProcessId;
use nilo_source::TrackedProcess;

/// A process at one moment.
#[derive(Debug, Clone, Copy)]
struct Moment {
    rss_bytes: u64,
    /// What it added to the tree.
    added_bytes: u64,
    /// What RSS counts more than once.
    mapped_twice_bytes: u64,
}

impl Moment {
    /// As it was on this tick.
    fn of_tick(process: &TrackedProcess) -> Moment {
        Moment {
            rss_bytes: process.reading.rss_bytes,
            added_bytes: process.memory_bytes,
            mapped_twice_bytes: process.mapped_twice_bytes,
        }
    }

    /// As it was when its mark was read. That comes after its memory was read, long after on a busy machine,
    /// and what it has mapped of files and shared memory since then others may hold already.
    fn of_mark(process: &TrackedProcess) -> Option<Moment> {
        let at_mark = process.detail.at_mark?;
        let reading = process.reading;
        let anon_bytes = reading.rss_bytes.saturating_sub(reading.shared_bytes);
        let grown_bytes = at_mark.anon_bytes.saturating_sub(anon_bytes);
        Some(Moment {
            rss_bytes: at_mark.rss_bytes,
            added_bytes: process.memory_bytes + grown_bytes,
            mapped_twice_bytes: process.mapped_twice_bytes,
        })
    }

    fn higher(self, other: Moment) -> Moment {
        match other.rss_bytes >= self.rss_bytes {
            true => other,
            false => self,
        }
    }
}

/// What is remembered of a process between ticks.
#[derive(Debug, Clone, Copy)]
struct KnownMark {
    /// The high-water mark when last read; `None` before the first reading of a mark that may be older than the process in the tree.
    mark_bytes: Option<u64>,
    /// The largest RSS seen on a tick.
    sampled_peak_bytes: u64,
    /// When it was seen with most since the mark was read: a spike is what the mark has above that.
    highest: Moment,
    /// The least that the rest of the tree held since the mark was read.
    least_others_bytes: u64,
    was_forked: bool,
}

/// The largest resident memory of a process by a sample or a mark, and what of it was counted more than once.
#[derive(Debug, Clone, Copy, Default)]
struct LargestResident {
    rss_bytes: u64,
    mapped_twice_bytes: u64,
}

impl LargestResident {
    fn see(&mut self, rss_bytes: u64, mapped_twice_bytes: u64) {
        if rss_bytes > self.rss_bytes {
            *self = LargestResident {
                rss_bytes,
                mapped_twice_bytes,
            };
        }
    }
}

/// The marks of a tree.
#[derive(Debug, Default)]
pub(crate) struct HighWater {
    remembered: HashMap<ProcessId, KnownMark>,
    largest: LargestResident,
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
                highest: Moment::of_tick(process),
                least_others_bytes: u64::MAX,
                was_forked: process.is_forked,
            },
        );
    }

    pub(crate) fn leave(&mut self, id: ProcessId) {
        self.remembered.remove(&id);
    }

    /// What `wait4` tells of the largest process that ended, without the pages that this is known to have mapped more than once.
    ///
    /// It is taken for that of the largest process that was seen, unless it is twice as much: then it is another's, which nobody saw.
    pub(crate) fn distinct_of_ended(&self, max_rss_bytes: u64) -> u64 {
        match self.largest.rss_bytes.saturating_mul(2) > max_rss_bytes {
            true => max_rss_bytes.saturating_sub(self.largest.mapped_twice_bytes),
            false => max_rss_bytes,
        }
    }

    /// What a mark proves beyond the samples, for a tree that holds `memory_bytes` now.
    pub(crate) fn rise(&mut self, processes: &[TrackedProcess], memory_bytes: u64) -> Option<u64> {
        let mut highest = None;
        for process in processes {
            let now = Moment::of_tick(process);
            let Some(remembered) = self.remembered.get_mut(&process.id) else {
                continue;
            };
            // Another program has marks of its own.
            if remembered.was_forked && !process.is_forked {
                remembered.was_forked = false;
                remembered.mark_bytes = Some(0);
                remembered.sampled_peak_bytes = now.rss_bytes;
                remembered.highest = now;
            }
            let others = memory_bytes.saturating_sub(process.memory_bytes);
            remembered.least_others_bytes = remembered.least_others_bytes.min(others);
            remembered.sampled_peak_bytes = remembered.sampled_peak_bytes.max(now.rss_bytes);
            remembered.highest = remembered.highest.higher(now);
            self.largest.see(now.rss_bytes, now.mapped_twice_bytes);
            let new_mark = process.detail.peak_rss_bytes;
            if let Some(mark) = new_mark.filter(|_| process.detail_is_new) {
                // Who is alone shares with nobody; what it maps may be its own a second time all the same.
                let may_overlap = processes.len() > 1 || process.mapped_twice_bytes > 0;
                let at_mark = Moment::of_mark(process).filter(|_| may_overlap);
                let at_mark = at_mark.unwrap_or(now);
                let before = remembered.mark_bytes.replace(mark);
                let rose = before.is_some_and(|before| mark > before);
                if rose && mark > remembered.sampled_peak_bytes {
                    let nearest = remembered.highest.higher(at_mark);
                    self.largest.see(mark, nearest.mapped_twice_bytes);
                    let own = nearest.added_bytes + mark.saturating_sub(nearest.rss_bytes);
                    highest = highest.max(Some(remembered.least_others_bytes + own));
                }
                remembered.least_others_bytes = others;
                remembered.highest = now.higher(at_mark);
            }
        }
        highest.filter(|bytes| *bytes > memory_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::ProcessInfo;
    use nilo_source::{ProcessDetail, ProcessReading, ResidentMemory};

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
            mapped_twice_bytes: 0,
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
    fn pages_that_are_mapped_twice_are_in_a_mark_twice_and_in_the_peak_once() {
        let mut marks = HighWater::default();
        let mut tree = vec![process(1, 30)];
        marks.join(&tree[0], false);
        assert_eq!(marks.rise(&tree, 30), None);
        // It has mapped a file of 400 twice, which is measured on the same tick.
        tree[0].reading.rss_bytes = 830;
        tree[0].memory_bytes = 430;
        tree[0].mapped_twice_bytes = 400;
        tree[0].detail.peak_rss_bytes = Some(830);
        tree[0].detail_is_new = true;
        assert_eq!(marks.rise(&tree, 430), None);
        assert_eq!(marks.distinct_of_ended(830), 430);
        // A spike of its own beside that is found.
        tree[0].detail.peak_rss_bytes = Some(1130);
        assert_eq!(marks.rise(&tree, 430), Some(730));
        assert_eq!(marks.distinct_of_ended(1130), 730);
        // One after it was unmapped is all its own.
        tree[0].reading.rss_bytes = 30;
        tree[0].memory_bytes = 30;
        tree[0].mapped_twice_bytes = 0;
        assert_eq!(marks.rise(&tree, 30), None);
        tree[0].detail.peak_rss_bytes = Some(1500);
        assert_eq!(marks.rise(&tree, 30), Some(1500));
        assert_eq!(marks.distinct_of_ended(1500), 1500);
        // So is what a process held that nobody saw.
        assert_eq!(marks.distinct_of_ended(4000), 4000);
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

    /// A worker that had 10, of which 4 are shared, and is read again later in the tick.
    fn worker_at_its_mark(mark: u64, rss_bytes: u64, anon_bytes: u64) -> Option<u64> {
        let mut marks = HighWater::default();
        let mut tree = vec![process(1, 100), process(2, 10)];
        tree[1].is_forked = true;
        tree[1].memory_bytes = 2;
        tree[1].reading.shared_bytes = 4;
        tree[1].detail.peak_rss_bytes = Some(10);
        tree.iter().for_each(|process| marks.join(process, false));
        tree[1].detail.peak_rss_bytes = Some(mark);
        tree[1].detail.at_mark = Some(ResidentMemory {
            rss_bytes,
            anon_bytes,
        });
        tree[1].detail_is_new = true;
        marks.rise(&tree, 102)
    }

    #[test]
    fn shared_memory_that_was_mapped_before_the_mark_was_read_is_no_spike() {
        assert_eq!(worker_at_its_mark(80, 80, 6), None);
        // A spike of its own above that is one, and so is what it took itself meanwhile.
        assert_eq!(worker_at_its_mark(120, 80, 6), Some(142));
        assert_eq!(worker_at_its_mark(80, 80, 36), Some(132));
    }

    #[test]
    fn a_spike_is_what_the_mark_has_above_the_highest_sample_since_it_was_read() {
        let mut marks = HighWater::default();
        let mut tree = vec![process(1, 100), process(2, 10)];
        tree[1].is_forked = true;
        tree[1].memory_bytes = 2;
        tree[1].detail.peak_rss_bytes = Some(10);
        tree.iter().for_each(|process| marks.join(process, false));
        // It reads shared memory, and is seen shortly before it is done.
        tree[1].reading.rss_bytes = 85;
        assert_eq!(marks.rise(&tree, 102), None);
        tree[1].reading.rss_bytes = 10;
        tree[1].detail.peak_rss_bytes = Some(90);
        tree[1].detail_is_new = true;
        assert_eq!(marks.rise(&tree, 102), Some(107));
        // What it takes after that is its own again.
        tree[1].detail.peak_rss_bytes = Some(140);
        assert_eq!(marks.rise(&tree, 102), Some(232));
    }
}
