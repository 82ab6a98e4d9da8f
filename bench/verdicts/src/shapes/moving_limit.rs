//! Shape 21: somebody raises or lowers the limit of a running job.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::shapes::warm_up::WarmUp;
use crate::sketch::{Sketch, TraceEnding};

/// A limit that changes once, under a job that leaks or does not.
pub(super) fn moving_limit(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let sketch = if random.chance(0.5) {
        leaking(random, sampling)
    } else {
        flat(random, sampling)
    };
    Sketch {
        shape: 21,
        name: "moving-limit",
        expected: "recomputed at once",
        ..sketch
    }
}

/// The change comes while the old limit is still far away in time, so that an alarm before it is wrong and an alarm
/// after it right; a quarter are cut off before the end.
fn leaking(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let duration = sampling.duration_secs;
    let base = random.between(0.15, 0.5);
    let changed_at = random.between(0.2, 0.4) * duration;
    let cut_off = random.chance(0.25);
    let (factor, rate) = if random.chance(0.5) {
        // Raised: under the old limit the end would have come a third of the run later.
        let rate = (1.0 - base) / (changed_at + 0.35 * duration);
        let reached_at = if cut_off {
            random.between(1.1, 1.6)
        } else {
            random.between(0.82, 0.97)
        };
        (base + rate * reached_at * duration, rate)
    } else {
        let factor = random.between(0.65, 0.9);
        let reached_at = if cut_off {
            random.between(1.3, 2.5)
        } else {
            random.between(0.6, 0.95)
        };
        (factor, (factor - base) / (reached_at * duration))
    };
    let warm_up = WarmUp::draw(random, sampling.pace);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        base * warm_up.share(seconds) + rate * seconds
    });
    Sketch {
        leak: Some(true),
        limit_change: Some((changed_at, factor)),
        ..sketch
    }
}

fn flat(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let level = random.between(0.4, 0.8);
    let changed_at = random.between(0.2, 0.7) * sampling.duration_secs;
    let factor = if random.chance(0.5) {
        random.between(1.2, 2.0)
    } else {
        // Lowered to where the job still fits.
        level / random.between(level + 0.05, 0.93)
    };
    let warm_up = WarmUp::draw(random, sampling.pace);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        level * warm_up.share(seconds)
    });
    Sketch {
        ending: TraceEnding::Calm,
        leak: Some(false),
        limit_change: Some((changed_at, factor)),
        ..sketch
    }
}
