//! CSV in long form: every number of every table on a line of its own, `time_seconds,table,column,step,value,writer`.
//!
//! Times have nine decimals and values as many as they need, so that nothing is lost.
//! What was not measured has an empty value; `NaN`, `inf` and `-inf` stand for themselves.
//! Tables are named by [`crate::subject_name`]; the writer tells processes apart.
//! Values are in the order of table name, column and time; several processes that logged one metric are in one order of time.
//! Where rows were taken while the job gave its memory back, or after the kernel had killed it, a last row of the table `run` and the column `ending` has the time of the first of them.
//! Where ranks of a distributed run wrote tables, a last column `rank` has theirs and is empty for the others.

use std::io::Write;

use nilo_analysis::step_at;
use nilo_analysis::tracking::ending_began;
use nilo_sample::units::NANOS_PER_SEC;
use nilo_sample::{Recording, is_absent};

use crate::csv_rows::CsvRows;
use crate::in_force::cell;
use crate::long_series::long_series;
use crate::number_text::NumberText;
use crate::{ExportError, has_ranks};

/// Writes one series after the other, each in the order of time.
pub fn write_csv_long(recording: &Recording, output: impl Write) -> Result<(), ExportError> {
    let has_ranks = has_ranks(recording);
    let rank = has_ranks.then_some("rank");
    let header = ["time_seconds", "table", "column", "step", "value", "writer"];
    let mut rows = CsvRows::new(output, header.into_iter().chain(rank))?;
    for series in long_series(recording) {
        series.each(|table, column, row| {
            write_time(&mut rows, table.times[row])?;
            rows.text(&series.table)?;
            rows.text(series.column)?;
            rows.number_if_known(step_at(table, row))?;
            let value = cell(table, column, row);
            rows.number_if_known((!is_absent(value)).then_some(NumberText(value)))?;
            rows.text(&table.writer)?;
            if has_ranks {
                rows.number_if_known(table.spec.rank)?;
            }
            rows.end_row()
        })?;
    }
    let ending = recording.description.ending.as_ref();
    if let Some(from_nanos) = ending.and_then(|ending| ending_began(recording, ending)) {
        write_time(&mut rows, from_nanos)?;
        rows.text("run")?;
        rows.text("ending")?;
        rows.text("")?;
        rows.number(1)?;
        rows.text("")?;
        if has_ranks {
            rows.text("")?;
        }
        rows.end_row()?;
    }
    rows.finish()?;
    Ok(())
}

fn write_time(rows: &mut CsvRows<impl Write>, time_nanos: u64) -> std::io::Result<()> {
    let (secs, nanos) = (time_nanos / NANOS_PER_SEC, time_nanos % NANOS_PER_SEC);
    rows.number(format_args!("{secs}.{nanos:09}"))
}
