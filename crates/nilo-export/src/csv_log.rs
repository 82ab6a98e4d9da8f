//! The memory log that grows during a run: `nilo run --memory-log FILE.csv`.
//!
//! Each row is one `write` of some thirty bytes, so that `tail -f` sees it at once and a killed recorder leaves whole lines.

use std::io::{self, Write};

use crate::csv::{BASIC_HEADER, push_basic};

/// Writes `timestamp_seconds,memory_mb,cpu_percent`, a row at a time.
#[derive(Debug)]
pub struct CsvLog<W: Write> {
    output: W,
    /// Kept between rows: a tick allocates nothing.
    line: String,
}

impl<W: Write> CsvLog<W> {
    /// Starts the log with its header. The output should not be buffered: rows are handed over whole.
    pub fn create(output: W) -> io::Result<CsvLog<W>> {
        let line = String::with_capacity(64);
        let mut log = CsvLog { output, line };
        log.line.push_str(BASIC_HEADER);
        log.end_line()?;
        Ok(log)
    }

    /// Adds a row; [`nilo_sample::ABSENT`] leaves a field empty.
    pub fn row(&mut self, time_nanos: u64, memory_bytes: f64, cpu_percent: f64) -> io::Result<()> {
        self.line.clear();
        push_basic(&mut self.line, time_nanos, memory_bytes, Some(cpu_percent));
        self.end_line()
    }

    /// The output, as it was given.
    pub fn into_inner(self) -> W {
        self.output
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.line.push('\n');
        self.output.write_all(self.line.as_bytes())?;
        self.output.flush()
    }
}
