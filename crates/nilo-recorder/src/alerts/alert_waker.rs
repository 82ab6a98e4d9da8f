//! Wakes the alerts when the job comes nearer to its limit: their own looks come once a second or less.

use std::sync::mpsc::Sender;

use nilo_follow::Wake;

/// Below this share of the limit nobody is woken.
const FROM_SHARE: f64 = 0.5;
/// Each step of this share wakes once.
const STEP_SHARE: f64 = 0.05;
/// The first of these steps.
const FIRST_STEP: u64 = (FROM_SHARE / STEP_SHARE) as u64;
/// Steps count anew when the level has been below them, but not more often than this.
const ANEW_NANOS: u64 = 1_000_000_000;

/// Held by the sampling loop.
#[derive(Debug)]
pub(crate) struct AlertWaker {
    wakes: Sender<Wake>,
    highest_step: u64,
    woken_nanos: u64,
}

impl AlertWaker {
    pub(super) fn new(wakes: Sender<Wake>) -> AlertWaker {
        AlertWaker {
            wakes,
            highest_step: FIRST_STEP,
            woken_nanos: 0,
        }
    }

    /// Called after each tick and when the kernel gives notice; never blocks.
    pub(crate) fn see(&mut self, now_nanos: u64, level_bytes: u64, limit_bytes: Option<u64>) {
        let Some(limit) = limit_bytes.filter(|limit| *limit > 0) else {
            return;
        };
        let step = (level_bytes as f64 / limit as f64 / STEP_SHARE) as u64;
        if step > self.highest_step {
            self.highest_step = step;
            self.woken_nanos = now_nanos;
            self.wakes.send(Wake::Look).ok();
        } else if step < FIRST_STEP && now_nanos.saturating_sub(self.woken_nanos) >= ANEW_NANOS {
            self.highest_step = FIRST_STEP;
        }
    }

    /// Nothing is predicted of the job any more, while its last sample is taken and its last processes end.
    pub(crate) fn job_ended(&self) {
        self.wakes.send(Wake::JobEnded).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_towards_the_limit_wakes_once_and_again_after_a_second_far_from_it() {
        let (words, heard) = std::sync::mpsc::channel();
        let mut waker = AlertWaker::new(words);
        let mut see = |millis: u64, level_bytes, limit_bytes| {
            waker.see(millis * 1_000_000, level_bytes, limit_bytes);
            heard.try_iter().count()
        };
        assert_eq!(see(0, 90, None), 0);
        assert_eq!(see(100, 52, Some(100)), 0);
        assert_eq!(see(200, 56, Some(100)), 1);
        assert_eq!(see(300, 59, Some(100)), 0);
        assert_eq!(see(400, 91, Some(100)), 1);
        assert_eq!(see(500, 20, Some(100)), 0);
        assert_eq!(see(600, 91, Some(100)), 0);
        assert_eq!(see(1500, 20, Some(100)), 0);
        assert_eq!(see(1600, 91, Some(100)), 1);
    }
}
