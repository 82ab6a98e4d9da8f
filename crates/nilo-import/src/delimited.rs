//! Tables with a header: CSV between commas, semicolons, tabs or bars, and columns between spaces.

use std::io::Read;

use nilo_sample::{ABSENT, NO_STEP};

use crate::cell::{CellValue, as_bytes, read_cell};
use crate::clock::{ParsedTime, TimeParser};
use crate::error::{ImportError, beginning};
use crate::header::{ColumnLayout, ColumnPlan};
use crate::import::{Import, JobEnd, SourceFormat};
use crate::lines::Lines;
use crate::options::ImportOptions;
use crate::record::{CsvRecord, Separator, separator_of};
use crate::rows::{InputRow, TableBuilder};

pub(crate) fn read<R: Read>(
    mut lines: Lines<R>,
    options: &ImportOptions,
) -> Result<Import, ImportError> {
    let mut record = CsvRecord::default();
    let separator = read_header(&mut lines, &mut record)?;
    let names: Vec<String> = record.cells().map(|name| name.trim().to_owned()).collect();
    let header = ColumnLayout::new(names, record.line, options)?;
    let separator = match separator {
        Separator::WideSpaces => Separator::Spaces,
        other => other,
    };
    let mut reader = RowReader {
        clock: TimeParser::new(header.time_unit_secs),
        rows: TableBuilder::new(header.columns.clone(), options),
        header: &header,
        decimal_comma: separator == Separator::Char(';'),
        key: String::new(),
        values: Vec::new(),
        ending_from: None,
    };
    while record.read(&mut lines, separator)? {
        // The program that wrote the last line may have been killed in the middle of it, and of a number.
        let cut = !record.whole && record.count() < header.names.len();
        match if cut { None } else { Some(reader.row(&record)) } {
            Some(Err(_)) if !record.whole => reader.rows.dropped.torn += 1,
            None => reader.rows.dropped.torn += 1,
            Some(done) => done?,
        }
    }
    let started_unix_nanos = reader.clock.started_unix_nanos();
    let job_end = match (header.format, header.ending) {
        (SourceFormat::Export, Some(_)) => JobEnd::Marked(reader.ending_from),
        (SourceFormat::Export | SourceFormat::MemoryLog, _) => JobEnd::WithFile,
        _ => JobEnd::NotTold,
    };
    let mut import = reader.rows.finish(header.format);
    import.started_unix_nanos = started_unix_nanos;
    import.job_end = job_end;
    Ok(import)
}

/// Reads up to the names of the columns, which may stand behind a `#`.
fn read_header<R: Read>(
    lines: &mut Lines<R>,
    record: &mut CsvRecord,
) -> Result<Separator, ImportError> {
    let mut comment: Option<(u64, String)> = None;
    while let Some(line) = lines.peek()? {
        if let Some(text) = line.text.trim_start().strip_prefix('#') {
            comment = Some((line.number, text.trim().to_owned()));
            lines.next()?;
            continue;
        }
        let separator = separator_of(line.text);
        record.split_one(line.text, separator);
        if !record.cells().next().is_some_and(is_data) {
            record.read(lines, separator)?;
            return Ok(separator);
        }
        // The names were in the comment above the numbers, which stay to be read.
        let Some((number, names)) = comment else {
            return Err(ImportError::NoHeader {
                line: line.number,
                text: beginning(line.text.trim()),
            });
        };
        let separator = separator_of(&names);
        record.line = number;
        record.split_one(&names, separator);
        return Ok(separator);
    }
    Err(ImportError::NoRows { dropped: 0 })
}

/// A number or a date is no name.
fn is_data(cell: &str) -> bool {
    matches!(read_cell(cell, false), CellValue::Number(..))
        || !matches!(
            TimeParser::new(None).moment(cell),
            ParsedTime::Bad | ParsedTime::Absent
        )
}

