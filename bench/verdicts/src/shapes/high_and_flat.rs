//! Shape 20: a job that uses nearly everything and has done so from the start.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::shapes::warm_up::WarmUp;
use crate::sketch::{Sketch, TraceEnding};

/// Flat, noisy, and close to the limit.
pub(super) fn noisy(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let level = random.between(0.84, 0.92);
    let noise = random.factor_between(0.003, 0.015);
    let warm_up = WarmUp::draw(random, sampling.pace);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        level * warm_up.share(seconds)
    });
    Sketch {
        shape: 20,
        name: "high-and-flat",
        expected: "a warning of usage; no risk",
        noise,
        ending: TraceEnding::Calm,
        leak: Some(false),
        ..sketch
    }
}
