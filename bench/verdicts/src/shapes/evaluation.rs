//! Shape 9: an evaluation every few minutes that needs more than training and gives it back.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::shapes::warm_up::WarmUp;
use crate::sketch::{Sketch, TraceEnding};

/// A ramp, a plateau, and down again.
pub(super) fn bumps(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let pace = sampling.pace;
    let base = random.between(0.25, 0.65);
    let height = random.between(0.1, 0.95 - base);
    let period_secs = random.factor_between(240.0, 1200.0) * pace;
    let ramp_secs = random.between(5.0, 30.0) * pace;
    let hold_secs = random.between(20.0, 100.0) * pace;
    let first_secs = random.between(0.3, 1.0) * period_secs;
    let marks = if random.chance(0.5) {
        (0..)
            .map(|number| first_secs + f64::from(number) * period_secs)
            .take_while(|at| *at < sampling.duration_secs)
            .map(|at| (at, "evaluation".to_string()))
            .collect()
    } else {
        Vec::new()
    };
    let warm_up = WarmUp::draw(random, pace);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        let into = if seconds < first_secs {
            f64::INFINITY
        } else {
            (seconds - first_secs) % period_secs
        };
        let share = if into < ramp_secs {
            into / ramp_secs
        } else if into < ramp_secs + hold_secs {
            1.0
        } else {
            0.0
        };
        base * warm_up.share(seconds) + height * share
    });
    Sketch {
        shape: 9,
        name: "evaluation-bumps",
        expected: "low; the phase named",
        ending: TraceEnding::Calm,
        leak: Some(false),
        marks,
        ..sketch
    }
}
