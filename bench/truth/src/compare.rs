//! The recorded curve beside the truth.

/// Stability: this long without a change of the processes or of more than this share of the memory.
const STABLE_NANOS: u64 = 1_000_000_000;
const STABLE_SHARE: f64 = 0.005;
/// ... in which the recorder took so many samples. It takes ten a second, and one or two where busy loops leave it no processor:
/// what it could not look at is held against the machine, not against the curve.
const STABLE_SAMPLES: usize = 6;
/// The goals.
const P95_GOAL: f64 = 0.03;
const WORST_GOAL: f64 = 0.10;
const PEAK_GOAL: f64 = 0.01;
/// ... and where nothing taller can have stood between two counts, no more than this above the largest.
const PEAK_ABOVE_GOAL: f64 = 0.05;

/// One count of the distinct pages.
#[derive(Debug, Clone)]
pub struct PageCount {
    /// When counting began.
    pub from_nanos: u64,
    /// When it was done.
    pub to_nanos: u64,
    /// Bytes in distinct pages.
    pub bytes: u64,
    /// Whose.
    pub processes: Vec<u32>,
    /// Page faults of their children that have ended: who came and went between two counts shows here.
    pub ended_faults: u64,
}

/// A count with what was recorded at that time.
#[derive(Debug, Clone, Copy)]
pub struct ComparedCount {
    /// Since the first count.
    pub nanos: u64,
    /// The truth.
    pub truth_bytes: u64,
    /// The curve.
    pub recorded_bytes: f64,
    /// Nothing had changed for a second, and the recorder could look at it.
    pub stable: bool,
    /// How many processes there were.
    pub processes: usize,
    /// How many samples the recorder took since the last change.
    pub samples: usize,
}

impl ComparedCount {
    /// Relative and signed: negative when too little was recorded.
    pub fn error(&self) -> f64 {
        self.recorded_bytes / self.truth_bytes as f64 - 1.0
    }
}

/// How a job's recording compares.
#[derive(Debug, Clone)]
pub struct JobComparison {
    /// The job.
    pub job: String,
    /// Each count.
    pub moments: Vec<ComparedCount>,
    /// The recorded peak.
    pub peak_bytes: u64,
    /// Nothing taller can have stood between two counts.
    pub has_no_spikes: bool,
    /// What recording cost, in percent of a core.
    pub recorder_percent: f64,
}

impl JobComparison {
    /// Moments after a second of stability.
    pub fn stable(&self) -> impl Iterator<Item = &ComparedCount> {
        self.moments.iter().filter(|moment| moment.stable)
    }

