//! Shapes 1 and 2: memory that grows and is never given back, fast enough for an OOM or not.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::shapes::warm_up::WarmUp;
use crate::sketch::{Sketch, TraceResource};

/// Shape 1: a steady leak that reaches the limit; one in ten on a host that the job has nearly to itself.
pub(super) fn steady(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let base = random.between(0.08, 0.6);
    let reached_at = random.between(0.25, 0.95) * sampling.duration_secs;
    // Leaks are rarely perfectly even: batches differ, some allocations reuse holes.
    let bend = random.between(-0.15, 0.15);
    let warm_up = WarmUp::draw(random, sampling.pace);
    let host = random.chance(0.1);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        let progress = seconds / reached_at;
        let bent = progress + bend * progress * (1.0 - progress);
        base * warm_up.share(seconds) + (1.0 - base) * bent
    });
    Sketch {
        shape: 1,
        name: "steady-leak",
        expected: "high five minutes ahead; a leak",
        resource: if host {
            TraceResource::Host
        } else {
            TraceResource::Cgroup
        },
        leak: Some(true),
        ..sketch
    }
}

/// Shape 2: a leak too slow for an OOM while it is watched.
pub(super) fn slow(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let base = random.between(0.15, 0.55);
    let grown = random.factor_between(0.04, 0.32);
    let duration = sampling.duration_secs;
    let warm_up = WarmUp::draw(random, sampling.pace);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        base * warm_up.share(seconds) + grown * seconds / duration
    });
    Sketch {
        shape: 2,
        name: "slow-leak",
        expected: "low or moderate; a leak; no alarm",
        leak: Some(true),
        ..sketch
    }
}
