//! `.dat` files of mprof, the recorder of memory_profiler.
//!
//! `MEM mib time` is the process (with its children where `--include-children` was given), `CHLD pid mib time` one child.
//! `FUNC …` says when a function ran and is passed over; `CMDLINE …` is the command. Sizes are MiB, times seconds since 1970.

use std::io::Read;

use nilo_sample::ABSENT;

use crate::cell::{CellValue, as_bytes, read_cell};
use crate::clock::{ParsedTime, TimeParser};
use crate::error::{ImportError, beginning};
use crate::header::ColumnPlan;
use crate::import::{Import, Role, SourceFormat};
use crate::lines::Lines;
use crate::options::{ByteUnit, ImportOptions};
use crate::rows::{InputRow, TableBuilder};

/// Whether a first line is one of mprof's.
pub(crate) fn is_mprof(first: &str) -> bool {
    let mut words = first.split_ascii_whitespace();
    let number = |word: Option<&str>| word.is_some_and(|word| word.parse::<f64>().is_ok());
    match words.next() {
        Some("CMDLINE") => !first.contains(','),
        Some("MEM") => number(words.next()) && number(words.next()),
        Some("CHLD") => number(words.next()) && number(words.next()) && number(words.next()),
        Some("FUNC") => words.next().is_some() && number(words.next()) && number(words.next()),
        _ => false,
    }
}

pub(crate) fn read<R: Read>(
    mut lines: Lines<R>,
    options: &ImportOptions,
) -> Result<Import, ImportError> {
    if !options.columns.is_empty() || options.time_column.is_some() {
        return Err(ImportError::FixedColumns { format: "mprof" });
    }
    let mut rows = TableBuilder::new(vec![ColumnPlan::fixed("memory", Role::Used)], options);
    let mut clock = TimeParser::new(Some(1.0));
    let mut command: Option<String> = None;
    // A command may have line ends in its arguments; its lines go on until the first sample.
    let mut in_command = false;
    let mut key = String::new();
    while let Some(line) = lines.next()? {
        let (text, whole, line) = (line.text, line.whole, line.number);
        let mut words = text.split_ascii_whitespace();
        let kind = words.next().unwrap_or_default();
        let cells = match kind {
            "MEM" => {
                key.clear();
                words.next().zip(words.next())
            }
            "CHLD" => {
                key.clear();
                key.push_str("child ");
                key.extend(words.next().unwrap_or_default().chars().take(20));
                words.next().zip(words.next())
            }
            "" | "FUNC" => continue,
            "CMDLINE" if command.is_none() => {
                let rest = text.trim_start().strip_prefix("CMDLINE");
                command = Some(rest.unwrap_or_default().trim().to_owned());
                in_command = true;
                continue;
            }
            _ if in_command => continue,
            _ if !whole => {
                rows.dropped.torn += 1;
                continue;
            }
            _ => {
                let text = beginning(text.trim());
                return Err(ImportError::NotMprof { line, text });
            }
        };
        in_command = false;
        match cells.map(|(mib, time)| sample(&mut clock, mib, time, line)) {
            Some(Ok((ParsedTime::At(time), bytes))) => rows.push(&InputRow {
                line,
                key: &key,
                time,
                step: None,
                phase: None,
                values: &[bytes],
            })?,
            Some(Ok((ParsedTime::Absent, _))) => rows.dropped.without_time += 1,
            Some(Ok(_)) => rows.drop_out_of_order(line),
            Some(Err(_)) | None if !whole => rows.dropped.torn += 1,
            Some(Err(error)) => return Err(error),
            None => rows.dropped.without_time += 1,
        }
    }
    let mut import = rows.finish(SourceFormat::Mprof);
    import.command = command.filter(|command| !command.is_empty());
    import.started_unix_nanos = clock.started_unix_nanos();
    Ok(import)
}

fn sample(
    clock: &mut TimeParser,
    mib: &str,
    time: &str,
    line: u64,
) -> Result<(ParsedTime, f64), ImportError> {
    let bytes = match read_cell(mib, false) {
        CellValue::Number(number, None) => {
            as_bytes(number * ByteUnit::Mib.bytes()).unwrap_or(ABSENT)
        }
        CellValue::Absent => ABSENT,
        _ => {
            return Err(ImportError::NotANumber {
                line,
                column: "memory".to_owned(),
                text: beginning(mib),
            });
        }
    };
    match clock.moment(time) {
        ParsedTime::Bad => Err(ImportError::NotATime {
            line,
            column: "time".to_owned(),
            text: beginning(time),
        }),
        moment => Ok((moment, bytes)),
    }
}
