//! Shape 13: files read and written fill the limit with pages that the kernel drops when somebody needs the room.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::shapes::warm_up::WarmUp;
use crate::sketch::{Sketch, TraceEnding};

/// Pages become active and so part of the working set; at the limit the kernel drops the oldest.
pub(super) fn growth(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let anonymous = random.between(0.15, 0.6);
    let full = random.between(0.95, 0.995);
    let full_at = random.factor_between(0.08, 1.4) * sampling.duration_secs;
    let dirty = random.between(0.0, 0.08);
    let wave_secs = random.factor_between(20.0, 300.0) * sampling.pace;
    let wave = random.between(0.002, 0.03);
    let warm_up = WarmUp::draw(random, sampling.pace);
    let files = move |seconds: f64| {
        let filled = (seconds / full_at).min(1.0) * (full - anonymous);
        // Reclaim comes in batches once it is full.
        let dropped = if seconds > full_at {
            wave * (seconds / wave_secs).fract()
        } else {
            0.0
        };
        (filled - dropped).max(0.0)
    };
    let sketch = Sketch::new(random, sampling, move |seconds| {
        anonymous * warm_up.share(seconds) + files(seconds)
    });
    Sketch {
        shape: 13,
        name: "page-cache",
        expected: "low; reclaimable",
        ending: TraceEnding::Calm,
        leak: Some(false),
        reclaimable: Some(Box::new(move |seconds| (1.0 - dirty) * files(seconds))),
        pressure: random.chance(0.5).then(|| {
            let pressure = random.between(0.0, 0.03);
            Box::new(move |seconds: f64| if seconds > full_at { pressure } else { 0.0 }) as _
        }),
        ..sketch
    }
}
