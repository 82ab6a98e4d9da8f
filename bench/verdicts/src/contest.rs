//! All predictors on all traces.

use std::collections::BTreeMap;

use crate::baselines::PredictorFactory;
use crate::score::cost::{Cost, cost, cost_traces};
use crate::score::{Total, TraceScore, replay, score};
use crate::trace::Trace;

/// What one predictor did.
#[derive(Debug, Clone)]
pub struct PredictorResult {
    /// As in its tables.
    pub name: &'static str,
    /// It forecasts OOMs; otherwise it only finds leaks.
    pub forecasts: bool,
    /// Over all traces.
    pub total: Total,
    /// For each shape; empty for recordings.
    pub by_shape: BTreeMap<u8, Total>,
    /// For each trace, in their order.
    pub scores: Vec<TraceScore>,
    /// What it costs, where that was measured.
    pub cost: Option<Cost>,
}

/// Plays each trace to each predictor. Traces are taken one at a time: all of them at once would not fit.
pub fn contest(
    makers: &[PredictorFactory],
    traces: impl Iterator<Item = Trace>,
) -> Vec<PredictorResult> {
    let mut entries: Vec<PredictorResult> = makers
        .iter()
        .map(|make| {
            let predictor = make();
            PredictorResult {
                name: predictor.name(),
                forecasts: predictor.forecasts(),
                total: Total::default(),
                by_shape: BTreeMap::new(),
                scores: Vec::new(),
                cost: None,
            }
        })
        .collect();
    for trace in traces {
        for (make, entry) in makers.iter().zip(&mut entries) {
            let scored = score(&trace, &replay(&trace, make().as_mut()));
            entry.total.add(&scored);
            if let Some(shape) = scored.shape {
                entry.by_shape.entry(shape).or_default().add(&scored);
            }
            entry.scores.push(scored);
        }
    }
    entries
}

/// Measures what each predictor costs.
pub fn measure_costs(makers: &[PredictorFactory], entries: &mut [PredictorResult]) {
    let traces = cost_traces();
    for (make, entry) in makers.iter().zip(entries) {
        if entry.forecasts {
            entry.cost = Some(cost(make, &traces));
        }
    }
}
