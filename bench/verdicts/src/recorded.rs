//! Traces of real jobs: a folder of CSV files and a `labels.json` that says what became of them.
//!
//! Columns are found by name: those of [`crate::dump`], or those of torch's allocator (`t_s`, `reserved`, `allocated`,
//! `step`, `phase`). An empty field was not measured. Times count from the first row.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::trace::{NANOS_PER_SEC, Trace, TraceOutcome, TracePoint};

/// Why a folder of traces cannot be used.
#[derive(Debug, Error)]
pub enum RecordedError {
    /// A file that cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Labels that are none.
    #[error("not a list of labels: {}", path.display())]
    Labels {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A table without a column that every trace has.
    #[error("no column {column} in {}", path.display())]
    Column {
        /// Either of its names.
        column: &'static str,
        /// In which file.
        path: PathBuf,
    },
    /// A field that is no number.
    #[error("line {line}: {text:?} is not a number, in {}", path.display())]
    Number {
        /// Counted from 1, with the header.
        line: usize,
        /// The field.
        text: String,
        /// In which file.
        path: PathBuf,
    },
    /// Points out of order.
    #[error("line {line}: time does not ascend, in {}", path.display())]
    Order {
        /// Counted from 1, with the header.
        line: usize,
        /// In which file.
        path: PathBuf,
    },
}

#[derive(Debug, Deserialize)]
struct Label {
    trace: String,
    cap_bytes: f64,
    leak: Option<bool>,
    oom_at_s: Option<f64>,
    limit_reached_after_end_s: Option<f64>,
    note: String,
}

/// The committed folders of traces.
pub fn committed_folders() -> Vec<PathBuf> {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/traces");
    vec![traces.join("gpu"), traces.join("real")]
}

/// Every labelled trace of a folder, in the order of the labels.
pub fn read_folder(folder: &Path) -> Result<Vec<Trace>, RecordedError> {
    let path = folder.join("labels.json");
    let labels: Vec<Label> = serde_json::from_str(&read(&path)?)
        .map_err(|source| RecordedError::Labels { path, source })?;
    labels
        .iter()
        .map(|label| read_trace(folder, label))
        .collect()
}

fn read(path: &Path) -> Result<String, RecordedError> {
    fs::read_to_string(path).map_err(|source| RecordedError::Read {
        path: path.to_path_buf(),
        source,
    })
}

/// Where the columns of a file are.
struct Columns {
    time: usize,
    used: usize,
    limit: Option<usize>,
    held: Option<usize>,
    reclaimable: Option<usize>,
    children: Option<usize>,
    step: Option<usize>,
    phase: Option<usize>,
}

impl Columns {
    fn find(header: &str, path: &Path) -> Result<Self, RecordedError> {
        let names: Vec<&str> = header.split(',').collect();
        let find = |wanted: &[&str]| names.iter().position(|name| wanted.contains(name));
        let needed = |column: &'static str, other: &str| {
            find(&[column, other]).ok_or_else(|| RecordedError::Column {
                column,
                path: path.to_path_buf(),
            })
        };
        Ok(Self {
            time: needed("time_secs", "t_s")?,
            used: needed("used_bytes", "reserved")?,
            limit: find(&["limit_bytes"]),
            held: find(&["held_bytes", "allocated"]),
            reclaimable: find(&["reclaimable_bytes"]),
            children: find(&["children_bytes"]),
            step: find(&["step"]),
            phase: find(&["phase"]),
        })
    }
}

/// One line of a file.
struct TraceLine<'a> {
    cells: Vec<&'a str>,
    line: usize,
    path: &'a Path,
}

impl<'a> TraceLine<'a> {
    /// A field that is there and not empty.
    fn text(&self, column: Option<usize>) -> Option<&'a str> {
        let cell = self.cells.get(column?).copied()?;
        (!cell.is_empty()).then_some(cell)
    }

    fn number(&self, column: Option<usize>) -> Result<Option<f64>, RecordedError> {
        let Some(text) = self.text(column) else {
            return Ok(None);
        };
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(self.bad(text)),
        }
    }

    /// A number that every row must have.
    fn needed(&self, column: usize) -> Result<f64, RecordedError> {
        self.number(Some(column))?.ok_or_else(|| self.bad(""))
    }

    fn bad(&self, text: &str) -> RecordedError {
        RecordedError::Number {
            line: self.line,
            text: text.to_owned(),
            path: self.path.to_path_buf(),
        }
    }
}

fn read_trace(folder: &Path, label: &Label) -> Result<Trace, RecordedError> {
    let path = folder.join(&label.trace);
    let text = read(&path)?;
    let mut lines = text.lines().enumerate();
    let columns = Columns::find(lines.next().map_or("", |(_, header)| header), &path)?;
    let mut points: Vec<TracePoint> = Vec::new();
    let mut first_secs = None;
    let mut phase_before = None;
    for (number, line) in lines {
        let row = TraceLine {
            cells: line.split(',').collect(),
            line: number + 1,
            path: &path,
        };
        let seconds = row.needed(columns.time)?;
        let time_nanos = nanos(seconds - *first_secs.get_or_insert(seconds));
        if points
            .last()
            .is_some_and(|last| last.time_nanos >= time_nanos)
        {
            return Err(RecordedError::Order {
                line: row.line,
                path,
            });
        }
        let phase = row.text(columns.phase);
        // An evaluation is something that a job marks; forward and backward are not.
        let evaluation = phase.filter(|phase| *phase == "eval" && phase_before != Some("eval"));
        phase_before = phase;
        points.push(TracePoint {
            time_nanos,
            used_bytes: row.needed(columns.used)?,
            limit_bytes: row.number(columns.limit)?.or(Some(label.cap_bytes)),
            held_bytes: row.number(columns.held)?,
            reclaimable_bytes: row.number(columns.reclaimable)?.unwrap_or(0.0),
            children_bytes: row.number(columns.children)?,
            step: row.number(columns.step)?.map(|step| step as i64),
            mark: evaluation.map(str::to_owned),
            ..TracePoint::default()
        });
    }
    let end_nanos = points.last().map_or(0, |point| point.time_nanos);
    let on_our_clock = |seconds: f64| nanos(seconds - first_secs.unwrap_or(0.0));
    let after_end = |seconds: f64| end_nanos + nanos(seconds);
    let group = folder.file_name().unwrap_or_default().to_string_lossy();
    Ok(Trace {
        name: format!("{group}/{}", label.trace.trim_end_matches(".csv")),
        shape: None,
        seed: 0,
        points,
        truth: TraceOutcome {
            oom_at_nanos: label.oom_at_s.map(on_our_clock),
            unpredictable: false,
            limit_reached_after_end_nanos: label.limit_reached_after_end_s.map(after_end),
            leak: label.leak,
            leak_cycles: None,
            expected: label.note.clone().into(),
        },
    })
}

fn nanos(seconds: f64) -> u64 {
    (seconds.max(0.0) * NANOS_PER_SEC).round() as u64
}
