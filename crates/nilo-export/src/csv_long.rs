//! CSV in long form: every number of every table on a line of its own, `time_seconds,table,column,step,value,writer`.
//!
//! Times have nine decimals and values as many as they need, so that nothing is lost.
//! What was not measured has an empty value; `NaN`, `inf` and `-inf` stand for themselves.
//! Tables are named by [`crate::subject_name`]; the writer tells processes apart.
//! Where ranks of a distributed run wrote tables, a last column `rank` has theirs and is empty for the others.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};

use nilo_analysis::step_at;
use nilo_sample::units::NANOS_PER_SEC;
use nilo_sample::{Recording, is_absent};

use crate::csv::push_text;
use crate::in_force::cell;
use crate::number_text::NumberText;
use crate::subject_name::subject_name;
use crate::{ExportError, has_ranks};

/// Writes all tables one after the other, column by column.
pub fn write_csv_long(recording: &Recording, output: impl Write) -> Result<(), ExportError> {
    let mut output = BufWriter::new(output);
    let has_ranks = has_ranks(recording);
    let rank = if has_ranks { ",rank" } else { "" };
    writeln!(output, "time_seconds,table,column,step,value,writer{rank}")?;
    let mut names = String::new();
    let mut line = String::new();
    for table in &recording.tables {
        let mut writer = String::new();
        push_text(&mut writer, &table.writer);
        if has_ranks {
            writer.push(',');
            writer.extend(table.spec.rank.map(|rank| rank.to_string()));
        }
        for (column, declared) in table.spec.columns.iter().enumerate() {
            names.clear();
            push_text(&mut names, &subject_name(&table.spec.subject));
            names.push(',');
            push_text(&mut names, &declared.name);
            for (row, time) in table.times.iter().copied().enumerate() {
                line.clear();
                let (secs, nanos) = (time / NANOS_PER_SEC, time % NANOS_PER_SEC);
                // Writing to a String cannot fail.
                let _ = write!(line, "{secs}.{nanos:09},{names},");
                if let Some(step) = step_at(table, row) {
                    let _ = write!(line, "{step}");
                }
                line.push(',');
                let value = cell(table, column, row);
                if !is_absent(value) {
                    let _ = write!(line, "{}", NumberText(value));
                }
                let _ = writeln!(line, ",{writer}");
                output.write_all(line.as_bytes())?;
            }
        }
    }
    output.flush()?;
    Ok(())
}
