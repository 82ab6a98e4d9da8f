//! Memory recordings that other tools made, read into one shape.
//!
//! [`read`] takes any of these and finds out from the content which it is:
//!
//! - CSV with a header: a column of times and columns of memory, recognised by their names (`t_s`, `rss_mb`, `memory.used [MiB]`);
//! - our own `--memory-log` and `nilo export` tables, wide and long;
//! - logs of psrecord, plain and CSV;
//! - `.dat` files of mprof (memory_profiler);
//! - `nvidia-smi --query-gpu=timestamp,memory.used,… --format=csv`, a track for each GPU.
//!
//! The result is an [`Import`]: tables of numbers in bytes, and [`MemorySeries`]s over them, which is what analysis takes.
//! Files are read line by line; what is kept is bounded by [`ImportOptions::most_rows`].
//!
//! ```
//! use nilo_import::{ImportOptions, read};
//!
//! let file = "t_s,step,allocated,reserved\n0.0,1,100,400\n0.5,2,150,400\n";
//! let import = read(file.as_bytes(), &ImportOptions::default())?;
//! let tracks = import.tracks();
//! assert_eq!(tracks.len(), 1);
//! assert_eq!(tracks[0].name, "reserved");
//! assert_eq!(tracks[0].used.values, [400.0, 400.0]);
//! assert_eq!(tracks[0].held.unwrap().values, [100.0, 150.0]);
//! assert_eq!(tracks[0].used.times, [0, 500_000_000]);
//! assert_eq!(tracks[0].steps, Some(&[1, 2][..]));
//! # Ok::<(), nilo_import::ImportError>(())
//! ```

mod cell;
mod clock;
mod column_name;
mod date;
mod delimited;
mod error;
mod header;
mod import;
mod lines;
mod long_export;
mod mprof;
mod options;
mod record;
mod rows;
mod track;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use error::ImportError;
pub use import::{
    Dropped, Import, ImportedColumn, ImportedTable, JobEnd, PhaseColumn, Role, SourceFormat,
};
pub use options::{ByteUnit, ImportOptions, UnknownUnit};
pub use track::MemorySeries;

use lines::Lines;

/// Reads a recording from any source of bytes.
pub fn read(input: impl Read, options: &ImportOptions) -> Result<Import, ImportError> {
    let mut lines = Lines::new(input, options.most_bytes);
    let first = lines.peek()?.ok_or(ImportError::Empty)?.text;
    let import = match first {
        first if mprof::is_mprof(first) => mprof::read(lines, options)?,
        first if long_export::is_long_export(first) => long_export::read(lines, options)?,
        _ => delimited::read(lines, options)?,
    };
    match import.tables.iter().all(|table| table.times.is_empty()) {
        true => Err(ImportError::NoRows {
            dropped: import.dropped.total(),
        }),
        false => Ok(import),
    }
}

/// Reads a recording from a file.
pub fn read_file(path: &Path, options: &ImportOptions) -> Result<Import, ImportError> {
    let file = File::open(path).map_err(|source| ImportError::Open {
        path: path.to_owned(),
        source,
    })?;
    read(file, options)
}
