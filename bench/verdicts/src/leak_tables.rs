//! The tables of a contest in finding leaks.

use crate::contest::PredictorResult;
use crate::table::{TextTable, figure};
use crate::tables::{hits_and_false, shape_name};

fn finders(entries: &[PredictorResult]) -> Vec<&PredictorResult> {
    let answers = |entry: &&PredictorResult| entry.total.leaks.answers() > 0;
    entries.iter().filter(answers).collect()
}

/// How good the findings of leaks are.
pub fn quality(entries: &[PredictorResult]) -> TextTable {
    let mut table = TextTable::new(&[
        "finder",
        "precision",
        "recall",
        "found",
        "missed",
        "imagined",
        "traces",
    ]);
    for entry in entries {
        let leaks = &entry.total.leaks;
        if leaks.answers() > 0 {
            table.push(vec![
                entry.name.to_string(),
                figure(leaks.precision(), 2),
                figure(leaks.recall(), 2),
                leaks.found.to_string(),
                leaks.missed.to_string(),
                leaks.imagined.to_string(),
                leaks.answers().to_string(),
            ]);
        }
    }
    table
}

/// Leaks found, missed and imagined for each shape.
pub fn by_shape(entries: &[PredictorResult]) -> TextTable {
    let finders = finders(entries);
    let mut header = vec!["shape", "leaks", "others"];
    header.extend(finders.iter().map(|entry| entry.name));
    let mut table = TextTable::new(&header);
    let Some(first) = finders.first() else {
        return table;
    };
    for (shape, total) in &first.by_shape {
        let leaks = total.leaks;
        if leaks.answers() == 0 {
            continue;
        }
        let mut row = vec![
            shape_name(first, *shape),
            (leaks.found + leaks.missed).to_string(),
            (leaks.imagined + leaks.cleared).to_string(),
        ];
        row.extend(finders.iter().map(|entry| {
            let leaks = entry
                .by_shape
                .get(shape)
                .map(|total| total.leaks)
                .unwrap_or_default();
            hits_and_false(leaks.found, leaks.found + leaks.missed, leaks.imagined)
        }));
        table.push(row);
    }
    table
}

/// What each finder said about single traces.
pub fn by_trace(entries: &[PredictorResult]) -> TextTable {
    let finders = finders(entries);
    let mut header = vec!["trace", "leak"];
    header.extend(finders.iter().map(|entry| entry.name));
    let mut table = TextTable::new(&header);
    let Some(first) = finders.first() else {
        return table;
    };
    let word = |leak: bool| if leak { "yes" } else { "no" }.to_string();
    for (number, score) in first.scores.iter().enumerate() {
        let truth = score
            .leak
            .map_or_else(String::new, |answer| word(answer.truth));
        let mut row = vec![score.name.clone(), truth];
        row.extend(finders.iter().map(|entry| {
            let said = entry.scores[number].leak.map(|answer| answer.said);
            said.map_or_else(|| "–".to_string(), word)
        }));
        table.push(row);
    }
    table
}
