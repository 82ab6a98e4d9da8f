//! Rows on their way into tables: one table for each key, times that never descend, an end to how many are kept.

use std::collections::HashMap;

use nilo_sample::NO_STEP;

use crate::error::ImportError;
use crate::header::ColumnPlan;
use crate::import::{
    Dropped, Import, ImportedColumn, ImportedTable, JobEnd, PhaseColumn, SourceFormat,
};
use crate::options::ImportOptions;

/// More processes than this are not told apart in one file.
const MOST_TABLES: usize = 4096;

/// Values kept for each row that is allowed: wide files may have fewer rows.
const VALUES_FOR_A_ROW: usize = 8;

/// One row of the file.
pub(crate) struct InputRow<'a> {
    pub(crate) line: u64,
    /// The name of its table.
    pub(crate) key: &'a str,
    pub(crate) time: u64,
    /// `Some(NO_STEP)` where the file has steps and this row none.
    pub(crate) step: Option<i64>,
    /// `Some("")` where the file has phases and this row none.
    pub(crate) phase: Option<&'a str>,
    /// One for each planned column.
    pub(crate) values: &'a [f64],
}

/// Tables that grow.
pub(crate) struct TableBuilder<'o> {
    options: &'o ImportOptions,
    columns: Vec<ColumnPlan>,
    tables: Vec<ImportedTable>,
    places: HashMap<String, usize>,
    phase_places: HashMap<String, u16>,
    phase_names: Vec<String>,
    last: usize,
    rows: usize,
    first_out_of_order: Option<u64>,
    pub(crate) dropped: Dropped,
}

impl<'o> TableBuilder<'o> {
    pub(crate) fn new(columns: Vec<ColumnPlan>, options: &'o ImportOptions) -> TableBuilder<'o> {
        TableBuilder {
            options,
            columns,
            tables: Vec::new(),
            places: HashMap::new(),
            phase_places: HashMap::new(),
            phase_names: Vec::new(),
            last: 0,
            rows: 0,
            first_out_of_order: None,
            dropped: Dropped::default(),
        }
    }

    /// A row whose time does not belong where it stands.
    pub(crate) fn drop_out_of_order(&mut self, line: u64) {
        self.dropped.out_of_order += 1;
        self.first_out_of_order.get_or_insert(line);
    }

    pub(crate) fn push(&mut self, row: &InputRow<'_>) -> Result<(), ImportError> {
        let place = self.table(row)?;
        if self.tables[place].times.last() > Some(&row.time) {
            self.drop_out_of_order(row.line);
            return Ok(());
        }
        self.rows += 1;
        let (line, most_rows) = (row.line, self.options.most_rows);
        if self.rows > most_rows {
            return Err(ImportError::TooManyRows { line, most_rows });
        }
        let most_values = most_rows.saturating_mul(VALUES_FOR_A_ROW);
        if self.rows.saturating_mul(self.columns.len()) > most_values {
            return Err(ImportError::TooManyValues { line, most_values });
        }
        let phase = row.phase.map(|phase| self.phase(phase));
        let table = &mut self.tables[place];
        table.times.push(row.time);
        table.steps.extend(row.step);
        table.phases.of_row.extend(phase);
        for (column, value) in table.columns.iter_mut().zip(row.values) {
            column.values.push(*value);
        }
        Ok(())
    }

    fn table(&mut self, row: &InputRow<'_>) -> Result<usize, ImportError> {
        // Rows of one key mostly follow each other.
        let same = self.tables.get(self.last);
        if same.is_some_and(|table| table.name == row.key) {
            return Ok(self.last);
        }
        if let Some(place) = self.places.get(row.key) {
            self.last = *place;
            return Ok(self.last);
        }
        if self.tables.len() == MOST_TABLES {
            return Err(ImportError::TooManyTables {
                line: row.line,
                most: MOST_TABLES,
            });
        }
        self.last = self.tables.len();
        self.places.insert(row.key.to_owned(), self.last);
        let empty = |plan: &ColumnPlan| ImportedColumn {
            name: plan.name.clone(),
            role: plan.role,
            about: plan.about.clone(),
            values: Vec::new(),
        };
        self.tables.push(ImportedTable {
            name: row.key.to_owned(),
            columns: self.columns.iter().map(empty).collect(),
            ..ImportedTable::default()
        });
        Ok(self.last)
    }

    fn phase(&mut self, name: &str) -> u16 {
        if name.is_empty() {
            return PhaseColumn::NONE;
        }
        if let Some(place) = self.phase_places.get(name) {
            return *place;
        }
        // A column with more words than this names no phases.
        match u16::try_from(self.phase_names.len()) {
            Ok(place) if place < PhaseColumn::NONE => {
                self.phase_places.insert(name.to_owned(), place);
                self.phase_names.push(name.to_owned());
                place
            }
            _ => PhaseColumn::NONE,
        }
    }

    /// Everything that came in; tables in the order of their first rows.
    pub(crate) fn finish(mut self, format: SourceFormat) -> Import {
        for table in &mut self.tables {
            // Steps that are never there are no steps.
            if table.steps.iter().all(|step| *step == NO_STEP) {
                table.steps.clear();
            }
            if !table.phases.of_row.is_empty() {
                table.phases.names.clone_from(&self.phase_names);
            }
        }
        let mut warnings = Vec::new();
        if let Some(line) = self.first_out_of_order {
            warnings.push(format!(
                "{} rows are left out because their time goes back or is far off, the first on line {line}",
                self.dropped.out_of_order
            ));
        }
        if self.dropped.without_time > 0 {
            warnings.push(format!(
                "{} rows are left out because they have no time",
                self.dropped.without_time
            ));
        }
        if self.dropped.torn > 0 {
            warnings.push("the last line is cut off and is left out".to_owned());
        }
        warnings.extend(self.small_unitless());
        Import {
            format,
            command: None,
            started_unix_nanos: None,
            tables: self.tables,
            job_end: JobEnd::NotTold,
            dropped: self.dropped,
            warnings,
        }
    }

    /// A column without a unit is read as bytes; when it never reaches a mebibyte, it was probably something else.
    fn small_unitless(&self) -> Vec<String> {
        let mut said = Vec::new();
        for (place, plan) in self.columns.iter().enumerate() {
            let values = self
                .tables
                .iter()
                .flat_map(|table| &table.columns[place].values);
            let largest = values.copied().fold(0.0, f64::max);
            if plan.unit_is_guessed && largest > 0.0 && largest < 1048576.0 {
                said.push(format!(
                    "column {:?} names no unit and is read as bytes, but its largest value is {largest}: its unit can be given",
                    plan.name
                ));
            }
        }
        said
    }
}
