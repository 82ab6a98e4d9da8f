//! What a judgement costs, with a thousand series at a time: a predictor whose state falls out of the cache between two
//! looks at a series is as slow as it is in a large job.

use rustix::time::{ClockId, clock_gettime};

use crate::baselines::PredictorFactory;
use crate::predictor::Predictor;
use crate::shapes::{SHAPES, draw};
use crate::trace::Trace;

/// CPU time of this thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// To take in one point.
    pub observe_micros: f64,
    /// To judge once.
    pub judge_micros: f64,
}

/// How many series take turns.
pub const SERIES: usize = 1000;
/// Fifteen minutes at 1 Hz: the windows of all rivals are full.
const WARM_UP_POINTS: usize = 900;
const ROUNDS: usize = 10;
const POINTS_A_ROUND: usize = 10;

fn cpu_secs() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Traces of every shape, as long as the measurement needs.
pub fn cost_traces() -> Vec<Trace> {
    let needed = WARM_UP_POINTS + ROUNDS * POINTS_A_ROUND;
    (1..=SHAPES)
        .filter_map(|shape| {
            let mut seeds = (0..1000).map(|seed| draw(shape, seed));
            seeds.find(|trace| {
                trace.points.len() >= needed && trace.points[1].time_nanos == 1_000_000_000
            })
        })
        .collect()
}

/// Measures one predictor on a thousand series that take turns.
pub fn cost(make: &PredictorFactory, traces: &[Trace]) -> Cost {
    let mut series: Vec<(Box<dyn Predictor>, &Trace)> = (0..SERIES)
        .map(|number| (make(), &traces[number % traces.len()]))
        .collect();
    let mut observing_secs = 0.0;
    let mut judging_secs = 0.0;
    for point in 0..WARM_UP_POINTS {
        for (predictor, trace) in &mut series {
            predictor.observe(&trace.points[point]);
        }
    }
    for round in 0..ROUNDS {
        let first = WARM_UP_POINTS + round * POINTS_A_ROUND;
        let begin = cpu_secs();
        for point in first..first + POINTS_A_ROUND {
            for (predictor, trace) in &mut series {
                predictor.observe(&trace.points[point]);
            }
        }
        let between = cpu_secs();
        for (predictor, _) in &mut series {
            std::hint::black_box(predictor.judge());
        }
        observing_secs += between - begin;
        judging_secs += cpu_secs() - between;
    }
    let judgements = (SERIES * ROUNDS) as f64;
    Cost {
        observe_micros: observing_secs * 1e6 / judgements / POINTS_A_ROUND as f64,
        judge_micros: judging_secs * 1e6 / judgements,
    }
}
