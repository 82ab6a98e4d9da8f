//! Shape 19: an elastic job restarts: memory drops, then grows back to where it was.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::sketch::{Sketch, TraceEnding};

/// Between restarts a climb to the same plateau.
pub(super) fn restarts(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let plateau = random.between(0.5, 0.92);
    let start = random.between(0.03, 0.15);
    let time_constant_secs = random.factor_between(15.0, 200.0) * sampling.pace;
    let count = random.count_between(1, 3);
    let mut begins: Vec<f64> = (0..count)
        .map(|_| random.between(0.2, 0.9) * sampling.duration_secs)
        .collect();
    begins.push(0.0);
    begins.sort_by(f64::total_cmp);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        let begun = begins[begins.partition_point(|begin| *begin <= seconds).max(1) - 1];
        let climbed = 1.0 - (-(seconds - begun) / time_constant_secs).exp();
        start + (plateau - start) * climbed
    });
    Sketch {
        shape: 19,
        name: "restarts",
        expected: "low; a new beginning at the drop",
        ending: TraceEnding::Calm,
        leak: Some(false),
        ..sketch
    }
}
