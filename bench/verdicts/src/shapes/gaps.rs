//! Shape 22: minutes without samples, because the job was suspended or the recorder starved.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::shapes::warm_up::WarmUp;
use crate::sketch::{Sketch, TraceEnding};

/// One to three gaps over flat ground or a leak.
pub(super) fn gaps(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let duration = sampling.duration_secs;
    let count = random.count_between(1, 3);
    let mut gaps: Vec<(f64, f64)> = (0..count)
        .map(|number| {
            let third = 0.7 * duration / count as f64;
            let begin = 0.15 * duration + third * number as f64 + random.between(0.0, 0.4) * third;
            let length = random.factor_between(60.0, 900.0) * sampling.pace;
            (begin, begin + length.min(0.5 * third))
        })
        .collect();
    gaps.sort_by(|left, right| left.0.total_cmp(&right.0));
    let last_end = gaps[gaps.len() - 1].1;
    let sampling = sampling.without(&gaps);
    let sketch = if random.chance(0.5) {
        leaking(random, sampling, gaps, last_end)
    } else {
        flat(random, sampling, gaps)
    };
    Sketch {
        shape: 22,
        name: "sampling-gaps",
        expected: "no slope across the gap",
        ..sketch
    }
}

/// A suspended job does not leak, a job whose recorder starves does. The end comes after the last gap, or not at all.
fn leaking(
    random: &mut Random,
    sampling: SamplingTimes,
    gaps: Vec<(f64, f64)>,
    last_end: f64,
) -> Sketch {
    let duration = sampling.duration_secs;
    let suspended = random.chance(0.5);
    let running = move |seconds: f64| {
        let missed: f64 = gaps
            .iter()
            .map(|(begin, end)| (seconds.min(*end) - begin).max(0.0))
            .sum();
        seconds - if suspended { missed } else { 0.0 }
    };
    let base = random.between(0.1, 0.5);
    let reached_at = if random.chance(0.75) {
        random.between(last_end + 0.05 * duration, 0.97 * duration)
    } else {
        random.between(1.3, 2.5) * duration
    };
    let rate = (1.0 - base) / running(reached_at);
    let warm_up = WarmUp::draw(random, sampling.pace);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        base * warm_up.share(seconds) + rate * running(seconds)
    });
    Sketch {
        leak: Some(true),
        ..sketch
    }
}

/// Flat on both sides of a gap, though not always at the same level: what happened in it is unknown.
fn flat(random: &mut Random, sampling: SamplingTimes, gaps: Vec<(f64, f64)>) -> Sketch {
    let mut level = random.between(0.3, 0.8);
    let first = level;
    let levels: Vec<(f64, f64)> = gaps
        .iter()
        .map(|(_, end)| {
            if random.chance(0.6) {
                level = (level + random.between(-0.2, 0.2)).clamp(0.1, 0.92);
            }
            (*end, level)
        })
        .collect();
    let warm_up = WarmUp::draw(random, sampling.pace);
    let sketch = Sketch::new(random, sampling, move |seconds| {
        let passed = levels.partition_point(|(end, _)| *end <= seconds);
        let level = passed.checked_sub(1).map_or(first, |gap| levels[gap].1);
        level * warm_up.share(seconds)
    });
    Sketch {
        ending: TraceEnding::Calm,
        leak: Some(false),
        ..sketch
    }
}
