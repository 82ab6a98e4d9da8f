//! Shapes 6 and 12: the caching allocator takes segments in irregular stairs, until it has enough or until the limit.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::sketch::{Curve, Sketch, TraceEnding, TraceResource};

/// Stairs as the seconds at which they rise and the level from there on.
struct StairShape {
    start: f64,
    rises: Vec<(f64, f64)>,
}

impl StairShape {
    fn level(&self, seconds: f64) -> f64 {
        match self.rises.partition_point(|(at, _)| *at <= seconds) {
            0 => self.start,
            passed => self.rises[passed - 1].1,
        }
    }
}

/// Heights of stairs that differ by a factor of ten and sum up to one.
fn heights(random: &mut Random, count: usize) -> Vec<f64> {
    let drawn: Vec<f64> = (0..count)
        .map(|_| random.factor_between(0.3, 3.0))
        .collect();
    let sum: f64 = drawn.iter().sum();
    drawn.into_iter().map(|height| height / sum).collect()
}

/// What is allocated inside the segments: flat but for the rise and fall of each step.
fn allocated(random: &mut Random, level: f64) -> Curve {
    let period_secs = random.between(1.3, 20.0);
    let height = level * random.between(0.05, 0.4);
    Box::new(move |seconds| level - height * (seconds / period_secs).fract())
}

/// Shape 6: each rise takes longer to come than the one before, then none comes.
pub(super) fn caching(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let start = random.between(0.1, 0.5);
    let plateau = random.between((start + 0.15).max(0.55), 0.98);
    let settled_at = random.between(0.12, 0.6) * sampling.duration_secs;
    let count = random.count_between(8, 40);
    let slowing = random.between(1.4, 4.0);
    let heights = heights(random, count);
    let mut level = start;
    let mut rises = Vec::with_capacity(count);
    for (number, height) in heights.iter().enumerate() {
        level += height * (plateau - start);
        let place = (number as f64 + random.between(0.2, 0.8)) / count as f64;
        rises.push((settled_at * place.powf(slowing), level));
    }
    let held = random
        .chance(0.5)
        .then(|| allocated(random, start.min(plateau * 0.6)));
    let stairs = StairShape { start, rises };
    let sketch = Sketch::new(random, sampling, move |seconds| stairs.level(seconds));
    Sketch {
        shape: 6,
        name: "cache-stairs",
        expected: "low; a plateau of the cache",
        resource: TraceResource::Torch,
        // Segments are taken and kept: between two rises nothing moves.
        noise: 0.0,
        ending: TraceEnding::Calm,
        leak: Some(false),
        held,
        ..sketch
    }
}

/// Shape 12: fragmentation; rises come at an even rate by chance, what is allocated stays, and the limit is reached.
pub(super) fn fragmentation(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let start = random.between(0.3, 0.6);
    let reached_at = random.between(0.35, 0.95) * sampling.duration_secs;
    let count = random.count_between(15, 60);
    let heights = heights(random, count);
    let waits: Vec<f64> = (0..count).map(|_| random.waiting(1.0)).collect();
    let waited: f64 = waits.iter().sum();
    let mut at = 0.0;
    let mut level = start;
    let mut rises = Vec::with_capacity(count);
    for (wait, height) in waits.iter().zip(heights) {
        at += wait / waited * reached_at;
        level += height * (1.0 - start) * 1.001;
        rises.push((at, level));
    }
    let held = Some(allocated(random, start * 0.95));
    let stairs = StairShape { start, rises };
    let sketch = Sketch::new(random, sampling, move |seconds| stairs.level(seconds));
    Sketch {
        shape: 12,
        name: "fragmentation",
        expected: "high; fragmentation named, expandable segments advised",
        resource: TraceResource::Torch,
        noise: 0.0,
        leak: Some(false),
        held,
        ..sketch
    }
}
