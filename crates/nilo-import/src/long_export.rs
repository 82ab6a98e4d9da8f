//! `nilo export --long`: every number on a line of its own, table after table and in each column after column.
//!
//! What is read back are levels of memory: of the tree, of cgroups, of GPUs and of PyTorch's allocator.
//! Single processes and the host are left out.

use std::io::Read;

use nilo_sample::{ABSENT, NO_STEP};

use crate::cell::{CellValue, as_bytes, read_cell};
use crate::clock::{ParsedTime, TimeParser};
use crate::column_name::{ColumnMeaning, meaning};
use crate::error::{ImportError, beginning};
use crate::import::{Dropped, Import, ImportedColumn, ImportedTable, JobEnd, Role, SourceFormat};
use crate::lines::Lines;
use crate::options::ImportOptions;

const HEADER: &str = "time_seconds,table,column,step,value,writer";

/// Tables with levels of memory, by the beginnings of their names.
const TABLES: [&str; 4] = ["tree", "cgroup:", "gpu:", "torch-memory:"];

/// More of them than this are not read.
const MOST_TABLES: usize = 4096;

pub(crate) fn is_long_export(first: &str) -> bool {
    first.trim_end() == HEADER
}

pub(crate) fn read<R: Read>(
    mut lines: Lines<R>,
    options: &ImportOptions,
) -> Result<Import, ImportError> {
    if !options.columns.is_empty() || options.time_column.is_some() {
        return Err(ImportError::FixedColumns {
            format: "a long export",
        });
    }
    lines.next()?;
    let mut tables = Tables::default();
    let mut dropped = Dropped::default();
    let mut clock = TimeParser::new(Some(1.0));
    let mut ending_from = None;
    while let Some(line) = lines.next()? {
        let (text, whole, line) = (line.text, line.whole, line.number);
        // A quoted name holds commas or line ends; no table of memory has such a name, and no part of one has six cells.
        let cells: Vec<&str> = text.split(',').collect();
        let [time, table, column, step, value, writer] = cells[..] else {
            dropped.torn += u64::from(!whole);
            continue;
        };
        if (table, column, value) == ("run", "ending", "1")
            && let ParsedTime::At(nanos) = clock.moment(time)
        {
            ending_from = Some(nanos);
            continue;
        }
        if !TABLES.iter().any(|name| table.starts_with(name)) {
            continue;
        }
        let ColumnMeaning::Memory(memory) = meaning(column, true) else {
            continue;
        };
        let parsed = parse(&mut clock, line, time, step, value);
        if parsed.is_err() && !whole {
            dropped.torn += 1;
            continue;
        }
        let value = parsed?;
        tables.begin([table, writer, column], memory.role, line)?;
        if !tables.push(&value, line, options.most_rows)? {
            dropped.out_of_order += 1;
        }
    }
    let mut warnings = Vec::new();
    if dropped.out_of_order > 0 {
        warnings.push(format!(
            "{} values are left out because their times are not those of their table",
            dropped.out_of_order
        ));
    }
    if dropped.torn > 0 {
        warnings.push("the last line is cut off and is left out".to_owned());
    }
    Ok(Import {
        format: SourceFormat::LongExport,
        command: None,
        started_unix_nanos: None,
        tables: tables.finish(),
        job_end: JobEnd::Marked(ending_from),
        dropped,
        warnings,
    })
}

/// One number of the file.
struct Value {
    time: u64,
    step: i64,
    bytes: f64,
}

fn parse(
    clock: &mut TimeParser,
    line: u64,
    time: &str,
    step: &str,
    value: &str,
) -> Result<Value, ImportError> {
    let number = |text: &str, column: &str| match read_cell(text, false) {
        CellValue::Number(number, None) => Ok(Some(number)),
        CellValue::Absent => Ok(None),
        _ => Err(ImportError::NotANumber {
            line,
            column: column.to_owned(),
            text: beginning(text),
        }),
    };
    let ParsedTime::At(time) = clock.moment(time) else {
        return Err(ImportError::NotATime {
            line,
            column: "time_seconds".to_owned(),
            text: beginning(time),
        });
    };
    let step = number(step, "step")?.map_or(NO_STEP, |step| step as i64);
    let bytes = number(value, "value")?.and_then(as_bytes);
    Ok(Value {
        time,
        step,
        bytes: bytes.unwrap_or(ABSENT),
    })
}

/// Tables that grow column by column.
#[derive(Default)]
struct Tables {
    tables: Vec<ImportedTable>,
    /// Table, writer and column of the line above.
    names: [String; 3],
    values: usize,
}

impl Tables {
    /// Turns to the table and the column of a line.
    fn begin(&mut self, names: [&str; 3], role: Role, line: u64) -> Result<(), ImportError> {
        if self.names == names && !self.tables.is_empty() {
            return Ok(());
        }
        if self.names[..2] != names[..2] || self.tables.is_empty() {
            if self.tables.len() == MOST_TABLES {
                let most = MOST_TABLES;
                return Err(ImportError::TooManyTables { line, most });
            }
            self.tables.push(ImportedTable {
                name: names[0].replace(':', " "),
                ..ImportedTable::default()
            });
        }
        self.names = names.map(str::to_owned);
        if let Some(table) = self.tables.last_mut() {
            table.columns.push(ImportedColumn {
                name: names[2].to_owned(),
                role,
                // Every column of a table is about the same.
                about: String::new(),
                values: Vec::new(),
            });
        }
        Ok(())
    }

    /// Adds a number to the column; false when it is not of the time that the table has in this row.
    fn push(&mut self, value: &Value, line: u64, most_rows: usize) -> Result<bool, ImportError> {
        self.values += 1;
        if self.values > most_rows {
            return Err(ImportError::TooManyRows { line, most_rows });
        }
        let Some(table) = self.tables.last_mut() else {
            return Ok(false);
        };
        let is_first = table.columns.len() == 1;
        let Some(column) = table.columns.last_mut() else {
            return Ok(false);
        };
        let row = column.values.len();
        if is_first {
            if table.times.last() > Some(&value.time) {
                return Ok(false);
            }
            table.times.push(value.time);
            table.steps.push(value.step);
        } else if table.times.get(row) != Some(&value.time) {
            return Ok(false);
        }
        column.values.push(value.bytes);
        Ok(true)
    }

    fn finish(mut self) -> Vec<ImportedTable> {
        // A limit without anything below it is no recording.
        let has_level = |table: &ImportedTable| {
            let mut roles = table.columns.iter().map(|column| column.role);
            roles.any(|role| role != Role::Limit)
        };
        self.tables.retain(has_level);
        for table in &mut self.tables {
            for column in &mut table.columns {
                column.values.resize(table.times.len(), ABSENT);
            }
            if table.steps.iter().all(|step| *step == NO_STEP) {
                table.steps.clear();
            }
        }
        self.tables
    }
}
