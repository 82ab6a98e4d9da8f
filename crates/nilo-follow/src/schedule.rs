//! When the engine looks again, and when it searches for leaks.

use std::time::{Duration, Instant};

use nilo_analysis::tracking::ResourceVerdict;
use nilo_forecast::RiskLevel;

/// The first search for leaks comes just after ten seconds of samples, fewer of which nobody calls a leak.
pub const FIRST_LEAK_SEARCH: Duration = Duration::from_secs(11);
/// Looks come this often.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Leaks show over tens of seconds, and searching for them costs more than looking.
const LEAKS_EVERY: Duration = Duration::from_secs(10);
/// A look that comes this much early searches too: looks a second apart are not exactly that, and the next one may be late for what is asked every ten.
const EARLY: Duration = Duration::from_millis(500);
/// Below this share of the limit a level is not near it.
const NEAR_SHARE: f64 = 0.5;

/// The times of looks.
#[derive(Debug)]
pub(crate) struct Schedule {
    idle: Duration,
    next_leaks: Instant,
}

impl Schedule {
    /// `idle` is the time between looks while nothing is near a limit or on its way there.
    pub(crate) fn new(now: Instant, idle: Duration, first_leaks: Duration) -> Schedule {
        Schedule {
            idle,
            next_leaks: now + first_leaks,
        }
    }

    /// Whether to search for leaks now. The times are fixed: a look that came late does not put off those after it.
    pub(crate) fn leaks_are_due(&mut self, now: Instant) -> bool {
        let due = now + EARLY >= self.next_leaks;
        while now + EARLY >= self.next_leaks {
            self.next_leaks += LEAKS_EVERY;
        }
        due
    }

    /// How long to wait after a look that found these.
    pub(crate) fn wait(&self, has_news: bool, risks: &[ResourceVerdict]) -> Duration {
        match has_news && risks.iter().any(is_near) {
            true => LOOK_EVERY,
            false => self.idle,
        }
    }
}

fn is_near(risk: &ResourceVerdict) -> bool {
    let limit = risk.reading.limit();
    limit.is_some_and(|limit| risk.reading.used_bytes >= NEAR_SHARE * limit)
        || risk.forecast.level > RiskLevel::Low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaks_are_searched_for_seldom() {
        let begin = Instant::now();
        let mut schedule = Schedule::new(begin, LOOK_EVERY, FIRST_LEAK_SEARCH);
        let mut due = |secs| schedule.leaks_are_due(begin + Duration::from_secs(secs));
        assert_eq!(
            [due(10), due(11), due(12), due(20), due(21)],
            [false, true, false, false, true]
        );
    }

    #[test]
    fn looks_that_are_late_or_early_do_not_put_off_the_searches() {
        let begin = Instant::now();
        let search_millis = |every_millis: u64| {
            let mut schedule = Schedule::new(begin, LOOK_EVERY, Duration::from_secs(10));
            let looks = (1..).map(|look| look * every_millis);
            let looks = looks.take_while(|millis| *millis <= 40_000);
            let due = |millis: &u64| schedule.leaks_are_due(begin + Duration::from_millis(*millis));
            looks.filter(due).collect::<Vec<_>>()
        };
        assert_eq!(search_millis(999), [9_990, 19_980, 29_970, 39_960]);
        assert_eq!(search_millis(3_000), [12_000, 21_000, 30_000]);
        assert_eq!(search_millis(9_000), [18_000, 27_000, 36_000]);
        // One that was held up for long is followed by one, not by all that were missed.
        let mut schedule = Schedule::new(begin, LOOK_EVERY, Duration::from_secs(10));
        let mut due = |secs| schedule.leaks_are_due(begin + Duration::from_secs(secs));
        assert_eq!([due(35), due(36), due(40)], [true, false, true]);
    }

    #[test]
    fn looks_are_rare_while_nothing_is_near_a_limit() {
        let idle = Duration::from_secs(2);
        let schedule = Schedule::new(Instant::now(), idle, LOOK_EVERY);
        let at = |used_bytes| {
            let mut risk = ResourceVerdict::unmeasured(nilo_analysis::tracking::Resource::Job);
            risk.reading.used_bytes = used_bytes;
            risk.reading.limit_bytes = Some(100.0);
            [risk]
        };
        assert_eq!(schedule.wait(true, &at(10.0)), idle);
        assert_eq!(schedule.wait(true, &at(60.0)), LOOK_EVERY);
        assert_eq!(schedule.wait(false, &at(60.0)), idle);
    }
}
