//! From the idea of a shape to a trace: a curve without noise, what goes with it, and how it may end.
//!
//! A shape says what is particular to it; everything else a recorder would see (a few file pages, worker processes,
//! pressure, swap, steps) is drawn by [`crate::surroundings`] for all shapes alike, so that its presence gives nothing away.

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::surroundings::{TraceContext, TraceNoise, nanos};
use crate::trace::{Trace, TraceOutcome, TracePoint};

/// A function of the time in seconds, as a share of the limit that the trace begins with.
pub(crate) type Curve = Box<dyn Fn(f64) -> f64>;

/// How a trace may end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TraceEnding {
    /// Killed when it reaches the limit; cut off if it does not in time.
    AtLimit,
    /// Never killed; at the limit the kernel or the allocator gives something back.
    Calm,
    /// Killed at this second, wherever the curve stands.
    At(f64),
}

/// What is used and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TraceResource {
    /// A cgroup's working set.
    Cgroup,
    /// A whole machine, with the job as a part of it.
    Host,
    /// PyTorch's caching allocator.
    Torch,
}

/// The idea of a trace.
pub(crate) struct Sketch {
    pub(crate) shape: u8,
    pub(crate) name: &'static str,
    pub(crate) expected: &'static str,
    pub(crate) sampling: SamplingTimes,
    pub(crate) resource: TraceResource,
    pub(crate) level: Curve,
    /// Deviation of the fluctuation, as a share of the limit.
    pub(crate) noise: f64,
    pub(crate) ending: TraceEnding,
    pub(crate) unpredictable: bool,
    pub(crate) leak: Option<bool>,
    /// Factor on the limit from this second on.
    pub(crate) limit_change: Option<(f64, f64)>,
    pub(crate) held: Option<Curve>,
    pub(crate) reclaimable: Option<Curve>,
    pub(crate) children: Option<Curve>,
    pub(crate) own: Option<Curve>,
    /// Used swap as a share of all swap.
    pub(crate) swap: Option<Curve>,
    pub(crate) pressure: Option<Curve>,
    /// Marks at their seconds, ascending.
    pub(crate) marks: Vec<(f64, String)>,
    /// Duration of a step where the curve has steps in it.
    pub(crate) step_secs: Option<f64>,
}

impl Sketch {
    /// A cgroup with this curve, killed at its limit; the shape changes what is different.
    pub(crate) fn new(
        random: &mut Random,
        sampling: SamplingTimes,
        level: impl Fn(f64) -> f64 + 'static,
    ) -> Self {
        Self {
            shape: 0,
            name: "",
            expected: "",
            sampling,
            resource: TraceResource::Cgroup,
            level: Box::new(level),
            noise: random.factor_between(0.000_5, 0.006),
            ending: TraceEnding::AtLimit,
            unpredictable: false,
            leak: None,
            limit_change: None,
            held: None,
            reclaimable: None,
            children: None,
            own: None,
            swap: None,
            pressure: None,
            marks: Vec::new(),
            step_secs: None,
        }
    }

    /// The limit in force at a time.
    pub(crate) fn limit_share(&self, seconds: f64) -> f64 {
        match self.limit_change {
            Some((at, factor)) if seconds >= at => factor,
            _ => 1.0,
        }
    }

    /// When the curve without noise reaches the limit, looked for from one second to another.
    pub(crate) fn reached_between(&self, begin: f64, end: f64, stride: f64) -> Option<f64> {
        let strides = ((end - begin) / stride).ceil() as u64;
        (1..=strides)
            .map(|stride_number| begin + stride_number as f64 * stride)
            .find(|seconds| (self.level)(*seconds) >= self.limit_share(*seconds))
    }

    /// Samples the sketch.
    pub(crate) fn render(self, seed: u64, random: &mut Random) -> Trace {
        let surroundings = TraceContext::draw(&self, random);
        let mut fluctuation = TraceNoise::draw(self.noise, random);
        let mut points: Vec<TracePoint> = Vec::with_capacity(self.sampling.times_secs.len());
        let mut marks = self.marks.iter().peekable();
        let mut oom_at = None;
        let mut before = 0.0;
        for &sample_secs in &self.sampling.times_secs {
            // What happens between two samples kills as well.
            let between = match self.ending {
                TraceEnding::AtLimit if sample_secs - before > 1.5 => {
                    self.reached_between(before, sample_secs, 0.5)
                }
                _ => None,
            };
            let mut seconds = between.unwrap_or(sample_secs);
            if let TraceEnding::At(end) = self.ending
                && seconds >= end
            {
                seconds = end;
                oom_at = Some(seconds);
            }
            let limit_share = self.limit_share(seconds);
            let noisy = (self.level)(seconds) + fluctuation.next(seconds - before, random);
            let mut level = noisy.max(0.001);
            if self.ending == TraceEnding::AtLimit && (level >= limit_share || between.is_some()) {
                oom_at = Some(seconds);
                level = limit_share;
            }
            level = level.min(match oom_at {
                Some(_) => limit_share,
                None => limit_share * 0.999,
            });
            let mut point = surroundings.point(&self, seconds, level, random);
            while let Some((_, mark)) = marks.next_if(|(at, _)| *at <= seconds) {
                point.mark = Some(mark.clone());
            }
            points.push(point);
            if oom_at.is_some() {
                break;
            }
            before = seconds;
        }
        let duration = self.sampling.duration_secs;
        let after_end = match (oom_at, self.ending) {
            (None, TraceEnding::AtLimit) => {
                self.reached_between(duration, 4.0 * duration + 3600.0, 0.5)
            }
            _ => None,
        };
        let watched = oom_at.unwrap_or(duration);
        // The first tenth counts as warm-up.
        let cycles = |period: f64| (0.9 * watched / period) as u32;
        Trace {
            name: format!("{:02}-{}/{seed}", self.shape, self.name),
            shape: Some(self.shape),
            seed,
            points,
            truth: TraceOutcome {
                oom_at_nanos: oom_at.map(nanos),
                unpredictable: self.unpredictable,
                limit_reached_after_end_nanos: after_end.map(nanos),
                leak: self.leak,
                leak_cycles: surroundings.step_secs.or(self.step_secs).map(cycles),
                expected: self.expected.into(),
            },
        }
    }
}
