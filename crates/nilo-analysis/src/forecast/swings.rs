//! Rises that were given back: turning points of the level, kept to tell a cycle from a leak.
//!
//! Epochs, evaluations, restarts and single steps all grow and release.
//! A growth that looks like one that was released before, at a level that was reached before, is no news.

use std::collections::VecDeque;

/// Turning points kept.
const KEPT: usize = 48;

/// A rise from a trough to a top that was then given back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Release {
    /// When the top was left.
    pub(crate) top_secs: f64,
    pub(crate) top: f64,
    /// When the rise began.
    pub(crate) trough_secs: f64,
    pub(crate) trough: f64,
}

impl Release {
    /// Mean slope of the rise.
    fn slope(&self) -> f64 {
        (self.top - self.trough) / (self.top_secs - self.trough_secs).max(1e-3)
    }
}

/// Follows the level from turn to turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Swings {
    trough: Option<(f64, f64)>,
    top: Option<(f64, f64)>,
    falling: bool,
    releases: VecDeque<Release>,
}

/// A turn counts when the level goes back by this share of the limit.
const TURN: f64 = 0.04;
/// ... and by this share of the rise before it.
const GIVEN_BACK: f64 = 0.4;

impl Swings {
    /// Follows one sample; `scale` is the limit, or the largest level where there is none.
    pub(crate) fn put(&mut self, secs: f64, level: f64, scale: f64) {
        let turn = TURN * scale;
        let (Some(trough), Some(top)) = (self.trough, self.top) else {
            self.trough = Some((secs, level));
            self.top = Some((secs, level));
            return;
        };
        if self.falling {
            if level < trough.1 {
                self.trough = Some((secs, level));
            } else if level > trough.1 + turn {
                self.falling = false;
                self.top = Some((secs, level));
            }
        } else if level >= top.1 {
            self.top = Some((secs, level));
        } else if top.1 - level > turn.max(GIVEN_BACK * (top.1 - trough.1)) {
            if self.releases.len() == KEPT {
                self.releases.pop_front();
            }
            self.releases.push_back(Release {
                top_secs: top.0,
                top: top.1,
                trough_secs: trough.0,
                trough: trough.1,
            });
            self.falling = true;
            self.trough = Some((secs, level));
        } else if level < trough.1 {
            self.trough = Some((secs, level));
        }
    }

    /// Whether the level rose like this before, at least as high, and came down again.
    pub(crate) fn seen_before(&self, level: f64, slope: f64, margin: f64) -> bool {
        self.releases.iter().any(|release| {
            let ratio = slope / release.slope();
            level <= release.top + margin && (0.3..3.0).contains(&ratio)
        })
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

    #[test]
    fn an_epoch_that_was_released_is_known_the_second_time() {
        let epoch = || (0..600).map(|i| 40.0 + f64::from(i) * 0.05);
        let swings = follow(epoch().chain(epoch().take(300)));
        assert_eq!(swings.releases.len(), 1);
        assert!(swings.seen_before(60.0, 0.05, 1.0));
        assert!(!swings.seen_before(75.0, 0.05, 1.0), "higher than ever");
        assert!(
            !swings.seen_before(60.0, 0.005, 1.0),
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
        assert!(!swings.seen_before(50.0, 0.09, 1.0));
    }
}
