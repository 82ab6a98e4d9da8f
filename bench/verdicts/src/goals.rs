//! Which goals were reached, and where the false alarms come from: said beside the figures.

use crate::contest::PredictorResult;
use crate::tables::shape_name;

const RECALL: f64 = 0.95;
const PRECISION: f64 = 0.90;
const FALSE_ALARMS_AN_HOUR: f64 = 0.1;
/// Kinds of trace that are named.
const NAMED: usize = 4;

/// Highest error of a predicted time, as a power of two, and the coverage that an 80 % interval may have.
const TIME_ERROR: f64 = 0.25;
const COVERAGE: std::ops::RangeInclusive<f64> = 0.75..=0.90;

/// Which goals for alarms a predictor reached.
pub fn of_alarms(entry: &PredictorResult) -> String {
    let total = &entry.total;
    let mut text = format!("\nGoals for {}:\n", entry.name);
    let recall = total.recall_of_predictable();
    let precision = total.precision();
    let rate = total.false_alarms_an_hour();
    text += &line(
        "recall without first spikes of at least 0.95",
        recall,
        |it| it >= RECALL,
    );
    text += &line("precision of at least 0.90", precision, |it| {
        it >= PRECISION
    });
    text += &line("at most 0.1 false alarms an hour", rate, |it| {
        it <= FALSE_ALARMS_AN_HOUR
    });
    text + &false_alarms(entry)
}

/// Which goals for times and probabilities the first of all predictors reached.
pub fn of_times(entries: &[PredictorResult]) -> String {
    let Some((entry, others)) = entries.split_first() else {
        return String::new();
    };
    let total = &entry.total;
    let mut text = format!("\nGoals for {}:\n", entry.name);
    let error = total.median_log2_error();
    text += &line("an error of at most 0.25", error, |it| it <= TIME_ERROR);
    text += &line("a coverage of 0.75 to 0.90", total.coverage(), |it| {
        COVERAGE.contains(&it)
    });
    let forecasters = others.iter().filter(|other| other.forecasts);
    let scores = forecasters.filter_map(|other| other.total.brier());
    let best = scores.chain(total.brier_of_base_rate()).fold(1.0, f64::min);
    let name = "a lower Brier score than anyone else's";
    text + &line(name, total.brier(), |it| it < best)
}

fn line(goal: &str, figure: Option<f64>, is_reached: impl Fn(f64) -> bool) -> String {
    let word = match figure.is_some_and(is_reached) {
        true => "reached",
        false => "**missed**",
    };
    let figure = figure.map_or("none".to_string(), |figure| format!("{figure:.2}"));
    format!("- {goal}: {word} ({figure})\n")
}

/// `Of 57 false alarms 18 are on 07-ramp-that-ends, ...`
fn false_alarms(entry: &PredictorResult) -> String {
    let mut kinds: Vec<(u32, u8)> = entry
        .by_shape
        .iter()
        .map(|(shape, total)| (total.false_episodes, *shape))
        .filter(|(count, _)| *count > 0)
        .collect();
    kinds.sort_by_key(|(count, shape)| (std::cmp::Reverse(*count), *shape));
    let Some((most, shape)) = kinds.first().copied() else {
        return String::new();
    };
    let named: Vec<String> = kinds
        .iter()
        .take(NAMED)
        .map(|(count, shape)| format!("{count} on {}", shape_name(entry, *shape)))
        .collect();
    let (hits, all) = (entry.total.hits, entry.total.false_episodes);
    let without = f64::from(hits) / f64::from((hits + all - most).max(1));
    format!(
        "\nOf {all} false alarms {}; without {} the precision is {without:.2}.\n",
        named.join(", "),
        shape_name(entry, shape),
    )
}
