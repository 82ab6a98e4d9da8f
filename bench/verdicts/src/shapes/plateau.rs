//! Shapes 5 and 14: growth that slows down by itself.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::sketch::{Sketch, TraceEnding};

/// Shape 5: warm-up to a plateau: caches fill in a curve, a data set is read in a straight line.
pub(super) fn warm_up(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let start = random.between(0.03, 0.25);
    let plateau = random.between(0.6, 0.93);
    let straight = random.chance(0.3);
    let reading_secs = random.factor_between(30.0, 240.0) * sampling.pace;
    let time_constant_secs = random.factor_between(40.0, 500.0) * sampling.pace;
    let sketch = Sketch::new(random, sampling, move |seconds| {
        let share = if straight {
            (seconds / reading_secs).min(1.0)
        } else {
            1.0 - (-seconds / time_constant_secs).exp()
        };
        start + (plateau - start) * share
    });
    Sketch {
        shape: 5,
        name: "warm-up-plateau",
        expected: "low after warm-up; a warning of usage at most",
        ending: TraceEnding::Calm,
        leak: Some(false),
        ..sketch
    }
}

/// Shape 14: logarithmic growth, as of a vocabulary or a cache of shapes.
pub(super) fn logarithmic(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let start = random.between(0.05, 0.3);
    let end = random.between(0.5, 0.94);
    let time_constant_secs = random.factor_between(5.0, 120.0) * sampling.pace;
    let duration = sampling.duration_secs;
    let whole = (1.0 + duration / time_constant_secs).ln();
    let sketch = Sketch::new(random, sampling, move |seconds| {
        start + (end - start) * (1.0 + seconds / time_constant_secs).ln() / whole
    });
    Sketch {
        shape: 14,
        name: "logarithmic-growth",
        expected: "low after ten minutes; no leak",
        ending: TraceEnding::Calm,
        leak: Some(false),
        ..sketch
    }
}
