//! The beat of the sampling loop: a fixed rate without drift, late ticks counted, a slower pace when the machine cannot keep up.
//!
//! Deadlines are multiples of the interval from the start, so a late tick does not shift the ones after it.
//! Ticks that were missed altogether are skipped and counted, never made up for in a burst.

/// Slowest pace that backing off leads to.
const SLOWEST_NANOS: u64 = 60_000_000_000;
/// A tick may take this share of the interval before the pace is halved.
const BUSY_SHARE: f64 = 0.5;
/// The pace comes back when a tick takes less than this share of the faster interval.
const CALM_SHARE: f64 = 0.1;
/// Ticks between two changes of pace, so that one hiccup changes nothing.
const PATIENCE: u64 = 32;

/// Why the pace changed, with the interval from here on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PaceChange {
    pub(crate) interval_nanos: u64,
    pub(crate) reason: String,
}

/// How a tick arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TickArrival {
    /// How long after its deadline.
    pub(crate) lateness_nanos: u64,
}

/// The schedule of ticks.
#[derive(Debug)]
pub(crate) struct Pace {
    asked_nanos: u64,
    interval_nanos: u64,
    next_nanos: u64,
    ticks: u64,
    late_ticks: u64,
    /// Smoothed time that a tick takes.
    cost_nanos: f64,
    ticks_since_change: u64,
    late_since_change: u64,
}

impl Pace {
    /// The first tick is due at once.
    pub(crate) fn new(now_nanos: u64, interval_nanos: u64) -> Pace {
        Pace {
            asked_nanos: interval_nanos,
            interval_nanos,
            next_nanos: now_nanos,
            ticks: 0,
            late_ticks: 0,
            cost_nanos: 0.0,
            ticks_since_change: 0,
            late_since_change: 0,
        }
    }

    pub(crate) fn interval_nanos(&self) -> u64 {
        self.interval_nanos
    }

    pub(crate) fn ticks(&self) -> u64 {
        self.ticks
    }

    pub(crate) fn late_ticks(&self) -> u64 {
        self.late_ticks
    }

    /// How long until the next tick.
    pub(crate) fn wait_nanos(&self, now_nanos: u64) -> u64 {
        self.next_nanos.saturating_sub(now_nanos)
    }

    /// A tick begins: counts it and sets the deadline of the next.
    pub(crate) fn arrive(&mut self, now_nanos: u64) -> TickArrival {
        let lateness_nanos = now_nanos.saturating_sub(self.next_nanos);
        self.ticks += 1;
        self.ticks_since_change += 1;
        let skipped = lateness_nanos / self.interval_nanos;
        let late =
            skipped + u64::from(lateness_nanos % self.interval_nanos > self.interval_nanos / 2);
        self.late_ticks += late;
        self.late_since_change += late.min(1);
        self.next_nanos += (skipped + 1) * self.interval_nanos;
        TickArrival { lateness_nanos }
    }

    /// The recorder was stopped and goes on: what it could not sample meanwhile is a gap, and no tick is late for it.
    pub(crate) fn resume(&mut self, now_nanos: u64) {
        if let Some(behind_nanos) = now_nanos.checked_sub(self.next_nanos) {
            self.next_nanos += (behind_nanos / self.interval_nanos + 1) * self.interval_nanos;
        }
    }

