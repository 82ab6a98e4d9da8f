//! Shapes 10 and 11: worker processes that grow while they read, and are replaced at the end of an epoch or not.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::sketch::{Sketch, TraceEnding};

/// What both shapes draw.
struct WorkerShape {
    base: f64,
    start: f64,
    epoch_secs: f64,
    exponent: f64,
    marks: Vec<(f64, String)>,
}

impl WorkerShape {
    fn draw(random: &mut Random, sampling: &SamplingTimes) -> Self {
        let epoch_secs = random.between(300.0, 1200.0) * sampling.pace;
        let marks = if random.chance(0.5) {
            let epochs = (sampling.duration_secs / epoch_secs) as u32 + 1;
            (0..epochs)
                .map(|epoch| (f64::from(epoch) * epoch_secs, format!("epoch {epoch}")))
                .collect()
        } else {
            Vec::new()
        };
        Self {
            base: random.between(0.1, 0.35),
            start: random.between(0.03, 0.15),
            epoch_secs,
            // Copied pages become fewer as the epoch goes on.
            exponent: random.between(0.75, 1.0),
            marks,
        }
    }
}

/// Shape 10: reset with every epoch.
pub(super) fn resetting(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let workers = WorkerShape::draw(random, &sampling);
    let WorkerShape {
        base,
        start,
        epoch_secs,
        exponent,
        marks,
    } = workers;
    let peak = random.between(0.7, 0.92);
    let epochs = (sampling.duration_secs / epoch_secs) as usize + 1;
    let peaks: Vec<f64> = (0..epochs)
        .map(|_| (peak + 0.012 * random.normal()).clamp(0.65, 0.95))
        .collect();
    let children = move |seconds: f64| {
        let epoch = ((seconds / epoch_secs) as usize).min(peaks.len() - 1);
        let progress = (seconds / epoch_secs).fract().powf(exponent);
        start + (peaks[epoch] - base - start) * progress
    };
    let of_children = children.clone();
    let sketch = Sketch::new(random, sampling, move |seconds| base + of_children(seconds));
    Sketch {
        shape: 10,
        name: "workers-reset",
        expected: "first epoch moderate, may reset; afterwards low",
        ending: TraceEnding::Calm,
        leak: Some(false),
        children: Some(Box::new(children)),
        marks,
        ..sketch
    }
}

/// Shape 11: nothing is given back between epochs, save for a dip where workers wait for the next.
pub(super) fn leaking(random: &mut Random, sampling: SamplingTimes) -> Sketch {
    let workers = WorkerShape::draw(random, &sampling);
    let (base, start, epoch_secs) = (workers.base, workers.start, workers.epoch_secs);
    // Over at least one boundary, otherwise nothing tells it from the other shape.
    let earliest = (1.3 * epoch_secs / sampling.duration_secs).max(0.35);
    let reached_at = random.between(earliest, 0.95) * sampling.duration_secs;
    let dip = if random.chance(0.5) {
        random.between(0.005, 0.02)
    } else {
        0.0
    };
    let dip_secs = random.between(5.0, 20.0);
    let children = move |seconds: f64| {
        let into = seconds % epoch_secs;
        let dipped = if seconds > epoch_secs && into < dip_secs {
            dip
        } else {
            0.0
        };
        start + (1.0 - base - start) * seconds / reached_at - dipped
    };
    let sketch = Sketch::new(random, sampling, move |seconds| base + children(seconds));
    Sketch {
        shape: 11,
        name: "workers-leak",
        expected: "high; a leak; the child processes named",
        leak: Some(true),
        children: Some(Box::new(children)),
        marks: workers.marks,
        ..sketch
    }
}