/// Takes rows apart by the header.
struct RowReader<'h, 'o> {
    header: &'h ColumnLayout,
    clock: TimeParser,
    rows: TableBuilder<'o>,
    decimal_comma: bool,
    key: String,
    values: Vec<f64>,
    /// The time of the first row that was taken while the job was ending.
    ending_from: Option<u64>,
}

impl RowReader<'_, '_> {
    fn row(&mut self, record: &CsvRecord) -> Result<(), ImportError> {
        let header = self.header;
        let line = record.line;
        let further = (header.names.len()..record.count()).map(|place| record.cell(place));
        if further.map(str::trim).any(|cell| !cell.is_empty()) {
            return Err(ImportError::TooManyCells {
                line,
                cells: record.count(),
                columns: header.names.len(),
            });
        }
        let time = record.cell(header.time);
        let moment = match self.decimal_comma {
            true => self.clock.moment(&time.replacen(',', ".", 1)),
            false => self.clock.moment(time),
        };
        let time = match moment {
            ParsedTime::At(nanos) => nanos,
            ParsedTime::OutOfRange => {
                self.rows.drop_out_of_order(line);
                return Ok(());
            }
            ParsedTime::Absent => {
                self.rows.dropped.without_time += 1;
                return Ok(());
            }
            ParsedTime::Bad if time.trim() == header.names[header.time] => {
                self.rows.dropped.repeated_headers += 1;
                return Ok(());
            }
            ParsedTime::Bad => {
                return Err(ImportError::NotATime {
                    line,
                    column: header.names[header.time].clone(),
                    text: beginning(time.trim()),
                });
            }
        };
        let is_ending = header.ending.map(|cell| record.cell(cell).trim()) == Some("1");
        if is_ending && self.ending_from.is_none_or(|from| time < from) {
            self.ending_from = Some(time);
        }
        self.values.clear();
        for plan in &header.columns {
            let value = memory_cell(record.cell(plan.cell), plan, line, self.decimal_comma)?;
            self.values.push(value);
        }
        let step = match header.step {
            Some(cell) => Some(step_cell(record.cell(cell), &header.names[cell], line)?),
            None => None,
        };
        self.name_table(record);
        self.rows.push(&InputRow {
            line,
            key: &self.key,
            time,
            step,
            phase: header.phase.map(|cell| record.cell(cell).trim()),
            values: &self.values,
        })
    }

    /// `gpu 0`, `process 4711`: every key of the row with its word, said once where several are about the same.
    fn name_table(&mut self, record: &CsvRecord) {
        self.key.clear();
        let mut said: Option<&str> = None;
        for (cell, kind) in &self.header.keys {
            let value = record.cell(*cell).trim();
            if value.is_empty() || said == Some(kind) {
                continue;
            }
            said = Some(kind);
            let gap = if self.key.is_empty() { "" } else { " " };
            self.key.extend([gap, kind, " "]);
            self.key
                .extend(value.chars().take(80).filter(|c| !c.is_control()));
        }
    }
}

fn memory_cell(
    text: &str,
    plan: &ColumnPlan,
    line: u64,
    decimal_comma: bool,
) -> Result<f64, ImportError> {
    match read_cell(text, decimal_comma) {
        CellValue::Absent => Ok(ABSENT),
        CellValue::Number(number, unit) => {
            let factor = unit.map_or(plan.factor, |unit| unit.bytes());
            Ok(as_bytes(number * factor).unwrap_or(ABSENT))
        }
        CellValue::Bad => Err(ImportError::NotANumber {
            line,
            column: plan.name.clone(),
            text: beginning(text.trim()),
        }),
    }
}

fn step_cell(text: &str, column: &str, line: u64) -> Result<i64, ImportError> {
    match read_cell(text, false) {
        CellValue::Number(number, None) => Ok(number as i64),
        CellValue::Absent => Ok(NO_STEP),
        _ => Err(ImportError::NotANumber {
            line,
            column: column.to_owned(),
            text: beginning(text.trim()),
        }),
    }
}