    /// A tick is over: `took_nanos` from its arrival. Says so when the pace changes.
    pub(crate) fn finish(&mut self, now_nanos: u64, took_nanos: u64) -> Option<PaceChange> {
        let weight = if self.ticks == 1 { 1.0 } else { 0.1 };
        self.cost_nanos += weight * (took_nanos as f64 - self.cost_nanos);
        if self.ticks_since_change < PATIENCE {
            return None;
        }
        let busy = self.cost_nanos / self.interval_nanos as f64;
        let late = self.late_since_change as f64 / self.ticks_since_change as f64;
        if (busy > BUSY_SHARE || late > BUSY_SHARE) && self.interval_nanos < SLOWEST_NANOS {
            let reason = if busy > BUSY_SHARE {
                format!("a sample takes {:.1} ms", self.cost_nanos / 1e6)
            } else {
                format!("{:.0} % of the ticks came late", 100.0 * late)
            };
            return Some(self.change(now_nanos, self.interval_nanos * 2, reason));
        }
        let faster = (self.interval_nanos / 2).max(self.asked_nanos);
        let calm = self.cost_nanos < CALM_SHARE * faster as f64 && late < CALM_SHARE;
        if self.interval_nanos > self.asked_nanos && calm && self.ticks_since_change >= 4 * PATIENCE
        {
            return Some(self.change(now_nanos, faster, "the machine keeps up again".to_owned()));
        }
        if self.ticks_since_change >= 4 * PATIENCE {
            self.ticks_since_change = 0;
            self.late_since_change = 0;
        }
        None
    }

    fn change(&mut self, now_nanos: u64, interval_nanos: u64, reason: String) -> PaceChange {
        self.interval_nanos = interval_nanos.min(SLOWEST_NANOS).max(self.asked_nanos);
        self.next_nanos = now_nanos + self.interval_nanos;
        self.ticks_since_change = 0;
        self.late_since_change = 0;
        PaceChange {
            interval_nanos: self.interval_nanos,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn ticks_do_not_drift() {
        let mut pace = Pace::new(1000, 100);
        let mut now = 1000;
        for n in 1..=50 {
            now += pace.wait_nanos(now) + 3;
            pace.arrive(now);
            pace.finish(now, 1);
            assert_eq!(pace.next_nanos, 1000 + n * 100);
        }
        assert_eq!(pace.late_ticks(), 0);
    }

    #[test]
    fn missed_ticks_are_counted_and_not_made_up_for() {
        let mut pace = Pace::new(0, 100);
        pace.arrive(0);
        let arrival = pace.arrive(100 + 730);
        assert_eq!(arrival.lateness_nanos, 730);
        assert_eq!(pace.late_ticks(), 7);
        assert_eq!(pace.wait_nanos(830), 70);
    }

    #[test]
    fn a_recorder_that_was_stopped_is_not_late() {
        let mut pace = Pace::new(0, 100);
        pace.arrive(0);
        pace.resume(1530);
        assert_eq!(pace.wait_nanos(1530), 70);
        pace.arrive(1600);
        assert_eq!(pace.late_ticks(), 0);
        // What is not due yet stays where it is.
        pace.resume(1650);
        assert_eq!(pace.wait_nanos(1650), 50);
    }

    #[test]
    fn a_tick_later_than_half_an_interval_is_late() {
        let mut pace = Pace::new(0, 100);
        pace.arrive(40);
        assert_eq!(pace.late_ticks(), 0);
        pace.arrive(160);
        assert_eq!(pace.late_ticks(), 1);
    }

    #[test]
    fn costly_samples_slow_the_pace_and_cheap_ones_bring_it_back() {
        let mut pace = Pace::new(0, MS);
        let mut now = 0;
        let mut changes = Vec::new();
        let mut tick = |pace: &mut Pace, took: u64| {
            now += pace.wait_nanos(now);
            pace.arrive(now);
            changes.extend(pace.finish(now, took).map(|change| change.interval_nanos));
        };
        for _ in 0..100 {
            tick(&mut pace, 3 * MS / 2);
        }
        assert_eq!(pace.interval_nanos(), 4 * MS);
        for _ in 0..2000 {
            tick(&mut pace, MS / 100);
        }
        assert_eq!(changes, [2 * MS, 4 * MS, 2 * MS, MS]);
    }

    #[test]
    fn one_hiccup_changes_nothing() {
        let mut pace = Pace::new(0, MS);
        let mut now = 0;
        for n in 0..200 {
            now += pace.wait_nanos(now);
            pace.arrive(now);
            assert_eq!(
                pace.finish(now, if n == 50 { 4 * MS } else { MS / 100 }),
                None
            );
        }
    }
}
