//! How jobs begin: imports, weights, the first batches.

use crate::random::Random;

/// The share of its base level that a job has reached. Half of the jobs are there at the first sample (the recorder
/// attached later); the others climb for a minute or two.
#[derive(Debug, Clone, Copy)]
pub(super) struct WarmUp {
    time_constant_secs: f64,
}

impl WarmUp {
    pub(super) fn draw(random: &mut Random, pace: f64) -> Self {
        let climbs = random.chance(0.5);
        let time_constant_secs = random.factor_between(4.0, 40.0) * pace;
        Self {
            time_constant_secs: if climbs { time_constant_secs } else { 0.0 },
        }
    }

    pub(super) fn share(&self, seconds: f64) -> f64 {
        if self.time_constant_secs == 0.0 {
            1.0
        } else {
            1.0 - 0.95 * (-seconds / self.time_constant_secs).exp()
        }
    }
}
