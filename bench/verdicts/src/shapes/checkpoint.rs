//! Shapes 15 and 16: a checkpoint every few minutes copies the weights for some seconds, over flat ground or a leak.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::shapes::warm_up::WarmUp;
use crate::sketch::{Sketch, TraceEnding};

/// The checkpoints of a run.
#[derive(Debug, Clone, Copy)]
struct Checkpoints {
    period_secs: f64,
    width_secs: f64,
    height: f64,
}

impl Checkpoints {
    fn draw(random: &mut Random, pace: f64) -> Self {
        let period_secs = (random.factor_between(90.0, 700.0) * pace).max(15.0);
        Self {
            period_secs,
            width_secs: random.factor_between(3.0, 20.0).min(period_secs / 4.0),
            height: random.between(0.08, 0.3),
        }
    }

    fn level(&self, seconds: f64) -> f64 {
        let into = seconds % self.period_secs;
        if seconds > self.period_secs && into < self.width_secs {
            self.height
        } else {
            0.0
        }
    }
}

/// Shape 15: the spikes fit and go on fitting.
pub(super) fn flat(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let checkpoints = Checkpoints::draw(random, sampling.pace);
    let base = random.between(0.2, 0.96 - checkpoints.height);
    let warm_up = WarmUp::draw(random, sampling.pace);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        base * warm_up.share(seconds) + checkpoints.level(seconds)
    });
    Sketch {
        shape: 15,
        name: "checkpoint-spikes",
        expected: "low; the height of the spikes reported",
        ending: TraceEnding::Calm,
        leak: Some(false),
        ..sketch
    }
}

/// Shape 16: with a slow leak beneath, one of the spikes kills.
pub(super) fn leaking(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let checkpoints = Checkpoints::draw(random, sampling.pace);
    let base = random.between(0.15, 0.55);
    // The spike that kills is the first after this.
    let fits_until = random.between(0.35, 0.9) * sampling.duration_secs;
    let warm_up = WarmUp::draw(random, sampling.pace);
    let room = 1.0 - base - checkpoints.height;
    let sketch = Sketch::new(random, sampling, move |seconds| {
        base * warm_up.share(seconds) + room * seconds / fits_until + checkpoints.level(seconds)
    });
    Sketch {
        shape: 16,
        name: "checkpoint-spikes-leak",
        expected: "high from the envelope of the spikes; a leak",
        leak: Some(true),
        ..sketch
    }
}
