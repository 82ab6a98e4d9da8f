//! What a recorder sees beside the shape of a trace, drawn for all shapes alike: limits, noise, a few file pages, worker
//! processes, pressure, swap, steps.

use crate::random::Random;
use crate::sketch::{Curve, Sketch, TraceEnding, TraceResource};
use crate::trace::{NANOS_PER_SEC, TracePoint};

/// Seconds as a trace stores them.
pub(crate) fn nanos(seconds: f64) -> u64 {
    (seconds * NANOS_PER_SEC).round() as u64
}

/// Noise of one trace: white in half of them, wandering over seconds to a minute in the others.
pub(crate) struct TraceNoise {
    deviation: f64,
    memory_secs: f64,
    value: f64,
}

impl TraceNoise {
    pub(crate) fn draw(deviation: f64, random: &mut Random) -> Self {
        let memory_secs = if random.chance(0.5) {
            0.0
        } else {
            random.factor_between(2.0, 60.0)
        };
        Self {
            deviation,
            memory_secs,
            value: 0.0,
        }
    }

    pub(crate) fn next(&mut self, elapsed_secs: f64, random: &mut Random) -> f64 {
        let kept = if self.memory_secs > 0.0 {
            (-elapsed_secs / self.memory_secs).exp()
        } else {
            0.0
        };
        let fresh = (1.0 - kept * kept).sqrt() * random.normal();
        self.value = kept * self.value + fresh;
        // Bounded: real fluctuation has a cause and a size.
        self.deviation * self.value.clamp(-3.0, 3.0)
    }
}

/// What a recorder sees beside the shape itself.
pub(crate) struct TraceContext {
    limit_bytes: f64,
    file_share: f64,
    children_share: Option<f64>,
    own_share: Option<f64>,
    swap_total_bytes: Option<f64>,
    pressure: bool,
    pub(crate) step_secs: Option<f64>,
}

const GIB: f64 = (1_u64 << 30) as f64;
const PAGE_BYTES: f64 = 4096.0;
/// With less room than this share of the limit the kernel begins to drop file pages.
const FILES_SQUEEZED_BELOW: f64 = 0.1;

impl TraceContext {
    pub(crate) fn draw(sketch: &Sketch, random: &mut Random) -> Self {
        let sizes = [8.0, 16.0, 24.0, 32.0, 32.0, 40.0, 48.0, 64.0, 80.0, 128.0];
        let torch = sketch.resource == TraceResource::Torch;
        let host = sketch.resource == TraceResource::Host;
        // A device has a little less than it says on the box, a host too.
        let overhead = if torch || host {
            random.between(0.93, 0.99)
        } else {
            1.0
        };
        let limit_bytes = (random.pick(&sizes) * overhead * GIB / PAGE_BYTES).floor() * PAGE_BYTES;
        let file_share = random.between(0.0, 0.03);
        let children = random.chance(0.5).then(|| random.between(0.0, 0.3));
        let own = random.between(0.4, 0.9);
        let swap_bytes = random.pick(&[2.0, 4.0, 8.0, 16.0]) * GIB;
        // Whoever is killed at the limit had no swap to go to.
        let with_swap = random.chance(0.3) && sketch.ending != TraceEnding::AtLimit;
        let pressure = random.chance(0.5);
        let step_secs = sketch.step_secs.unwrap_or(random.factor_between(0.3, 8.0));
        let steps_told = random.chance(if sketch.step_secs.is_some() { 0.5 } else { 0.3 });
        Self {
            limit_bytes,
            file_share: if torch { 0.0 } else { file_share },
            children_share: children.filter(|_| !torch && !host),
            own_share: host.then_some(own),
            swap_total_bytes: (sketch.swap.is_some() || (with_swap && !torch))
                .then_some(swap_bytes),
            pressure: sketch.pressure.is_some() || (pressure && !torch),
            step_secs: steps_told.then_some(step_secs),
        }
    }

    pub(crate) fn point(
        &self,
        sketch: &Sketch,
        seconds: f64,
        level: f64,
        random: &mut Random,
    ) -> TracePoint {
        let bytes = |share: f64| (share * self.limit_bytes / PAGE_BYTES).round() * PAGE_BYTES;
        let curve = |curve: &Option<Curve>| curve.as_ref().map(|curve| curve(seconds));
        let held = curve(&sketch.held).map(|held| held + 0.3 * sketch.noise * random.normal());
        let pressure = curve(&sketch.pressure).unwrap_or(0.0) + 0.002 * random.normal().abs();
        TracePoint {
            time_nanos: nanos(seconds),
            used_bytes: bytes(level),
            limit_bytes: Some(bytes(sketch.limit_share(seconds))),
            held_bytes: held.map(|held| bytes(held.clamp(0.0, level))),
            reclaimable_bytes: bytes(
                curve(&sketch.reclaimable)
                    .unwrap_or_else(|| {
                        // File pages are dropped as room gets short: at the limit none are left.
                        let room = (sketch.limit_share(seconds) - level) / FILES_SQUEEZED_BELOW;
                        self.file_share * room.clamp(0.0, 1.0)
                    })
                    .clamp(0.0, level),
            ),
            children_bytes: curve(&sketch.children)
                .or(self.children_share.map(|share| share * level))
                .map(|children| bytes(children.clamp(0.0, level))),
            own_bytes: curve(&sketch.own)
                .or(self.own_share.map(|share| share * level))
                .map(|own| bytes(own.clamp(0.0, level))),
            swap_used_bytes: self.swap_total_bytes.map(|total| {
                let share = curve(&sketch.swap).unwrap_or(0.0).clamp(0.0, 1.0);
                (share * total / PAGE_BYTES).round() * PAGE_BYTES
            }),
            swap_total_bytes: self.swap_total_bytes,
            pressure_full: self.pressure.then_some(pressure.clamp(0.0, 1.0)),
            step: self.step_secs.map(|step| (seconds / step) as i64),
            mark: None,
        }
    }
}
