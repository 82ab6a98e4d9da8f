//! JSON: the whole recording as one object, schema `nilo.recording/1`.
//!
//! ```text
//! {"schema": "nilo.recording/1",
//!  "run": {…as in run.json…},
//!  "tables": [{"subject": {"type": "tree"}, "writer": "recorder-1", "hold": false,
//!              "columns": [{"name": "memory_bytes", "unit": "bytes", "kind": "gauge"}],
//!              "times_nanos": [0, 100000000], "steps": [], "values": [[1024, null]]}],
//!  "events": [{"time_nanos": 5, "event": "mark", "text": "epoch 1"}],
//!  "dropped_rows": 0, "damage": []}
//! ```
//!
//! `values` has one array for each column, one value for each time; `steps` is empty in tables without steps and has `null` in rows without one.
//! A table that a rank of a distributed run wrote has its `rank`.
//! What was not measured is `null`; JSON has no word for what is not finite, so that is text: `"NaN"`, `"Infinity"`, `"-Infinity"`.
//! Numbers are written straight to the output, never gathered in a tree.

use std::io::{BufWriter, Write};

use nilo_analysis::step_at;
use nilo_sample::printable::escape_json;
use nilo_sample::{Column, Event, RecordedTable, Recording, Subject, is_absent};
use serde::Serialize;

use crate::in_force::cell;
use crate::number_text::NumberText;
use crate::{ExportError, RECORDING_SCHEMA};

/// The opening of a table, up to its arrays.
#[derive(Serialize)]
struct TableHead<'a> {
    subject: &'a Subject,
    writer: &'a str,
    hold: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    columns: &'a [Column],
}

#[derive(Serialize)]
struct EventLine<'a> {
    time_nanos: u64,
    #[serde(flatten)]
    event: &'a Event,
}

/// Writes the whole recording.
pub fn write_json(recording: &Recording, output: impl Write) -> Result<(), ExportError> {
    let mut output = BufWriter::new(output);
    write!(output, "{{\"schema\":\"{RECORDING_SCHEMA}\",\n\"run\":")?;
    write_texts(&recording.description, &mut output)?;

    write!(output, ",\n\"tables\":[")?;
    for (index, table) in recording.tables.iter().enumerate() {
        output.write_all(separator(index))?;
        write_table(table, &mut output)?;
    }

    write!(output, "],\n\"events\":[")?;
    for (index, timed) in recording.events.iter().enumerate() {
        output.write_all(separator(index))?;
        let line = EventLine {
            time_nanos: timed.time_nanos,
            event: &timed.event,
        };
        write_texts(&line, &mut output)?;
    }

    write!(
        output,
        "],\n\"dropped_rows\":{},\n\"damage\":",
        recording.dropped_rows
    )?;
    write_texts(&nilo_analysis::damage(recording), &mut output)?;
    output.write_all(b"}\n")?;
    output.flush()?;
    Ok(())
}

/// What has texts in it, escaped as all JSON of ours: the file may be looked at on a terminal.
fn write_texts(value: &impl Serialize, output: &mut impl Write) -> Result<(), ExportError> {
    let json = escape_json(&serde_json::to_string(value)?);
    Ok(output.write_all(json.as_bytes())?)
}

fn write_table(table: &RecordedTable, output: &mut impl Write) -> Result<(), ExportError> {
    let head = TableHead {
        subject: &table.spec.subject,
        writer: &table.writer,
        hold: table.spec.hold,
        rank: table.spec.rank,
        columns: &table.spec.columns,
    };
    let head = escape_json(&serde_json::to_string(&head)?);
    // The object stays open: the arrays follow.
    let open = head.strip_suffix('}').unwrap_or(&head);
    write!(output, "{open},\"times_nanos\":")?;
    serde_json::to_writer(&mut *output, &table.times)?;
    write!(output, ",\"steps\":")?;
    let steps: Vec<Option<i64>> = (0..table.steps.len())
        .map(|row| step_at(table, row))
        .collect();
    serde_json::to_writer(&mut *output, &steps)?;
    write!(output, ",\"values\":[")?;
    for column in 0..table.spec.columns.len() {
        output.write_all(separator(column))?;
        output.write_all(b"[")?;
        for row in 0..table.times.len() {
            if row > 0 {
                output.write_all(b",")?;
            }
            write_value(cell(table, column, row), output)?;
        }
        output.write_all(b"]")?;
    }
    output.write_all(b"]}")?;
    Ok(())
}

fn write_value(value: f64, output: &mut impl Write) -> Result<(), ExportError> {
    if is_absent(value) {
        output.write_all(b"null")?;
    } else if value.is_nan() {
        output.write_all(b"\"NaN\"")?;
    } else if value.is_infinite() {
        let sign = if value < 0.0 { "-" } else { "" };
        write!(output, "\"{sign}Infinity\"")?;
    } else {
        write!(output, "{}", NumberText(value))?;
    }
    Ok(())
}

fn separator(index: usize) -> &'static [u8] {
    if index == 0 { b"\n" } else { b",\n" }
}