    /// Absolute error that this share of the stable moments stays within.
    pub fn error_at(&self, share: f64) -> f64 {
        let mut errors: Vec<f64> = self.stable().map(|moment| moment.error().abs()).collect();
        errors.sort_by(f64::total_cmp);
        let index = (errors.len() as f64 * share).ceil() as usize;
        errors.get(index.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    /// The recorded peak against the largest count: negative when too low.
    pub fn peak_error(&self) -> f64 {
        self.peak_against(self.moments.iter())
    }

    /// The same against the largest count of a stable moment.
    pub fn stable_peak_error(&self) -> f64 {
        self.peak_against(self.stable())
    }

    fn peak_against<'a>(&self, moments: impl Iterator<Item = &'a ComparedCount>) -> f64 {
        let highest = moments.map(|moment| moment.truth_bytes).max();
        self.peak_bytes as f64 / highest.unwrap_or(1).max(1) as f64 - 1.0
    }

    /// Whether every goal is met; without a stable moment nothing was proved.
    pub fn meets_goals(&self) -> bool {
        self.meets_stable_goals() && self.peak_error() >= -PEAK_GOAL
    }

    /// Whether the goals are met as far as stable moments go: what no busy machine can spoil.
    pub fn meets_stable_goals(&self) -> bool {
        self.stable().count() >= 3
            && self.error_at(0.95) <= P95_GOAL
            && self.error_at(1.0) <= WORST_GOAL
            && self.stable_peak_error() >= -PEAK_GOAL
            && !(self.has_no_spikes && self.peak_error() > PEAK_ABOVE_GOAL)
    }
}

/// Puts the curve beside the truth. `curve` is in the order of time.
pub fn compare(
    job: String,
    truth: &[PageCount],
    curve: &[(u64, f64)],
    peak_bytes: u64,
    recorder_percent: f64,
) -> JobComparison {
    let first = truth.first().map_or(0, |truth| truth.from_nanos);
    let moments = truth.iter().enumerate().filter_map(|(index, now)| {
        // The last sample that was surely read before counting began: another one came after it.
        // A later one may tell of processes that left while their pages were counted.
        let before = curve.partition_point(|(time, _)| *time <= now.from_nanos);
        let recorded_bytes = curve.get(before.checked_sub(2)?)?.1;
        let since = unchanged_since(&truth[..=index]);
        let samples = curve[..before - 1].iter().rev();
        let samples = samples.take_while(|(time, _)| *time >= since).count();
        Some(ComparedCount {
            nanos: now.from_nanos - first,
            truth_bytes: now.bytes,
            recorded_bytes,
            stable: samples >= STABLE_SAMPLES && is_stable(&truth[..=index]),
            processes: now.processes.len(),
            samples,
        })
    });
    JobComparison {
        job,
        moments: moments.collect(),
        peak_bytes,
        has_no_spikes: false,
        recorder_percent,
    }
}

/// Whether the last of these counts comes after a second without change.
fn is_stable(counts: &[PageCount]) -> bool {
    let Some((now, before)) = counts.split_last() else {
        return false;
    };
    for earlier in before.iter().rev() {
        if !agree(earlier, now) {
            return false;
        }
        if now.from_nanos - earlier.to_nanos >= STABLE_NANOS {
            return true;
        }
    }
    false
}

/// Whether nothing has changed between two counts.
fn agree(earlier: &PageCount, now: &PageCount) -> bool {
    let moved = earlier.bytes.abs_diff(now.bytes) as f64;
    earlier.processes == now.processes
        && earlier.ended_faults == now.ended_faults
        && moved <= STABLE_SHARE * now.bytes as f64
}

/// From when on nothing is known to have changed: the end of the first of the last counts that agree.
fn unchanged_since(counts: &[PageCount]) -> u64 {
    let Some((now, before)) = counts.split_last() else {
        return 0;
    };
    let agreeing = before.iter().rev();
    let agreeing = agreeing.take_while(|earlier| agree(earlier, now));
    agreeing.last().map_or(now.to_nanos, |first| first.to_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn count(at: u64, bytes: u64, processes: &[u32]) -> PageCount {
        PageCount {
            from_nanos: at,
            to_nanos: at + SECOND / 100,
            bytes,
            processes: processes.to_vec(),
            ended_faults: 0,
        }
    }

    #[test]
    fn a_moment_is_stable_a_second_after_the_last_change() {
        let counts = [
            count(0, 1000, &[1]),
            count(SECOND, 1000, &[1, 2]),
            count(SECOND + SECOND / 2, 1001, &[1, 2]),
            count(2 * SECOND + SECOND / 10, 1001, &[1, 2]),
            count(3 * SECOND, 1500, &[1, 2]),
        ];
        let stable: Vec<bool> = (0..counts.len())
            .map(|index| is_stable(&counts[..=index]))
            .collect();
        assert_eq!(stable, [false, false, false, true, false]);
    }

    #[test]
    fn a_process_that_came_and_went_between_two_counts_is_a_change() {
        let mut counts = [0, 1, 2].map(|n| count(n * SECOND, 1000, &[1]));
        assert!(is_stable(&counts));
        counts[2].ended_faults = 30;
        assert!(!is_stable(&counts));
    }

    #[test]
    fn errors_are_relative_to_the_truth_and_goals_are_judged_on_stable_moments() {
        let truth: Vec<PageCount> = (0..10).map(|n| count(n * SECOND / 2, 1000, &[1])).collect();
        let mut curve: Vec<(u64, f64)> = (0..50).map(|n| (n * SECOND / 10, 1020.0)).collect();
        let close = compare(String::new(), &truth, &curve, 1000, 0.0);
        assert!(close.meets_goals() && (close.error_at(0.95) - 0.02).abs() < 1e-9);
        curve.iter_mut().for_each(|(_, bytes)| *bytes = 850.0);
        let off = compare(String::new(), &truth, &curve, 1000, 0.0);
        assert!(!off.meets_goals() && (off.error_at(1.0) - 0.15).abs() < 1e-9);
    }

    #[test]
    fn what_changes_while_pages_are_counted_is_held_against_nobody() {
        let truth: Vec<PageCount> = (0..10).map(|n| count(n * SECOND / 2, 1000, &[1])).collect();
        let mut curve: Vec<(u64, f64)> = (0..45).map(|n| (n * SECOND / 10, 1000.0)).collect();
        // One sample began before the count and was held up, the other came in the middle of it.
        let last = truth.last().unwrap();
        curve.push((last.from_nanos - 1, 300.0));
        curve.push((last.to_nanos - 1, 300.0));
        let compared = compare(String::new(), &truth, &curve, 1000, 0.0);
        assert!(compared.moments.last().unwrap().stable && compared.meets_goals());
    }

    #[test]
    fn a_moment_that_the_recorder_had_no_time_to_look_at_is_not_judged() {
        let mut truth: Vec<PageCount> =
            (0..10).map(|n| count(n * SECOND / 2, 1000, &[1])).collect();
        truth.extend((10..16).map(|n| count(n * SECOND / 2, 2000, &[1])));
        // It looks ten times a second, is held up from the change on, and gets the processor back two seconds later.
        let curve = |late_from: u64| -> Vec<(u64, f64)> {
            let usual = (0..50).map(|n| (n * SECOND / 10, 1000.0));
            let starved = [52, 59, 66].map(|n| (n * SECOND / 10, 1000.0));
            let back = (late_from..80).map(|n| (n * SECOND / 10, 2000.0));
            usual.chain(starved).chain(back).collect()
        };
        let starved = compare(String::new(), &truth, &curve(70), 2000, 0.0);
        assert!(starved.meets_stable_goals());
        // The same wrong level, seen ten times, is wrong.
        let mut wrong = curve(52);
        wrong.iter_mut().for_each(|(_, bytes)| *bytes = 1000.0);
        let wrong = compare(String::new(), &truth, &wrong, 2000, 0.0);
        assert!(!wrong.meets_stable_goals());
    }

    #[test]
    fn a_peak_below_the_truth_misses_the_goal() {
        let truth: Vec<PageCount> = (0..10).map(|n| count(n * SECOND / 2, 1000, &[1])).collect();
        let curve: Vec<(u64, f64)> = (0..50).map(|n| (n * SECOND / 10, 1000.0)).collect();
        assert!(compare(String::new(), &truth, &curve, 991, 0.0).meets_goals());
        assert!(!compare(String::new(), &truth, &curve, 980, 0.0).meets_goals());
    }

    #[test]
    fn a_peak_above_the_truth_misses_the_goal_where_nothing_can_have_been_missed() {
        let truth: Vec<PageCount> = (0..10).map(|n| count(n * SECOND / 2, 1000, &[1])).collect();
        let curve: Vec<(u64, f64)> = (0..50).map(|n| (n * SECOND / 10, 1000.0)).collect();
        let mut above = compare(String::new(), &truth, &curve, 1100, 0.0);
        assert!(above.meets_goals());
        above.has_no_spikes = true;
        assert!(!above.meets_goals());
        above.peak_bytes = 1040;
        assert!(above.meets_goals());
    }
}
