//! How memory and time grow, in words.

use std::io::Write;

use nilo_answer::fit::growth::{FitGrowthAnswer, GrowthRow, VariedSetting};
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;

use super::fit::{parameters_in_words, verdict_in_words};
use super::snapshot::places::grouped;
use crate::screen::Screen;
use crate::text::table::{left, right, write_table};

/// Writes a row for each value.
pub(crate) fn write_growth(
    out: &mut dyn Write,
    screen: Screen,
    answer: &FitGrowthAnswer,
) -> std::io::Result<()> {
    let name = varied_in_words(answer.varied);
    writeln!(
        out,
        "{}: how memory and time grow with the {name}",
        printable(&answer.model)
    )?;
    writeln!(out)?;
    let head = name.to_uppercase();
    let gpu = printable(&answer.gpu).to_uppercase();
    let columns = [
        right(&head),
        right("PARAMETERS").drops(4),
        right("PROCESS"),
        right("ALLOCATED").drops(2),
        right("GROWS AS").drops(3),
        right("TIME"),
        left(&gpu).drops(1),
    ];
    let row = |row: &GrowthRow| {
        vec![
            grouped(row.value),
            parameters_in_words(row.parameters),
            format_bytes(row.process_bytes.expected as f64),
            format_bytes(row.allocated_bytes.expected as f64),
            match row.memory_exponent {
                None => String::new(),
                Some(power) => format!("n^{power:.2}"),
            },
            format!("x{:.1}", row.time_ratio),
            verdict_in_words(row.verdict).to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = answer.rows.iter().map(row).collect();
    write_table(out, screen, &columns, &rows)?;
    writeln!(out)?;
    writeln!(
        out,
        "GROWS AS: by which power of the value allocated memory grew since the row above. TIME: from counts of multiplications, where the GPU is busy."
    )
}

/// What is varied.
pub(crate) fn varied_in_words(varied: VariedSetting) -> &'static str {
    match varied {
        VariedSetting::Batch => "batch",
        VariedSetting::Seq => "sequence length",
        VariedSetting::Vocab => "vocabulary",
        VariedSetting::Width => "width",
        VariedSetting::Layers => "number of layers",
    }
}
