//! Shape 23: another job on the host grows; this one does not.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::sketch::{Sketch, TraceEnding, TraceResource};

/// The host runs out in half of them; in the others the neighbour finds its level or is too slow.
pub(super) fn grows(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let duration = sampling.duration_secs;
    let pace = sampling.pace;
    let own = random.between(0.1, 0.4);
    let others = random.between(0.05, 0.2);
    let room = 1.0 - own - others;
    let begins_at = random.between(0.05, 0.4) * duration;
    let deadly = random.chance(0.5);
    let settles = random.chance(0.6);
    let filled_secs = if deadly {
        random.between(0.3, 0.95) * (duration - begins_at)
    } else {
        random.between(1.3, 3.0) * duration
    };
    let time_constant_secs = random.factor_between(60.0, 600.0) * pace;
    let settled = random.between(0.4, 0.85) * room;
    let neighbour = move |seconds: f64| {
        let into = (seconds - begins_at).max(0.0);
        if deadly || !settles {
            room * into / filled_secs
        } else {
            settled * (1.0 - (-into / time_constant_secs).exp())
        }
    };
    let sketch = Sketch::new(random, sampling, move |seconds| {
        own + others + neighbour(seconds)
    });
    Sketch {
        shape: 23,
        name: "neighbour",
        expected: "the host high, and not because of this job",
        resource: TraceResource::Host,
        ending: if deadly || !settles {
            TraceEnding::AtLimit
        } else {
            TraceEnding::Calm
        },
        leak: Some(false),
        own: Some(Box::new(move |_| own)),
        ..sketch
    }
}
