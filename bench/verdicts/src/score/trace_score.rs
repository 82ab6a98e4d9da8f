//! What a predictor said about one trace, compared with what happened.
//!
//! An *episode* lasts from the judgement at which the alarm goes on to the one at which it is off again.
//! The rules, in the order in which they are applied to each episode:
//!
//! 1. Before an OOM: on for some of the time from 20 minutes to 30 seconds ahead, it is a *hit*; begun later, it is too
//!    late and counts for nothing; gone earlier, it is *false*.
//! 2. In a trace of less than ten minutes the window reaches from the beginning to 1 % of the duration ahead.
//! 3. Where the end of the trace cut off growth that would have reached the limit, an episode is *neutral* if the limit
//!    lies within 1.5 horizons of the end and 20 minutes of the episode, or within 1.5 times what was predicted.
//! 4. Every other episode is *false*.

use super::replay::{Judgement, Replay, SHORT_TRACE_SECS};
use crate::predictor::HORIZON_SECS;
use crate::trace::{NANOS_PER_SEC, Trace};

/// No alarm earlier than this is of use.
pub const EARLIEST_SECS: f64 = 1200.0;
/// No alarm later than this is of use.
pub const LATEST_SECS: f64 = 30.0;
const LATEST_SHARE_OF_SHORT: f64 = 0.01;
const TOLERANCE: f64 = 1.5;
/// Fewer cycles of the step than this are not enough to call growth a leak.
pub const LEAST_LEAK_CYCLES: u32 = 5;
/// Rows of the reliability table.
pub const RELIABILITY_BINS: usize = 10;

/// The score of one predictor on one trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TraceScore {
    /// As in the trace.
    pub shape: Option<u8>,
    /// As in the trace.
    pub name: String,
    /// It ran out of memory.
    pub oom: bool,
    /// Nothing announced that.
    pub unpredictable: bool,
    /// From the alarm to the OOM, if it was a hit; at most [`EARLIEST_SECS`].
    pub lead_secs: Option<f64>,
    /// Episodes that were wrong.
    pub false_episodes: u32,
    /// Episodes about growth that the end of the trace cut off.
    pub neutral_episodes: u32,
    /// Length of the trace.
    pub hours: f64,
    /// |log2(predicted / true)| of each judgement under alarm with an OOM at most 20 minutes ahead.
    pub log2_errors: Vec<f64>,
    /// How many of those judgements had an interval.
    pub intervals: u32,
    /// How many of these held the truth.
    pub covered: u32,
    /// Sum of squared differences between confidence and outcome.
    pub brier_sum: f64,
    /// Judgements by their confidence.
    pub reliability: [Bin; RELIABILITY_BINS],
    /// What it said about a leak and what is true, where both are known.
    pub leak: Option<LeakJudgement>,
}

/// Judgements of similar confidence.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bin {
    /// How many.
    pub judgements: u64,
    /// How many were followed by an OOM within the horizon.
    pub events: u64,
    /// Sum of their confidences.
    pub confidence_sum: f64,
}

/// An answer to the question of a leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeakJudgement {
    /// What the predictor said.
    pub said: bool,
    /// What is true.
    pub truth: bool,
}

/// A stretch of alarm.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Episode {
    begin_secs: f64,
    end_secs: f64,
    predicted_secs: Option<f64>,
}

fn episodes(judgements: &[Judgement], trace_end_secs: f64) -> Vec<Episode> {
    let mut episodes = Vec::new();
    let mut open: Option<Episode> = None;
    for judgement in judgements {
        match (judgement.prediction.alarm, open) {
            (true, None) => {
                open = Some(Episode {
                    begin_secs: judgement.seconds,
                    end_secs: trace_end_secs,
                    predicted_secs: judgement.prediction.seconds,
                });
            }
            (false, Some(episode)) => {
                episodes.push(Episode {
                    end_secs: judgement.seconds,
                    ..episode
                });
                open = None;
            }
            _ => {}
        }
    }
    episodes.extend(open);
    episodes
}

