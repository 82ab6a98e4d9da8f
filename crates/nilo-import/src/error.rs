//! Why a file cannot be read, in sentences with line and column.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A file that is not a recording, or one with something wrong in it.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The file cannot be opened.
    #[error("could not open the recording: {path}", path = path.display())]
    Open {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused in the middle.
    #[error("could not read beyond line {line}")]
    Read {
        /// The last line that was read.
        line: u64,
        /// What the system said.
        source: io::Error,
    },
    /// There is nothing in it.
    #[error("the recording is empty")]
    Empty,
    /// There is a header and nothing behind it that counts.
    #[error("the recording has no rows with a time{}", match dropped { 0 => String::new(), rows => format!(" ({rows} rows were dropped)") })]
    NoRows {
        /// Rows that did not count.
        dropped: u64,
    },
    /// Not text.
    #[error("not a text file: it looks like {what}")]
    NotText {
        /// What its bytes look like.
        what: &'static str,
    },
    /// Longer than the limit.
    #[error("the recording is longer than {most_bytes} bytes")]
    TooLong {
        /// The limit.
        most_bytes: u64,
    },
    /// More rows than the limit.
    #[error("line {line}: more than {most_rows} rows")]
    TooManyRows {
        /// Where the limit was passed.
        line: u64,
        /// The limit.
        most_rows: usize,
    },
    /// More values than the limit.
    #[error("line {line}: more than {most_values} values")]
    TooManyValues {
        /// Where the limit was passed.
        line: u64,
        /// The limit.
        most_values: usize,
    },
    /// More tables (GPUs, processes) than could be meant.
    #[error(
        "line {line}: more than {most} different values in the columns that tell GPUs or processes apart"
    )]
    TooManyTables {
        /// Where the limit was passed.
        line: u64,
        /// The limit.
        most: usize,
    },
    /// A line that cannot be one.
    #[error("line {line} is longer than {most_bytes} bytes")]
    LineTooLong {
        /// Which.
        line: u64,
        /// The limit.
        most_bytes: usize,
    },
    /// A quoted cell without an end.
    #[error("line {line}: a quoted cell begins here and does not end")]
    OpenQuote {
        /// Where it begins.
        line: u64,
    },
    /// Numbers where names should be.
    #[error("line {line} should name the columns, but is {text:?}")]
    NoHeader {
        /// Which.
        line: u64,
        /// Its beginning.
        text: String,
    },
    /// More columns than could be meant.
    #[error("line {line} names {columns} columns; at most {most} can be read")]
    TooManyColumns {
        /// The header.
        line: u64,
        /// How many.
        columns: usize,
        /// The limit.
        most: usize,
    },
    /// No column of times.
    #[error("no time column found; the columns are: {columns}")]
    NoTimeColumn {
        /// The names.
        columns: String,
    },
    /// No column of memory.
    #[error("no memory column found; the columns are: {columns}")]
    NoMemoryColumn {
        /// The names.
        columns: String,
    },
    /// A column that was asked for and is not there.
    #[error("no column is called {name:?}; the columns are: {columns}")]
    UnknownColumn {
        /// What was asked for.
        name: String,
        /// The names.
        columns: String,
    },
    /// The column of times was asked for as memory.
    #[error("column {name:?} is the time, not memory; the columns are: {columns}")]
    TimeIsNoMemory {
        /// Which.
        name: String,
        /// The names.
        columns: String,
    },
    /// The file has columns of its own kind, and the caller named some.
    #[error("the columns of {format} cannot be chosen")]
    FixedColumns {
        /// The format.
        format: &'static str,
    },
    /// Percentages of an unknown whole.
    #[error("column {column:?} holds percentages, but of what total is unknown")]
    PercentOfWhat {
        /// Which.
        column: String,
    },
    /// A cell that should be a number.
    #[error("line {line}, column {column:?}: not a number: {text:?}")]
    NotANumber {
        /// Where.
        line: u64,
        /// Which column.
        column: String,
        /// What is there.
        text: String,
    },
    /// A cell that should be a time.
    #[error("line {line}, column {column:?}: not a time: {text:?}")]
    NotATime {
        /// Where.
        line: u64,
        /// Which column.
        column: String,
        /// What is there.
        text: String,
    },
    /// More cells than the header has names.
    #[error("line {line} has {cells} cells, the header has {columns}")]
    TooManyCells {
        /// Where.
        line: u64,
        /// Cells of the line.
        cells: usize,
        /// Names in the header.
        columns: usize,
    },
    /// A line of an mprof file that is none of its kinds.
    #[error("line {line} begins with none of MEM, CHLD, FUNC, CMDLINE: {text:?}")]
    NotMprof {
        /// Where.
        line: u64,
        /// Its beginning.
        text: String,
    },
}

impl ImportError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            ImportError::NotText { what } if what.starts_with("UTF-16") => {
                "save it as UTF-8, for example with `iconv -f UTF-16 -t UTF-8`"
            }
            ImportError::NotText { .. } => "unpack or export it as CSV first",
            ImportError::TooLong { .. }
            | ImportError::TooManyRows { .. }
            | ImportError::TooManyValues { .. } => "keep every tenth line, or a part of the file",
            ImportError::NoHeader { .. } => {
                "add a header such as t_s,rss_bytes; for nvidia-smi use --format=csv without noheader"
            }
            ImportError::NoTimeColumn { .. } => {
                "name the time column t_s, time, elapsed, seconds or timestamp"
            }
            ImportError::NoMemoryColumn { .. } => {
                "name it: memory is called rss_bytes, memory_mb, used_gb, allocated and the like"
            }
            ImportError::PercentOfWhat { .. } => "set the total that 100 % stands for",
            ImportError::TooManyCells { .. } => "put cells that hold a comma in double quotes",
            ImportError::OpenQuote { .. } => "a double quote inside a quoted cell is written twice",
            _ => return None,
        })
    }
}

/// The beginning of a text from outside, short enough for a sentence.
pub(crate) fn beginning(text: &str) -> String {
    const MOST_CHARS: usize = 40;
    let mut short: String = text.chars().take(MOST_CHARS).collect();
    if text.chars().nth(MOST_CHARS).is_some() {
        short.push('…');
    }
    short
}
