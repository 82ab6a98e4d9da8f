//! The order of the long forms: one series after the other (a column of a table, such as `loss` of `metrics`), each in the order of time.
//!
//! A series may lie in several tables: other names were logged with it, or several processes logged it.
//! What was written at the same time stays in the order in which the tables lie in the run.

use std::collections::HashMap;

use nilo_sample::{RecordedTable, Recording};

use crate::subject_name::subject_name;

/// A named column of a table name, with everything that was written under it.
pub(crate) struct LongSeries<'a> {
    /// The name of its tables.
    pub(crate) table: String,
    pub(crate) column: &'a str,
    parts: Vec<(&'a RecordedTable, usize)>,
}

/// The series of a recording, in the order in which they first appear.
pub(crate) fn long_series(recording: &Recording) -> Vec<LongSeries<'_>> {
    let mut series: Vec<LongSeries<'_>> = Vec::new();
    let mut places: HashMap<(String, &str), usize> = HashMap::new();
    for table in &recording.tables {
        let name = subject_name(&table.spec.subject);
        for (index, declared) in table.spec.columns.iter().enumerate() {
            let column = declared.name.as_str();
            let place = *places.entry((name.clone(), column)).or_insert(series.len());
            if place == series.len() {
                series.push(LongSeries {
                    table: name.clone(),
                    column,
                    parts: Vec::new(),
                });
            }
            series[place].parts.push((table, index));
        }
    }
    series
}

impl<'a> LongSeries<'a> {
    /// Calls back with table, column and row of each value, in the order of time.
    pub(crate) fn each<E>(
        &self,
        mut value: impl FnMut(&'a RecordedTable, usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        if let [(table, column)] = self.parts[..]
            && table.times.is_sorted()
        {
            return (0..table.times.len()).try_for_each(|row| value(table, column, row));
        }
        let mut rows: Vec<(u64, usize, usize)> = Vec::new();
        for (part, (table, _)) in self.parts.iter().enumerate() {
            let times = table.times.iter().enumerate();
            rows.extend(times.map(|(row, time)| (*time, part, row)));
        }
        rows.sort_unstable();
        for (_, part, row) in rows {
            let (table, column) = self.parts[part];
            value(table, column, row)?;
        }
        Ok(())
    }
}
