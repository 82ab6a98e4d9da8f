//! From what the method says to what came of it: tables learned by replaying drawn traces with known ends.
//!
//! The traces are the tuning seeds of `bench/verdicts`; the page in `docs/benchmarks/verdicts.md` checks the result on other ones.

/// Likelihoods, and the share of cases in which memory did run out.
const OBSERVED: [(f64, f64); 9] = [
    (0.0, 0.0),
    (0.15, 0.12),
    (0.25, 0.33),
    (0.35, 0.42),
    (0.45, 0.56),
    (0.55, 0.72),
    (0.65, 0.87),
    (0.85, 0.94),
    (1.0, 0.99),
];

/// The share of cases with this likelihood in which memory ran out.
pub(crate) fn confidence(likelihood: f64) -> f64 {
    let likelihood = likelihood.clamp(0.0, 1.0);
    let above = OBSERVED
        .partition_point(|(raw, _)| *raw < likelihood)
        .clamp(1, OBSERVED.len() - 1);
    let ((x0, y0), (x1, y1)) = (OBSERVED[above - 1], OBSERVED[above]);
    y0 + (y1 - y0) * (likelihood - x0) / (x1 - x0)
}

/// A likelihood from here on is right more often than not, with a margin for alarms that end somebody's sleep.
pub(crate) const ALARM_FROM: f64 = 0.55;

/// What has not raised an alarm is told with less confidence than any alarm, by this much at least.
const BELOW_ALARMS: f64 = 0.01;

/// The confidence that is told with a level: an alarm that stands has at least the confidence that raises one, and everything else less.
/// A single judgement may say otherwise; alarms are raised and cleared by several.
pub(crate) fn told_confidence(likelihood: f64, is_alarm: bool) -> f64 {
    let least_of_alarms = confidence(ALARM_FROM);
    match is_alarm {
        true => confidence(likelihood).max(least_of_alarms),
        false => confidence(likelihood).min(least_of_alarms - BELOW_ALARMS),
    }
}

/// Lines run a little late: noise reaches the limit before they do.
const EARLY: f64 = 0.94;
/// Nothing is so near that it could not take this share of the time that it has lasted.
const LEAST_SHARE: f64 = 0.02;

/// Seconds to the end with their 80 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Times {
    pub(crate) low: f64,
    pub(crate) expected: f64,
    pub(crate) high: f64,
}

/// What a time is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// A line through the level.
    Line,
    /// A level that rises in jumps, whose times are known less well.
    Stairs,
}

/// How far the true time may lie off, as a power of two: at least so much ...
const EARLIER: f64 = 0.45;
const LATER: f64 = 0.35;
/// ... more, the shorter the time is against what it was learned from ...
const EARLIER_WHEN_SHORT: f64 = 0.01;
const LATER_WHEN_SHORT: f64 = 0.016;
/// ... more, the less the growth so far was a line: what slows down comes later ...
const EARLIER_WHEN_UNEVEN: f64 = 0.4;
const LATER_WHEN_UNEVEN: f64 = 2.8;
/// ... and at most so much.
const EARLIEST: f64 = 1.7;
const LATEST: f64 = 2.1;
/// Jumps make all of it wider.
const JUMPS: f64 = 1.2;

/// The 80 % interval around a time that growth points to, which has lasted for `lasted_secs` and was uneven by `wobble`.
///
/// Found by search on the tuning seeds of both generators: the narrowest that hold the true time in 79 % of the judgements on the simulated jobs, and in 83 % on the shapes.
pub(crate) fn times(secs: f64, lasted_secs: f64, spread: Spread, wobble: f64) -> Times {
    let lasted = lasted_secs.max(1e-3);
    let expected = (secs * EARLY).max(LEAST_SHARE * lasted);
    let short = lasted / expected;
    let doubt = match spread {
        Spread::Line => 1.0,
        Spread::Stairs => JUMPS,
    };
    let earlier = EARLIER + EARLIER_WHEN_SHORT * short + EARLIER_WHEN_UNEVEN * wobble;
    let later = LATER + LATER_WHEN_SHORT * short + LATER_WHEN_UNEVEN * wobble;
    Times {
        low: expected / (doubt * earlier.min(EARLIEST)).exp2(),
        expected,
        high: expected * (doubt * later.min(LATEST)).exp2(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_rises_with_likelihood_and_stays_a_share() {
        let table: Vec<f64> = (0..=100)
            .map(|i| confidence(f64::from(i) / 100.0))
            .collect();
        assert!(table.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!((table[0], confidence(7.0)), (0.0, 0.99));
    }

    #[test]
    fn the_interval_holds_its_time_and_is_wider_for_stairs_and_uneven_growth() {
        let plain = times(300.0, 1000.0, Spread::Line, 0.0);
        let stairs = times(300.0, 1000.0, Spread::Stairs, 0.0);
        assert!(plain.low < plain.expected && plain.expected < plain.high);
        assert!(stairs.low < plain.low && stairs.high > plain.high);
        let uneven = times(300.0, 1000.0, Spread::Line, 0.3);
        assert!(uneven.low < plain.low && uneven.high > plain.high);
    }
}
