//! What the programs of several runs logged, side by side.

use std::io::Write;

use nilo_analysis::Comparison;
use nilo_analysis::compare_training::ComparedFigure;
use nilo_analysis::metrics::metric_rank;
use nilo_plot::short_number;

use crate::screen::Screen;
use crate::text::number::{format_change, format_secs};
use crate::text::one_line::one_line;
use crate::text::table::{left, right, write_table};
use crate::text::training::SOME_METRICS;

const NAME_CHARS: usize = 40;
const RUN_CHARS: usize = 24;
/// The columns before those of the runs: name and figure. The baseline has one column, every other run two.
const NAME_COLUMNS: usize = 2;

const METRICS: &str = "Metrics:";

/// How a section writes its numbers.
type NumberFormat = fn(f64) -> String;

/// Writes a section for each kind that two runs have in common; nothing where there is none.
pub(crate) fn write_compared(
    out: &mut dyn Write,
    screen: Screen,
    comparison: &Comparison,
    all: bool,
) -> std::io::Result<()> {
    write_settings(out, comparison, all)?;
    let rate = |value: f64| format!("{}/s", short_number(value));
    let sections: [(&str, &[ComparedFigure], NumberFormat); 3] = [
        (METRICS, &comparison.metrics, short_number),
        ("Phases (mean):", &comparison.phases, |secs| {
            format_secs(Some(secs))
        }),
        ("Throughput (mean):", &comparison.throughput, rate),
    ];
    for (title, figures, format) in sections {
        // Figures of one name follow each other and are shown or left out together.
        let mut groups: Vec<&[ComparedFigure]> =
            figures.chunk_by(|a, b| a.name == b.name).collect();
        if title == METRICS {
            groups.sort_by_key(|group| metric_rank(&group[0].name));
        }
        if groups.is_empty() {
            continue;
        }
        let most = if all { usize::MAX } else { SOME_METRICS };
        writeln!(out, "{title}")?;
        write_section(out, screen, comparison, groups.iter().take(most), format)?;
        if groups.len() > most {
            let rest = groups.len() - most;
            writeln!(out, "  and {rest} more; see `--all` or `--format json`")?;
        }
    }
    Ok(())
}

/// The settings in which the runs differ, one line each.
fn write_settings(out: &mut dyn Write, comparison: &Comparison, all: bool) -> std::io::Result<()> {
    if comparison.settings.is_empty() {
        return Ok(());
    }
    writeln!(out, "Settings that differ:")?;
    let most = if all { usize::MAX } else { SOME_METRICS };
    for setting in comparison.settings.iter().take(most) {
        let value = |value: &Option<serde_json::Value>| match value {
            Some(value) => one_line(&nilo_sample::setting_text(value), RUN_CHARS),
            None => "–".to_owned(),
        };
        let values: Vec<String> = setting.values.iter().map(value).collect();
        writeln!(
            out,
            "  {}  {}",
            one_line(&setting.name, NAME_CHARS),
            values.join(" | ")
        )?;
    }
    if comparison.settings.len() > most {
        let rest = comparison.settings.len() - most;
        writeln!(out, "  and {rest} more; see `--all` or `--format json`")?;
    }
    Ok(())
}

fn write_section<'a>(
    out: &mut dyn Write,
    screen: Screen,
    comparison: &Comparison,
    groups: impl Iterator<Item = &'a &'a [ComparedFigure]>,
    format: NumberFormat,
) -> std::io::Result<()> {
    let labels: Vec<String> = comparison
        .runs
        .iter()
        .map(|run| one_line(&run.label, RUN_CHARS))
        .collect();
    let mut columns = vec![left("  NAME"), left("")];
    for (index, label) in labels.iter().enumerate() {
        // Of the runs, the baseline stays; where there is no room for all, the last ones go.
        columns.push(right(label).drops(u8::from(index > 0)));
        if index > 0 {
            columns.push(right("CHANGE").drops(2));
        }
    }
    let mut rows = Vec::new();
    for group in groups {
        for (index, figure) in group.iter().enumerate() {
            let name = match index {
                0 => one_line(&figure.name, NAME_CHARS),
                _ => String::new(),
            };
            let mut row = vec![format!("  {name}"), figure_word(figure.figure)];
            for run in 0..labels.len() {
                let value = figure.values.get(run).copied().flatten();
                row.push(value.map_or("-".to_owned(), format));
                if run > 0 {
                    row.push(format_change(
                        figure.change_ratios.get(run).copied().flatten(),
                    ));
                }
            }
            rows.push(row);
        }
    }
    let left_out = write_table(out, screen, &columns, &rows)?;
    let is_run = |column: &&usize| **column > NAME_COLUMNS && (**column - NAME_COLUMNS) % 2 == 1;
    match left_out.iter().filter(is_run).count() {
        0 if left_out.is_empty() => Ok(()),
        0 => writeln!(out, "  CHANGE is not shown: the terminal is too narrow"),
        1 => writeln!(out, "  1 run is not shown: the terminal is too narrow"),
        count => writeln!(
            out,
            "  {count} runs are not shown: the terminal is too narrow"
        ),
    }
}

/// Metrics have three figures each; the title says what the others are.
fn figure_word(figure: &str) -> String {
    match figure {
        "last" | "min" | "max" => figure.to_owned(),
        _ => String::new(),
    }
}
