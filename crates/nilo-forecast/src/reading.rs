//! One look at a resource that can run out, and the clock that such looks are placed on.

/// A resource at one moment: host memory, a cgroup, a GPU, PyTorch's share of one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reading {
    /// Nanoseconds on any clock that does not go back.
    pub time_nanos: u64,
    /// What counts against the limit: a cgroup's working set, the host's memory that is not available, PyTorch's reserved memory.
    pub used_bytes: f64,
    /// The limit in force; `None` when nothing is known to kill.
    pub limit_bytes: Option<f64>,
    /// What is really held where `used_bytes` contains a cache that is given back in need: PyTorch's allocated memory.
    pub held_bytes: Option<f64>,
    /// File pages within `used_bytes` that the kernel can drop.
    pub reclaimable_bytes: f64,
    /// Files in `/dev/shm` and other tmpfs within `used_bytes`: they stay until they are deleted.
    pub tmpfs_bytes: Option<f64>,
    /// Shared memory within `used_bytes` that processes map without such a file. No forecast rests on it.
    pub shared_mapping_bytes: Option<f64>,
    /// The part in worker processes.
    pub children_bytes: Option<f64>,
    /// This job's part where `used_bytes` is the whole machine's.
    pub own_bytes: Option<f64>,
    /// What the job's own processes hold where `used_bytes` is that of a cgroup; absent where it was read at another time. No forecast rests on it.
    pub job_bytes: Option<f64>,
    /// Whether others are in that cgroup too: then the growth of the job is that of its processes.
    pub is_shared: bool,
    /// Swap in use.
    pub swap_used_bytes: Option<f64>,
    /// Swap that there is to go to.
    pub swap_total_bytes: Option<f64>,
    /// Share of the time in which everything waited for memory, 0 to 1.
    pub pressure_full: Option<f64>,
    /// The training step.
    pub step: Option<i64>,
}

impl Reading {
    /// Share of the limit that cannot be given back; absent without a limit.
    pub fn used_share(&self) -> Option<f64> {
        self.limit().map(|limit| self.needed_bytes() / limit)
    }

    /// What cannot be given back.
    pub fn needed_bytes(&self) -> f64 {
        let held = self
            .held_bytes
            .unwrap_or(self.used_bytes - self.reclaimable_bytes);
        held.max(0.0)
    }

    /// A limit that means something.
    pub fn limit(&self) -> Option<f64> {
        self.limit_bytes
            .filter(|limit| limit.is_finite() && *limit > 0.0)
    }

    /// Swap in use and in all, where there is any to go to.
    pub(crate) fn swap(&self) -> Option<(f64, f64)> {
        let total = self.swap_total_bytes.filter(|total| *total > 0.0)?;
        Some((self.swap_used_bytes.unwrap_or(0.0), total))
    }

    /// Whether memory is full and what does not fit goes to swap.
    pub(crate) fn is_swapping(&self) -> bool {
        let full = self
            .limit()
            .is_some_and(|limit| self.used_bytes >= FULL * limit);
        full && self
            .swap()
            .is_some_and(|(used, total)| used >= SWAP_IN_USE * total)
    }

    /// Whether every number in it is one.
    pub(crate) fn is_sound(&self) -> bool {
        let optional = [
            self.held_bytes,
            self.tmpfs_bytes,
            self.shared_mapping_bytes,
            self.children_bytes,
            self.own_bytes,
            self.job_bytes,
            self.swap_used_bytes,
            self.swap_total_bytes,
        ];
        let sound = |value: f64| value.is_finite() && value >= 0.0;
        sound(self.used_bytes)
            && sound(self.reclaimable_bytes)
            && optional.into_iter().flatten().all(sound)
    }
}

/// From this share of the limit on memory is full.
const FULL: f64 = 0.93;
/// From this share on swap is in use.
const SWAP_IN_USE: f64 = 0.02;

/// Counts the time in which samples came: a gap (a suspended job, a starved recorder) is cut out.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActiveClock {
    last_nanos: Option<u64>,
    secs: f64,
    interval_secs: f64,
}

/// A silence of this many usual intervals is a gap ...
const GAP_INTERVALS: f64 = 10.0;
/// ... if it is longer than this.
const SHORTEST_GAP_SECS: f64 = 5.0;

impl ActiveClock {
    /// The time of a sample, in seconds in which samples came; `None` when its time does not lie after the last one's.
    pub(crate) fn advance(&mut self, time_nanos: u64) -> Option<f64> {
        let Some(last) = self.last_nanos else {
            self.last_nanos = Some(time_nanos);
            return Some(0.0);
        };
        let passed = time_nanos.checked_sub(last).filter(|nanos| *nanos > 0)?;
        self.last_nanos = Some(time_nanos);
        let passed = passed as f64 / 1e9;
        let usual = self.interval_secs;
        if usual > 0.0 && passed > (GAP_INTERVALS * usual).max(SHORTEST_GAP_SECS) {
            self.secs += usual;
        } else {
            // The usual interval follows slowly, so that single late samples do not move it.
            self.interval_secs += (passed - usual) * if usual == 0.0 { 1.0 } else { 0.05 };
            self.secs += passed;
        }
        Some(self.secs)
    }

    pub(crate) fn interval_secs(&self) -> f64 {
        self.interval_secs
    }

    pub(crate) fn now_secs(&self) -> f64 {
        self.secs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_as_one_interval() {
        let mut clock = ActiveClock::default();
        for second in 0..100 {
            clock.advance(second * 1_000_000_000);
        }
        let after = clock.advance(10_000_000_000_000).unwrap();
        assert!((after - 100.0).abs() < 1e-6);
    }

    #[test]
    fn time_that_stands_or_goes_back_is_refused() {
        let mut clock = ActiveClock::default();
        assert_eq!(clock.advance(5), Some(0.0));
        assert_eq!(clock.advance(5), None);
        assert_eq!(clock.advance(4), None);
        assert!(clock.advance(6).is_some());
    }
}