/// Compares.
pub fn score(trace: &Trace, replay: &Replay) -> TraceScore {
    let duration = trace.duration_secs();
    let end_secs = trace.end_nanos() as f64 / NANOS_PER_SEC;
    let seconds = |nanos: u64| nanos as f64 / NANOS_PER_SEC;
    let oom_secs = trace.truth.oom_at_nanos.map(seconds);
    let reached_secs = trace.limit_reached_nanos().map(seconds);
    let mut result = TraceScore {
        shape: trace.shape,
        name: trace.name.clone(),
        oom: oom_secs.is_some(),
        unpredictable: trace.truth.unpredictable,
        hours: duration / 3600.0,
        leak: leak_answer(trace, replay.leak),
        ..TraceScore::default()
    };
    for episode in episodes(&replay.judgements, end_secs) {
        if let Some(oom) = oom_secs {
            let (opens, closes) = window(oom, duration);
            if episode.end_secs <= opens {
                result.false_episodes += 1;
            } else if episode.begin_secs <= closes {
                let lead = oom - episode.begin_secs.max(opens);
                result.lead_secs = Some(result.lead_secs.map_or(lead, |first| first.max(lead)));
            }
        } else if reached_secs.is_some_and(|reached| neutral(episode, reached, end_secs)) {
            result.neutral_episodes += 1;
        } else {
            result.false_episodes += 1;
        }
    }
    for judgement in &replay.judgements {
        score_judgement(judgement, oom_secs, reached_secs, &mut result);
    }
    result
}

/// The time in which an alarm is of use.
fn window(oom_secs: f64, duration_secs: f64) -> (f64, f64) {
    if duration_secs < SHORT_TRACE_SECS {
        (
            f64::NEG_INFINITY,
            oom_secs - LATEST_SHARE_OF_SHORT * duration_secs,
        )
    } else {
        (oom_secs - EARLIEST_SECS, oom_secs - LATEST_SECS)
    }
}

fn neutral(episode: Episode, reached_secs: f64, end_secs: f64) -> bool {
    let soon_after_end = reached_secs - end_secs <= TOLERANCE * HORIZON_SECS;
    let near = episode.end_secs > reached_secs - EARLIEST_SECS;
    let as_predicted = episode
        .predicted_secs
        .is_some_and(|predicted| reached_secs - episode.begin_secs <= TOLERANCE * predicted);
    (soon_after_end && near) || as_predicted
}

fn score_judgement(
    judgement: &Judgement,
    oom_secs: Option<f64>,
    reached_secs: Option<f64>,
    result: &mut TraceScore,
) {
    let prediction = judgement.prediction;
    if let Some(oom) = oom_secs
        && prediction.alarm
        && oom - judgement.seconds <= EARLIEST_SECS
    {
        let ahead = oom - judgement.seconds;
        if let Some(predicted) = prediction.seconds {
            // Below a second the ratio says nothing.
            result
                .log2_errors
                .push((predicted.max(1.0) / ahead.max(1.0)).log2().abs());
        }
        if let (Some(low), Some(high)) = (prediction.seconds_low, prediction.seconds_high) {
            result.intervals += 1;
            result.covered += u32::from((low..=high).contains(&ahead));
        }
    }
    let event = reached_secs.is_some_and(|reached| reached - judgement.seconds <= HORIZON_SECS);
    let confidence = prediction.confidence.clamp(0.0, 1.0);
    result.brier_sum += (confidence - f64::from(u8::from(event))).powi(2);
    let place = ((confidence * RELIABILITY_BINS as f64) as usize).min(RELIABILITY_BINS - 1);
    let bin = &mut result.reliability[place];
    bin.judgements += 1;
    bin.events += u64::from(event);
    bin.confidence_sum += confidence;
}

fn leak_answer(trace: &Trace, said: Option<bool>) -> Option<LeakJudgement> {
    let enough = trace
        .truth
        .leak_cycles
        .is_none_or(|cycles| cycles >= LEAST_LEAK_CYCLES);
    match (said, trace.truth.leak) {
        (Some(said), Some(truth)) if enough => Some(LeakJudgement { said, truth }),
        _ => None,
    }
}
