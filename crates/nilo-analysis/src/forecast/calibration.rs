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
    /// A level that rises in jumps, whose times are known half as well.
    Stairs,
}

/// The interval around a time: the shorter it is against what it was learned from, the wider in proportion.
pub(crate) fn times(secs: f64, lasted_secs: f64, spread: Spread) -> Times {
    let lasted = lasted_secs.max(1e-3);
    let expected = (secs * EARLY).max(LEAST_SHARE * lasted);
    let share = expected / lasted;
    let doubt = match spread {
        Spread::Line => 1.0,
        Spread::Stairs => 2.0,
    };
    let below = doubt * (0.28 + 0.025 / share).min(1.1);
    let above = doubt * (0.1 + 0.03 / share).min(2.0);
    Times {
        low: expected / below.exp2(),
        expected,
        high: expected * above.exp2(),
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
    fn the_interval_holds_its_time_and_is_wider_for_stairs() {
        let plain = times(300.0, 1000.0, Spread::Line);
        let stairs = times(300.0, 1000.0, Spread::Stairs);
        assert!(plain.low < plain.expected && plain.expected < plain.high);
        assert!(stairs.low < plain.low && stairs.high > plain.high);
    }
}
