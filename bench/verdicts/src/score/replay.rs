//! Plays a trace to a predictor: every point is observed, and every ten seconds it is asked.

use crate::predictor::{Predictor, PredictorOutput};
use crate::trace::{NANOS_PER_SEC, Trace};

/// Traces shorter than this are judged in sixtieths of their length.
pub const SHORT_TRACE_SECS: f64 = 600.0;
const JUDGED_EVERY_SECS: f64 = 10.0;

/// One answer of a predictor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// On the trace's clock.
    pub seconds: f64,
    /// What it said.
    pub prediction: PredictorOutput,
}

/// All answers of a predictor to one trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// Ascending in time, all of them before an OOM.
    pub judgements: Vec<Judgement>,
    /// Its answer to whether the series leaks, after the last point.
    pub leak: Option<bool>,
}

/// Plays the trace. A gap in the sampling is a gap in the judgements: nobody asks when nothing was read.
pub fn replay(trace: &Trace, predictor: &mut dyn Predictor) -> Replay {
    let duration = trace.duration_secs();
    let every_secs = if duration < SHORT_TRACE_SECS {
        duration / 60.0
    } else {
        JUDGED_EVERY_SECS
    };
    let every_nanos = (every_secs * NANOS_PER_SEC) as u64;
    let begin_nanos = trace.points.first().map_or(0, |point| point.time_nanos);
    let mut judgements = Vec::with_capacity((duration / every_secs) as usize + 1);
    let mut next_nanos = begin_nanos + every_nanos;
    for point in &trace.points {
        predictor.observe(point);
        let too_late = Some(point.time_nanos) == trace.truth.oom_at_nanos;
        if predictor.forecasts() && point.time_nanos >= next_nanos && !too_late {
            judgements.push(Judgement {
                seconds: point.seconds(),
                prediction: predictor.judge(),
            });
            let passed = (point.time_nanos - begin_nanos) / every_nanos.max(1);
            next_nanos = begin_nanos + (passed + 1) * every_nanos;
        }
    }
    Replay {
        judgements,
        leak: predictor.leak(),
    }
}
