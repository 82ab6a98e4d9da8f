//! The memory log that grows during a run: `nilo run --memory-log FILE.csv`.
//!
//! Each row is one `write` of some thirty bytes, so that `tail -f` sees it at once and a killed recorder leaves whole lines.

use std::io::{self, Write};

use crate::csv_rows::CsvRows;
use crate::csv_table::{basic_rows, write_basic};

/// Writes `timestamp_seconds,memory_mb,cpu_percent`, a row at a time; a row allocates nothing.
pub struct CsvLog<W: Write> {
    rows: CsvRows<W>,
}

impl<W: Write> CsvLog<W> {
    /// Starts the log with its header. The output should not be buffered: rows are handed over whole.
    pub fn create(output: W) -> io::Result<CsvLog<W>> {
        let mut rows = basic_rows(output)?;
        rows.flush()?;
        Ok(CsvLog { rows })
    }

    /// Adds a row; [`nilo_sample::ABSENT`] leaves a field empty.
    pub fn row(&mut self, time_nanos: u64, memory_bytes: f64, cpu_percent: f64) -> io::Result<()> {
        write_basic(&mut self.rows, time_nanos, memory_bytes, Some(cpu_percent))?;
        self.rows.end_row()?;
        self.rows.flush()
    }
}
