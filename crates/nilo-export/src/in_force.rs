//! The row in force at a time: tables written on change only are joined to the tree's ticks with this.

use nilo_sample::{ABSENT, RecordedTable, is_absent};

/// Walks a table forward in time.
pub(crate) struct InForce<'a> {
    table: Option<&'a RecordedTable>,
    /// Rows that lie at or before the time last asked for.
    passed: usize,
}

impl<'a> InForce<'a> {
    /// Over a table, or over none: then nothing is ever in force.
    pub(crate) fn new(table: Option<&'a RecordedTable>) -> InForce<'a> {
        InForce { table, passed: 0 }
    }

    /// Moves to a time; times must not descend.
    pub(crate) fn advance(&mut self, time_nanos: u64) {
        let times = self.table.map_or(&[][..], |table| &table.times);
        while times.get(self.passed).is_some_and(|t| *t <= time_nanos) {
            self.passed += 1;
        }
    }

    /// A column's value there.
    pub(crate) fn value(&self, column: &str) -> Option<f64> {
        let row = self.passed.checked_sub(1)?;
        let value = *self.table?.series(column)?.values.get(row)?;
        (!is_absent(value)).then_some(value)
    }
}

/// A value by column and row; [`ABSENT`] where a damaged table has none.
pub(crate) fn cell(table: &RecordedTable, column: usize, row: usize) -> f64 {
    let values = table.columns.get(column);
    values
        .and_then(|values| values.get(row))
        .copied()
        .unwrap_or(ABSENT)
}
