//! Shapes 17 and 18: forked workers touch what they share with their parent, and each touched page becomes a copy.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::sketch::{Sketch, TraceEnding};

/// A parent and the copies its children make of it: fast at first, slower as fewer pages are left to touch.
fn saturating(random: &mut Random, sampling: SamplingTimes, parent: f64, asymptote: f64) -> Sketch {
    let time_constant_secs = random.between(0.12, 0.45) * sampling.duration_secs;
    let copied =
        move |seconds: f64| (asymptote - parent) * (1.0 - (-seconds / time_constant_secs).exp());
    let sketch = Sketch::new(random, sampling, move |seconds| parent + copied(seconds));
    Sketch {
        children: Some(Box::new(copied)),
        ..sketch
    }
}

/// Shape 17: everything is copied, and it fits.
pub(super) fn fits(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let parent = random.between(0.1, 0.4);
    let asymptote = random.between(0.6, 0.95);
    Sketch {
        shape: 17,
        name: "copy-on-write-fits",
        expected: "low; no leak",
        ending: TraceEnding::Calm,
        leak: Some(false),
        ..saturating(random, sampling, parent, asymptote)
    }
}

/// Shape 18: it does not fit.
pub(super) fn too_much(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let parent = random.between(0.1, 0.45);
    let asymptote = random.factor_between(1.08, 1.8);
    Sketch {
        shape: 18,
        name: "copy-on-write-too-much",
        expected: "high",
        ..saturating(random, sampling, parent, asymptote)
    }
}
