//! Shapes 7 and 8: spikes that nothing announces, deadly or harmless.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::shapes::warm_up::WarmUp;
use crate::sketch::{Sketch, TraceEnding};

/// Shape 7: the first batch of that size kills; nothing before it says so.
pub(super) fn deadly(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let base = random.between(0.25, 0.8);
    let at = random.between(0.3, 0.95) * sampling.duration_secs;
    let rise_secs = random.between(0.05, 2.0);
    let warm_up = WarmUp::draw(random, sampling.pace);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        let spike = ((seconds - at) / rise_secs).clamp(0.0, 1.0);
        base * warm_up.share(seconds) + (1.05 - base) * spike
    });
    Sketch {
        shape: 7,
        name: "deadly-spike",
        expected: "not predictable; afterwards the size of the allocation",
        unpredictable: true,
        leak: Some(false),
        ..sketch
    }
}

/// Shape 8: spikes at random times that fit.
pub(super) fn harmless(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let base = random.between(0.2, 0.65);
    let mean_wait_secs = random.factor_between(60.0, 900.0) * sampling.pace;
    let mut spikes: Vec<(f64, f64, f64)> = Vec::new();
    let mut at = random.waiting(mean_wait_secs);
    while at < sampling.duration_secs {
        let width = random.factor_between(1.0, 12.0);
        let height = random.between(0.05, (0.96 - base).min(0.5));
        spikes.push((at, at + width, height));
        at += width + random.waiting(mean_wait_secs);
    }
    let warm_up = WarmUp::draw(random, sampling.pace);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        let following = spikes.partition_point(|(begin, _, _)| *begin <= seconds);
        let spike = match following.checked_sub(1).map(|number| spikes[number]) {
            Some((_, end, height)) if seconds < end => height,
            _ => 0.0,
        };
        base * warm_up.share(seconds) + spike
    });
    Sketch {
        shape: 8,
        name: "harmless-spikes",
        expected: "low; the risk of a jump if a spike is higher than the room",
        ending: TraceEnding::Calm,
        leak: Some(false),
        ..sketch
    }
}
