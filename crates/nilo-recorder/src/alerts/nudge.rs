//! Wakes the alerts when a tick finds the job nearer to its limit than ever before: their own looks come once a second or less.

use std::sync::mpsc::Sender;

use nilo_follow::Wake;

use crate::live::Live;

/// Below this share of the limit nobody is woken.
const FROM_SHARE: f64 = 0.5;
/// Each step of this share wakes once.
const STEP_SHARE: f64 = 0.05;

/// Held by the sampling loop.
#[derive(Debug)]
pub(crate) struct Nudge {
    wakes: Sender<Wake>,
    highest_step: u64,
}

impl Nudge {
    pub(super) fn new(wakes: Sender<Wake>) -> Nudge {
        Nudge {
            wakes,
            highest_step: (FROM_SHARE / STEP_SHARE) as u64,
        }
    }

    /// Called after each tick; never blocks.
    pub(crate) fn see(&mut self, live: &Live) {
        let Some(limit) = live.limit_bytes.filter(|limit| *limit > 0) else {
            return;
        };
        let share = live.memory_bytes as f64 / limit as f64;
        let step = (share / STEP_SHARE) as u64;
        if step > self.highest_step {
            self.highest_step = step;
            self.wakes.send(Wake::Look).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_towards_the_limit_wakes_once() {
        let (words, heard) = std::sync::mpsc::channel();
        let mut nudge = Nudge::new(words);
        let mut see = |memory_bytes, limit_bytes| {
            nudge.see(&Live {
                memory_bytes,
                limit_bytes,
                ..Live::default()
            });
            heard.try_iter().count()
        };
        assert_eq!(see(90, None), 0);
        assert_eq!(see(52, Some(100)), 0);
        assert_eq!(see(56, Some(100)), 1);
        assert_eq!(see(59, Some(100)), 0);
        assert_eq!(see(91, Some(100)), 1);
        assert_eq!(see(20, Some(100)), 0);
        assert_eq!(see(91, Some(100)), 0);
    }
}
