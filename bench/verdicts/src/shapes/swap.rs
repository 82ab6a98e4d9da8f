//! Shape 24: memory is full and flat while swap fills and everything waits.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::sketch::{Sketch, TraceEnding};

/// Swap runs full in half of them; in the others it stops on the way.
pub(super) fn filling(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let duration = sampling.duration_secs;
    let start = random.between(0.3, 0.7);
    let flat = random.between(0.965, 0.995);
    let climb_secs = random.between(0.05, 0.25) * duration;
    let deadly = random.chance(0.5);
    let full_at = climb_secs + random.between(0.3, 0.95) * (duration - climb_secs);
    let stops_at = random.between(0.15, 0.7);
    let time_constant_secs = random.between(0.1, 0.3) * duration;
    let swap = move |seconds: f64| {
        let into = (seconds - climb_secs).max(0.0);
        if deadly {
            into / (full_at - climb_secs)
        } else {
            stops_at * (1.0 - (-into / time_constant_secs).exp())
        }
    };
    let worst = if deadly {
        random.between(0.2, 0.6)
    } else {
        random.between(0.01, 0.08)
    };
    let sketch = Sketch::new(random, sampling, move |seconds| {
        start + (flat - start) * (seconds / climb_secs).min(1.0)
    });
    Sketch {
        shape: 24,
        name: "swap-fills",
        expected: "high from swap and pressure where swap runs full",
        noise: sketch.noise.min(0.002),
        ending: if deadly {
            TraceEnding::At(full_at)
        } else {
            TraceEnding::Calm
        },
        swap: Some(Box::new(swap)),
        // Waiting grows with what has to be fetched back.
        pressure: Some(Box::new(move |seconds| {
            let share = swap(seconds);
            if deadly {
                worst * share
            } else {
                worst * share / stops_at
            }
        })),
        ..sketch
    }
}
