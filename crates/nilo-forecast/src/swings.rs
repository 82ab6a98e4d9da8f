//! Rises that were given back: turning points of the level, kept to tell a cycle from a leak.
//!
//! Epochs, evaluations, restarts and single steps all grow and release.
//! A growth that looks like one that was released before, at a level that was reached before, is no news.

use std::collections::VecDeque;

/// Turning points kept.
const KEPT: usize = 48;

/// A rise that was given back.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Release {
    /// When it fell.
    secs: f64,
    top: f64,
    height: f64,
    /// Slope of its upper half.
    slope: f64,
}

/// A level and when it was there.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TurningPoint {
    secs: f64,
    level: f64,
}

/// A rise that goes on, to be compared with those that ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OngoingRise {
    /// Where it has come to.
    pub(crate) level: f64,
    pub(crate) slope: f64,
    pub(crate) grown: f64,
}

impl Release {
    /// A much smaller rise is not the same one, nor is one of another pace.
    fn is_like(&self, rise: &OngoingRise) -> bool {
        let ratio = rise.slope / self.slope;
        SAME_PACE.contains(&ratio) && self.height >= SAME_HEIGHT * rise.grown
    }
}

/// Follows the level from turn to turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Swings {
    /// The lowest level since the last fall.
    trough: Option<TurningPoint>,
    /// The stairs of the present rise: levels a little apart, each with the time of the sample before it was reached.
    climb: Vec<TurningPoint>,
    /// When the level first came near its highest since the last turn upwards.
    top: Option<TurningPoint>,
    highest: f64,
    last_secs: f64,
    falling: bool,
    releases: VecDeque<Release>,
}

/// A turn counts when the level goes back by this share of the limit.
const TURN: f64 = 0.04;
/// ... and by this share of the rise before it.
const GIVEN_BACK: f64 = 0.4;
/// A level within this share of a turn is near it.
const NEAR: f64 = 0.5;
/// Slopes within this range of factors are those of one kind of rise.
const SAME_PACE: std::ops::Range<f64> = 0.3..3.0;
/// A rise of less than this share of another is not the same one.
const SAME_HEIGHT: f64 = 0.4;
/// Stairs are half a turn high, so a rise over the whole limit has fewer than these.
const MOST_STAIRS: usize = 64;

impl Swings {
    /// Follows one sample; `scale` is the limit, or the largest level where there is none.
    pub(crate) fn put(&mut self, secs: f64, level: f64, scale: f64) {
        let turn = TURN * scale;
        let before = std::mem::replace(&mut self.last_secs, secs);
        let (Some(trough), Some(top)) = (&mut self.trough, &mut self.top) else {
            let here = TurningPoint { secs, level };
            (self.trough, self.top, self.highest) = (Some(here), Some(here), level);
            return;
        };
        if self.falling {
            if level <= trough.level + turn {
                trough.level = trough.level.min(level);
                return;
            }
            self.falling = false;
            self.climb.clear();
            (top.secs, top.level, self.highest) = (secs, level, level);
        }
        if level > top.level + NEAR * turn {
            (top.secs, top.level) = (secs, level);
        }
        let stair = self.climb.last().map_or(trough.level, |stair| stair.level);
        if level > stair + NEAR * turn && self.climb.len() < MOST_STAIRS {
            self.climb.push(TurningPoint {
                secs: before,
                level,
            });
        }
        self.highest = self.highest.max(level);
        trough.level = trough.level.min(level);
        if self.highest - level > turn.max(GIVEN_BACK * (self.highest - trough.level)) {
            let release = self.release();
            if self.releases.len() == KEPT {
                self.releases.pop_front();
            }
            self.releases.extend(release);
            self.falling = true;
            self.trough = Some(TurningPoint { secs, level });
        }
    }

    /// The rise that ends here, by the slope of its upper half: a spike on a slow growth is a spike.
    fn release(&self) -> Option<Release> {
        let (trough, top) = (self.trough?.level, self.top?);
        let middle = (trough + self.highest) / 2.0;
        let began = self.climb.iter().find(|stair| stair.level >= middle)?;
        let took = (top.secs - began.secs).max(1e-3);
        Some(Release {
            secs: self.last_secs,
            top: self.highest,
            height: self.highest - trough,
            slope: (self.highest - middle) / took,
        })
    }

    /// Whether a rise like this was given back before, whatever level it reached.
    pub(crate) fn has_released(&self, rise: &OngoingRise) -> bool {
        self.releases.iter().any(|release| release.is_like(rise))
    }

    /// Whether the level rose like this before, at least as high, and came down again.
    ///
    /// Tops that rise from one time to the next may rise once more by as much: that is the slow growth beneath, not this rise.
    /// Nor is a much smaller rise this one, which has lasted through it: then it is noise.
    /// Only what was given back before `until_secs` counts.
    pub(crate) fn seen_before(&self, rise: &OngoingRise, margin: f64, until_secs: f64) -> bool {
        let mut highest = f64::NEG_INFINITY;
        let mut largest_step = 0.0_f64;
        let counting = |release: &&Release| release.secs < until_secs;
        for release in self.releases.iter().filter(counting) {
            if release.is_like(rise) {
                if highest.is_finite() {
                    largest_step = largest_step.max(release.top - highest);
                }
                highest = highest.max(release.top);
            }
        }
        rise.level <= highest + margin + 1.5 * largest_step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(levels: impl IntoIterator<Item = f64>) -> Swings {
        let mut swings = Swings::default();
        for (i, level) in levels.into_iter().enumerate() {
            swings.put(i as f64, level, 100.0);
        }
        swings
    }

    fn seen_before(swings: &Swings, level: f64, slope: f64) -> bool {
        let grown = 10.0;
        let rise = OngoingRise {
            level,
            slope,
            grown,
        };
        swings.seen_before(&rise, 1.0, f64::INFINITY)
    }

    #[test]
    fn an_epoch_that_was_released_is_known_the_second_time() {
        let epoch = || (0..600).map(|i| 40.0 + f64::from(i) * 0.05);
        let swings = follow(epoch().chain(epoch().take(300)));
        assert_eq!(swings.releases.len(), 1);
        assert!(seen_before(&swings, 60.0, 0.05));
        assert!(!seen_before(&swings, 75.0, 0.05), "higher than ever");
        assert!(
            !seen_before(&swings, 60.0, 0.005),
            "a much slower rise is another one"
        );
    }

    #[test]
    fn noise_has_no_turns() {
        let swings = follow((0..1000).map(|i| 50.0 + f64::from(i % 3)));
        assert!(swings.releases.is_empty());
    }

    #[test]
    fn a_rise_that_goes_on_was_never_released() {
        let swings = follow((0..1000).map(|i| f64::from(i) * 0.09));
        assert!(!seen_before(&swings, 50.0, 0.09));
    }
}
