//! Parquet in long form: `time_nanos, table, column, step, value, writer`, one row for each number.
//!
//! Promises: names are dictionary-encoded, pages are zstd, `step` is null in rows without one, `value` is null where nothing was measured (a NaN that the user logged stays a NaN).
//! Where ranks of a distributed run wrote tables, a last column `rank` has theirs, and null for the others.
//! Tables are named by [`crate::subject_name()`], writers by their stream, such as `recorder-4711`; rows are in the order of table, column and time, whoever wrote them.
//! Key-value metadata: `schema` = `nilo.recording/1`, `run` = the run's id, `run.json` = its description.

use std::io::Write;
use std::sync::Arc;

use nilo_analysis::step_at;
use nilo_sample::{RecordedTable, Recording, is_absent};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};

use crate::in_force::cell;
use crate::long_series::long_series;
use crate::{ExportError, RECORDING_SCHEMA, has_ranks};

const COLUMNS: &str = "
    required int64 time_nanos;
    required binary table (UTF8);
    required binary column (UTF8);
    optional int64 step;
    optional double value;
    required binary writer (UTF8);
";
const RANK: &str = "optional int64 rank;";

/// Rows held in memory before they are written: about 25 MB.
const ROWS_PER_GROUP: usize = 1 << 18;

/// Writes every number of the recording.
pub fn write_parquet(recording: &Recording, output: impl Write + Send) -> Result<(), ExportError> {
    let has_ranks = has_ranks(recording);
    let rank = if has_ranks { RANK } else { "" };
    let schema = parse_message_type(&format!("message nilo_recording {{ {COLUMNS} {rank} }}"))?;
    let schema: TypePtr = Arc::new(schema);
    let mut file = SerializedFileWriter::new(output, schema, properties(recording)?)?;
    let mut group = RowGroup::new(has_ranks);
    for series in long_series(recording) {
        let table_name = ByteArray::from(series.table.as_str());
        let column_name = ByteArray::from(series.column);
        let mut writer = (None, ByteArray::default());
        series.each(|table, column, row| {
            if writer.0 != Some(&table.writer) {
                writer = (Some(&table.writer), ByteArray::from(table.writer.as_str()));
            }
            group.push(table, column, row);
            group.tables.push(table_name.clone());
            group.columns.push(column_name.clone());
            group.writers.push(writer.1.clone());
            match group.times.len() >= ROWS_PER_GROUP {
                true => group.write(&mut file),
                false => Ok(()),
            }
        })?;
    }
    if !group.times.is_empty() {
        group.write(&mut file)?;
    }
    file.close()?;
    Ok(())
}

fn properties(recording: &Recording) -> Result<WriterPropertiesPtr, ExportError> {
    let description = serde_json::to_string(&recording.description)?;
    let metadata = [
        ("schema", RECORDING_SCHEMA.to_owned()),
        ("run", recording.description.id.to_string()),
        ("run.json", description),
    ];
    let metadata = metadata.map(|(key, value)| KeyValue::new(key.to_owned(), value));
    // Ascending times pack as differences in a byte or two each.
    let time = ColumnPath::from("time_nanos");
    let properties = WriterProperties::builder()
        .set_created_by(concat!("nilometer version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_column_dictionary_enabled(time.clone(), false)
        .set_column_encoding(time, Encoding::DELTA_BINARY_PACKED)
        .set_key_value_metadata(Some(metadata.into()))
        .build();
    Ok(Arc::new(properties))
}

/// Rows by column, as Parquet's writers take them: optional columns have their present values and a level for each row.
#[derive(Default)]
struct RowGroup {
    times: Vec<i64>,
    tables: Vec<ByteArray>,
    columns: Vec<ByteArray>,
    steps: Vec<i64>,
    step_levels: Vec<i16>,
    values: Vec<f64>,
    value_levels: Vec<i16>,
    writers: Vec<ByteArray>,
    has_ranks: bool,
    ranks: Vec<i64>,
    rank_levels: Vec<i16>,
}

impl RowGroup {
    fn new(has_ranks: bool) -> RowGroup {
        RowGroup {
            has_ranks,
            ..RowGroup::default()
        }
    }

    /// Adds a number; its names are pushed beside it.
    fn push(&mut self, table: &RecordedTable, column: usize, row: usize) {
        let time_nanos = table.times.get(row).copied().unwrap_or(0);
        self.times
            .push(i64::try_from(time_nanos).unwrap_or(i64::MAX));
        let step = step_at(table, row);
        self.steps.extend(step);
        self.step_levels.push(i16::from(step.is_some()));
        let value = Some(cell(table, column, row)).filter(|value| !is_absent(*value));
        self.values.extend(value);
        self.value_levels.push(i16::from(value.is_some()));
        if self.has_ranks {
            self.ranks.extend(table.spec.rank.map(i64::from));
            self.rank_levels.push(i16::from(table.spec.rank.is_some()));
        }
    }

    /// Writes the rows as one group and forgets them.
    fn write<W: Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
    ) -> Result<(), ExportError> {
        let mut group = file.next_row_group()?;
        write_column::<Int64Type, W>(&mut group, &self.times, None)?;
        write_column::<ByteArrayType, W>(&mut group, &self.tables, None)?;
        write_column::<ByteArrayType, W>(&mut group, &self.columns, None)?;
        write_column::<Int64Type, W>(&mut group, &self.steps, Some(&self.step_levels))?;
        write_column::<DoubleType, W>(&mut group, &self.values, Some(&self.value_levels))?;
        write_column::<ByteArrayType, W>(&mut group, &self.writers, None)?;
        if self.has_ranks {
            write_column::<Int64Type, W>(&mut group, &self.ranks, Some(&self.rank_levels))?;
        }
        group.close()?;
        *self = RowGroup::new(self.has_ranks);
        Ok(())
    }
}

fn write_column<T: parquet::data_type::DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ExportError> {
    let mut column = group
        .next_column()?
        .expect("the schema has as many columns as are written");
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()?;
    Ok(())
}
