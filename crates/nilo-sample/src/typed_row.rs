//! The machinery behind `rows.rs`: a row as a struct, from which both its values and its table's columns come.

use crate::recording::RecordedTable;
use crate::table::{ABSENT, Column};

/// A row of a table whose columns are known beforehand.
///
/// The fields stand in the order in which values are stored, so nobody has to count columns.
pub trait TypedRow: Copy + Default + PartialEq {
    /// An array, one value a column.
    type Values: AsRef<[f64]>;

    /// The columns of its table.
    fn columns() -> Vec<Column>;

    /// The values, in the order of the columns.
    fn values(self) -> Self::Values;

    /// Puts a row together from values by the name of their column.
    fn by_name(value_of: impl FnMut(&'static str) -> f64) -> Self;
}

impl RecordedTable {
    /// A row of the table; what it has no column for is absent.
    pub fn row<R: TypedRow>(&self, index: usize) -> R {
        R::by_name(|name| {
            let series = self.series(name);
            let value = series.and_then(|series| series.values.get(index).copied());
            value.unwrap_or(ABSENT)
        })
    }

    /// All rows of the table.
    pub fn rows<R: TypedRow>(&self) -> impl Iterator<Item = R> {
        (0..self.times.len()).map(|index| self.row(index))
    }
}

/// Declares a row once: the struct, its table's columns, and its values in the same order.
///
/// Each field is a `gauge` or a `counter` of a [`crate::Unit`].
/// Rows are equal bit by bit, so that absent values equal themselves; the default is a row without any value.
macro_rules! typed_row {
    (
        $(#[$about:meta])*
        $row:ident {
            $( $(#[$column_about:meta])* $column:ident: $kind:ident $unit:ident, )+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy)]
        pub struct $row {
            $( $(#[$column_about])* pub $column: f64, )+
        }

        impl $row {
            /// No value was measured.
            pub const ABSENT: $row = $row { $( $column: $crate::ABSENT, )+ };
        }

        impl Default for $row {
            fn default() -> $row {
                $row::ABSENT
            }
        }

        impl PartialEq for $row {
            fn eq(&self, other: &$row) -> bool {
                true $( && self.$column.to_bits() == other.$column.to_bits() )+
            }
        }

        impl Eq for $row {}

        impl $crate::typed_row::TypedRow for $row {
            type Values = [f64; [$( stringify!($column), )+].len()];

            fn columns() -> Vec<$crate::Column> {
                vec![ $( $crate::Column::$kind(stringify!($column), $crate::Unit::$unit), )+ ]
            }

            #[inline]
            fn values(self) -> Self::Values {
                [ $( self.$column, )+ ]
            }

            fn by_name(mut value_of: impl FnMut(&'static str) -> f64) -> $row {
                $row { $( $column: value_of(stringify!($column)), )+ }
            }
        }
    };
}

pub(crate) use typed_row;

#[cfg(test)]
mod tests {
    use super::TypedRow;
    use crate::rows::{GpuRow, TreeRow};
    use crate::table::{ABSENT, TableSpec};
    use crate::{RecordedTable, is_absent};

    #[test]
    fn a_value_lies_in_the_column_of_its_name() {
        let row = TreeRow {
            memory_bytes: 1.0,
            rss_bytes: 2.0,
            high_water_bytes: 3.0,
            swap_bytes: 4.0,
            cpu_nanos: 5.0,
            processes: 6.0,
            pss_processes: 7.0,
        };
        let spec = TableSpec::tree();
        let value_of = |name| row.values()[spec.column(name).unwrap()];
        assert_eq!(TreeRow::by_name(value_of), row);
        assert_eq!(value_of("high_water_bytes"), 3.0);
        assert_eq!(value_of("pss_processes"), 7.0);
    }

    #[test]
    fn absent_values_are_equal_and_no_other_nan_is() {
        assert_eq!(GpuRow::default(), GpuRow::ABSENT);
        let odd = GpuRow {
            job_bytes: f64::NAN,
            ..GpuRow::ABSENT
        };
        assert_ne!(odd, GpuRow::ABSENT);
        assert_eq!(odd, odd);
    }

    #[test]
    fn a_table_without_a_column_has_rows_without_the_value() {
        let mut spec = TableSpec::gpu(0);
        spec.columns.truncate(4);
        spec.columns.remove(1);
        let table = RecordedTable {
            spec,
            writer: String::new(),
            times: vec![5],
            steps: vec![],
            columns: vec![vec![10.0], vec![30.0], vec![0.5]],
        };
        let row: GpuRow = table.row(0);
        assert!(is_absent(row.total_bytes));
        assert!(is_absent(row.power_watts), "an earlier version's file");
        assert_eq!(
            (row.used_bytes, row.job_bytes, row.utilization),
            (10.0, 30.0, 0.5)
        );
        assert_eq!(table.rows::<GpuRow>().count(), 1);
        let beyond: GpuRow = table.row(1);
        assert_eq!(beyond.used_bytes.to_bits(), ABSENT.to_bits());
    }
}
