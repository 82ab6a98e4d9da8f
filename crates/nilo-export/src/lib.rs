//! Recordings for other programs: CSV, JSON, Parquet and TensorBoard, one file of this crate for each.
//!
//! Every writer streams: a recording of a million rows needs no second copy in memory.
//! Numbers are raw; the `*_mb` columns of the CSV table are 2^20 bytes, as in the logs that it continues.

mod csv_log;
mod csv_long;
mod csv_rows;
mod csv_table;
mod in_force;
mod json;
mod long_series;
mod number_text;
mod parquet;
mod subject_name;
mod tensorboard;

use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;

use nilo_sample::Recording;
use thiserror::Error;

pub use crate::csv_log::CsvLog;
pub use crate::csv_long::write_csv_long;
pub use crate::csv_rows::CsvRows;
pub use crate::csv_table::{CsvColumns, write_csv};
pub use crate::json::write_json;
pub use crate::parquet::write_parquet;
pub use crate::subject_name::subject_name;
pub use crate::tensorboard::{write_tensorboard, write_tensorboard_folder};

/// The value of `schema` in JSON and in Parquet's metadata.
pub const RECORDING_SCHEMA: &str = "nilo.recording/1";

/// What could not be exported.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The output does not take it: a full disk, a closed pipe.
    #[error("cannot write the export: {source}")]
    Write {
        /// Why.
        #[from]
        source: io::Error,
    },
    /// A value has no place in JSON.
    #[error("cannot write as JSON: {source}")]
    Json {
        /// Why.
        source: serde_json::Error,
    },
    /// Parquet's writer refused.
    #[error("cannot write as Parquet: {source}")]
    Parquet {
        /// Why.
        #[from]
        source: ::parquet::errors::ParquetError,
    },
    /// The place is taken, and what is there would be mixed up with what comes.
    #[error("the folder already has events: {}", path.display())]
    AlreadyThere {
        /// What is there.
        path: PathBuf,
    },
    /// A format that we do not write.
    #[error("not an export format: {text:?} (known: csv, json, parquet, tensorboard)")]
    UnknownFormat {
        /// What was asked for.
        text: String,
    },
}

impl From<serde_json::Error> for ExportError {
    /// serde_json wraps the output's own errors; they are told as what they are.
    fn from(source: serde_json::Error) -> ExportError {
        if source.is_io() {
            ExportError::Write {
                source: source.into(),
            }
        } else {
            ExportError::Json { source }
        }
    }
}

/// Whether ranks of a distributed run wrote any of the tables.
pub(crate) fn has_ranks(recording: &Recording) -> bool {
    recording
        .tables
        .iter()
        .any(|table| table.spec.rank.is_some())
}

/// A format to export to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One row for each tick of the tree.
    Csv,
    /// Everything.
    Json,
    /// Every number, in long form.
    Parquet,
    /// Scalars in an event file.
    TensorBoard,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 4] = [
        Format::Csv,
        Format::Json,
        Format::Parquet,
        Format::TensorBoard,
    ];

    /// The word for it, which is the extension of its files too, where these have one.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Json => "json",
            Format::Parquet => "parquet",
            Format::TensorBoard => "tensorboard",
        }
    }

    /// Writes a recording in this format, in its fullest form.
    pub fn write(
        self,
        recording: &Recording,
        output: impl Write + Send,
    ) -> Result<(), ExportError> {
        match self {
            Format::Csv => write_csv(recording, CsvColumns::Full, output),
            Format::Json => write_json(recording, output),
            Format::Parquet => write_parquet(recording, output),
            Format::TensorBoard => write_tensorboard(recording, output),
        }
    }
}

impl FromStr for Format {
    type Err = ExportError;

    fn from_str(text: &str) -> Result<Format, ExportError> {
        Format::ALL
            .into_iter()
            .find(|format| format.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| ExportError::UnknownFormat {
                text: text.to_owned(),
            })
    }
}
