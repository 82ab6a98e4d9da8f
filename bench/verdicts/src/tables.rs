//! The tables of a contest in forecasting. Those about leaks are in [`crate::leak_tables`].

use crate::contest::PredictorResult;
use crate::score::trace_score::RELIABILITY_BINS;
use crate::table::{TextTable, figure};

fn forecasters(entries: &[PredictorResult]) -> impl Iterator<Item = &PredictorResult> {
    entries.iter().filter(|entry| entry.forecasts)
}

/// How good the alarms are.
pub fn alarms(entries: &[PredictorResult]) -> TextTable {
    let mut table = TextTable::new(&[
        "predictor",
        "recall",
        "without first spikes",
        "precision",
        "false alarms/h",
        "calm traces alarmed",
        "lead s: median",
        "quartiles",
    ]);
    for entry in forecasters(entries) {
        let total = &entry.total;
        let quartile = |share| figure(total.lead_secs(share), 0);
        table.push(vec![
            entry.name.to_string(),
            figure(total.recall(), 2),
            figure(total.recall_of_predictable(), 2),
            figure(total.precision(), 2),
            figure(total.false_alarms_an_hour(), 2),
            format!("{}/{}", total.calm_alarmed, total.calm_traces),
            quartile(0.5),
            format!("{}..{}", quartile(0.25), quartile(0.75)),
        ]);
    }
    table
}

/// How good the times and probabilities are, and what they cost.
pub fn forecasts(entries: &[PredictorResult]) -> TextTable {
    let mut table = TextTable::new(&[
        "predictor",
        "median |log2(predicted/true)|",
        "coverage of the 80 % interval",
        "Brier score",
        "µs a judgement",
        "µs a point",
    ]);
    for entry in forecasters(entries) {
        let total = &entry.total;
        table.push(vec![
            entry.name.to_string(),
            figure(total.median_log2_error(), 2),
            figure(total.coverage(), 2),
            figure(total.brier(), 4),
            figure(entry.cost.map(|cost| cost.judge_micros), 2),
            figure(entry.cost.map(|cost| cost.observe_micros), 3),
        ]);
    }
    if let Some(entry) = forecasters(entries).next() {
        let base_rate = figure(entry.total.brier_of_base_rate(), 4);
        let none = || "–".to_string();
        table.push(vec![
            "always the overall frequency".to_string(),
            none(),
            none(),
            base_rate,
            none(),
            none(),
        ]);
    }
    table
}

/// Where each predictor fails: `hits/OOMs` and wrong alarms for each shape.
pub fn by_shape(entries: &[PredictorResult]) -> TextTable {
    let mut header = vec!["shape", "traces", "OOMs"];
    header.extend(forecasters(entries).map(|entry| entry.name));
    let mut table = TextTable::new(&header);
    let Some(first) = forecasters(entries).next() else {
        return table;
    };
    for (shape, total) in &first.by_shape {
        let mut row = vec![
            shape_name(first, *shape),
            total.traces.to_string(),
            total.ooms.to_string(),
        ];
        row.extend(forecasters(entries).map(|entry| {
            let total = entry.by_shape.get(shape).cloned().unwrap_or_default();
            hits_and_false(total.hits, total.ooms, total.false_episodes)
        }));
        table.push(row);
    }
    table
}

/// The number and name of a shape, as its traces have it.
pub(crate) fn shape_name(entry: &PredictorResult, shape: u8) -> String {
    let trace = entry.scores.iter().find(|score| score.shape == Some(shape));
    let name = trace.and_then(|score| score.name.split('/').next());
    name.unwrap_or_default().to_string()
}

/// `3/4` and ` +2` for two wrong ones; a dot where there was nothing to find and nothing imagined.
pub(crate) fn hits_and_false(hits: u32, ooms: u32, wrong: u32) -> String {
    match (ooms, wrong) {
        (0, 0) => "·".to_string(),
        (0, wrong) => format!("+{wrong}"),
        (ooms, 0) => format!("{hits}/{ooms}"),
        (ooms, wrong) => format!("{hits}/{ooms} +{wrong}"),
    }
}

/// Single traces, for a handful of recordings.
pub fn by_trace(entries: &[PredictorResult]) -> TextTable {
    let mut header = vec!["trace", "outcome"];
    header.extend(forecasters(entries).map(|entry| entry.name));
    let mut table = TextTable::new(&header);
    let Some(first) = forecasters(entries).next() else {
        return table;
    };
    for (number, score) in first.scores.iter().enumerate() {
        let outcome = if score.oom { "OOM" } else { "calm" };
        let mut row = vec![score.name.clone(), outcome.to_string()];
        row.extend(forecasters(entries).map(|entry| {
            let score = &entry.scores[number];
            match (
                score.lead_secs,
                score.oom,
                score.false_episodes,
                score.neutral_episodes,
            ) {
                (Some(lead), _, wrong, _) => format!("{lead:.1} s ahead{}", also(wrong)),
                (None, true, wrong, _) => format!("missed{}", also(wrong)),
                (None, false, 0, 0) => "quiet".to_string(),
                (None, false, 0, _) => "neutral".to_string(),
                (None, false, wrong, _) => format!("{wrong} false"),
            }
        }));
        table.push(row);
    }
    table
}

fn also(wrong: u32) -> String {
    if wrong == 0 {
        String::new()
    } else {
        format!(", {wrong} false")
    }
}

/// Whether a probability means what it says: for judgements of similar confidence, how often an OOM followed.
pub fn reliability(entry: &PredictorResult) -> TextTable {
    let mut table = TextTable::new(&[
        "confidence",
        "judgements",
        "mean confidence",
        "OOM within ten minutes",
    ]);
    for (number, bin) in entry.total.reliability.iter().enumerate() {
        if bin.judgements == 0 {
            continue;
        }
        let edge = |number: usize| number as f64 / RELIABILITY_BINS as f64;
        let count = bin.judgements as f64;
        table.push(vec![
            format!("{:.1}..{:.1}", edge(number), edge(number + 1)),
            bin.judgements.to_string(),
            figure(Some(bin.confidence_sum / count), 2),
            figure(Some(bin.events as f64 / count), 2),
        ]);
    }
    table
}

/// Traces on which predictors went wrong, one a row.
pub fn details(entries: &[PredictorResult]) -> TextTable {
    let mut table = TextTable::new(&["trace", "predictor", "what went wrong"]);
    for entry in entries {
        for score in &entry.scores {
            let mut wrong = Vec::new();
            if entry.forecasts && score.oom && score.lead_secs.is_none() && !score.unpredictable {
                wrong.push("missed".to_string());
            }
            if score.false_episodes > 0 {
                wrong.push(format!("{} false", score.false_episodes));
            }
            match score.leak {
                Some(answer) if answer.truth && !answer.said => {
                    wrong.push("leak missed".to_string())
                }
                Some(answer) if answer.said && !answer.truth => {
                    wrong.push("leak imagined".to_string())
                }
                _ => {}
            }
            if !wrong.is_empty() {
                table.push(vec![
                    score.name.clone(),
                    entry.name.to_string(),
                    wrong.join(", "),
                ]);
            }
        }
    }
    table
}
