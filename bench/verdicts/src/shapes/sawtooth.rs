//! Shapes 3 and 4: activations rise and fall within each training step, with a leak beneath or without.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::shapes::warm_up::WarmUp;
use crate::sketch::{Sketch, TraceEnding};

/// One training step: up during the forward pass, down during the backward pass.
#[derive(Debug, Clone, Copy)]
struct SawtoothStep {
    period_secs: f64,
    rising_share: f64,
    height: f64,
}

impl SawtoothStep {
    fn draw(random: &mut Random, pace: f64) -> Self {
        Self {
            period_secs: (random.factor_between(6.0, 150.0) * pace).max(2.0),
            rising_share: random.between(0.3, 0.9),
            height: random.between(0.05, 0.3),
        }
    }

    fn level(&self, seconds: f64) -> f64 {
        let phase = (seconds / self.period_secs).fract();
        let share = if phase < self.rising_share {
            phase / self.rising_share
        } else {
            (1.0 - phase) / (1.0 - self.rising_share)
        };
        self.height * share
    }
}

/// Shape 3: the peaks reach the limit in six of seven, the others are cut off.
pub(super) fn leaking(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let tooth = SawtoothStep::draw(random, sampling.pace);
    let base = random.between(0.08, 0.45);
    let reached_at = if random.chance(0.85) {
        random.between(0.3, 0.95)
    } else {
        random.between(1.15, 3.0)
    } * sampling.duration_secs;
    let warm_up = WarmUp::draw(random, sampling.pace);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        let leaked = (1.0 - base - tooth.height) * seconds / reached_at;
        base * warm_up.share(seconds) + leaked + tooth.level(seconds)
    });
    Sketch {
        shape: 3,
        name: "sawtooth-leak",
        expected: "high; the period found; a leak",
        leak: Some(true),
        step_secs: Some(tooth.period_secs),
        ..sketch
    }
}

/// Shape 4: the same teeth on flat ground.
pub(super) fn flat(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let tooth = SawtoothStep::draw(random, sampling.pace);
    let base = random.between(0.08, 0.92 - tooth.height);
    let warm_up = WarmUp::draw(random, sampling.pace);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        base * warm_up.share(seconds) + tooth.level(seconds)
    });
    Sketch {
        shape: 4,
        name: "sawtooth-flat",
        expected: "low; no leak",
        ending: TraceEnding::Calm,
        leak: Some(false),
        step_secs: Some(tooth.period_secs),
        ..sketch
    }
}
