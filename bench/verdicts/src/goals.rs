//! Which goals were reached, and where the false alarms come from: said beside the figures.

use std::fmt::Write;

use crate::contest::Entry;
use crate::tables::shape_name;

const RECALL: f64 = 0.95;
const PRECISION: f64 = 0.90;
const FALSE_ALARMS_AN_HOUR: f64 = 0.1;
/// Kinds of trace that are named.
const NAMED: usize = 4;

/// What a predictor reached.
pub fn in_words(entry: &Entry) -> String {
    let total = &entry.total;
    let mut text = format!("\nGoals, reached by {}:\n", entry.name);
    let mut goal = |what: &str, figure: Option<f64>, goal: f64, is_reached: bool| {
        let figure = figure.map_or("nothing".to_string(), |figure| format!("{figure:.2}"));
        let word = if is_reached { "reached" } else { "**missed**" };
        // Writing into a text cannot fail.
        writeln!(text, "- {what} {goal:.2}: {word} ({figure})").ok();
    };
    let recall = total.recall_of_predictable();
    goal(
        "recall without first spikes of at least",
        recall,
        RECALL,
        recall.is_some_and(|recall| recall >= RECALL),
    );
    let precision = total.precision();
    goal(
        "precision of at least",
        precision,
        PRECISION,
        precision.is_some_and(|precision| precision >= PRECISION),
    );
    let rate = total.false_alarms_an_hour();
    goal(
        "false alarms an hour of at most",
        rate,
        FALSE_ALARMS_AN_HOUR,
        rate.is_some_and(|rate| rate <= FALSE_ALARMS_AN_HOUR),
    );
    text.push_str(&false_alarms(entry));
    text
}

/// `Of 57 false alarms 18 are on 07-ramp-that-ends, ...`
fn false_alarms(entry: &Entry) -> String {
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
