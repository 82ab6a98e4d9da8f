//! One series of memory readings of which the outcome is known.
//!
//! Made by [`crate::shapes`] from a seed or read by [`crate::recorded`]; fed point by point to a
//! [`crate::predictor::Predictor`], which never sees the [`TraceOutcome`].

use std::borrow::Cow;

/// Nanoseconds in a second, as the traces count time.
pub const NANOS_PER_SEC: f64 = 1e9;

/// A series and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// For people: the shape and the seed, or the name of the recording.
    pub name: String,
    /// The number of the shape it was drawn from; recordings have none.
    pub shape: Option<u8>,
    /// What it was drawn with; 0 for recordings.
    pub seed: u64,
    /// In ascending time; a trace that ends in an OOM ends with the point at which it happened.
    pub points: Vec<TracePoint>,
    /// The outcome.
    pub truth: TraceOutcome,
}

/// One reading. What was not measured is `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TracePoint {
    /// Since the beginning of the trace.
    pub time_nanos: u64,
    /// What counts against the limit: the working set of a cgroup, torch's reserved bytes, or what a host has not available.
    pub used_bytes: f64,
    /// The limit in force at this time.
    pub limit_bytes: Option<f64>,
    /// Torch's allocated bytes, where `used_bytes` are its reserved ones.
    pub held_bytes: Option<f64>,
    /// File pages inside `used_bytes` that the kernel could drop.
    pub reclaimable_bytes: f64,
    /// The part of `used_bytes` in worker processes.
    pub children_bytes: Option<f64>,
    /// This job's part, where `used_bytes` are those of the whole host.
    pub own_bytes: Option<f64>,
    /// Swap in use.
    pub swap_used_bytes: Option<f64>,
    /// Swap there is.
    pub swap_total_bytes: Option<f64>,
    /// Share of the time (0 to 1) in which everything waited for memory.
    pub pressure_full: Option<f64>,
    /// The training step, where the job tells it.
    pub step: Option<i64>,
    /// A mark set since the point before, such as `epoch 2`.
    pub mark: Option<String>,
}

/// What became of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceOutcome {
    /// When it ran out of memory; `None`: it did not while it was watched.
    pub oom_at_nanos: Option<u64>,
    /// Nothing before the OOM announced it.
    pub unpredictable: bool,
    /// For growth cut off by the end of the trace: when, on the trace's own clock, the curve without noise would have
    /// reached the limit.
    pub limit_reached_after_end_nanos: Option<u64>,
    /// Whether it leaks; `None`: a matter of definition, not scored.
    pub leak: Option<bool>,
    /// Cycles of the step after warm-up, where there are steps; a leak of fewer than five is not asked for.
    pub leak_cycles: Option<u32>,
    /// What a reader should be told.
    pub expected: Cow<'static, str>,
}

impl Trace {
    /// Time of the last point.
    pub fn end_nanos(&self) -> u64 {
        self.points.last().map_or(0, |point| point.time_nanos)
    }

    /// From the first point to the last.
    pub fn duration_secs(&self) -> f64 {
        let begin = self.points.first().map_or(0, |point| point.time_nanos);
        (self.end_nanos() - begin) as f64 / NANOS_PER_SEC
    }

    /// When the limit is reached, watched or not.
    pub fn limit_reached_nanos(&self) -> Option<u64> {
        self.truth
            .oom_at_nanos
            .or(self.truth.limit_reached_after_end_nanos)
    }
}

impl TracePoint {
    /// Seconds since the beginning of the trace.
    pub fn seconds(&self) -> f64 {
        self.time_nanos as f64 / NANOS_PER_SEC
    }
}
