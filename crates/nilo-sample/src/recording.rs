//! A run in memory: what the run file's reader hands to analysis and views.

use crate::event::TimedEvent;
use crate::process::ProcessId;
use crate::run::RunDescription;
use crate::stack::StackTree;
use crate::table::{Subject, TableSpec, is_absent};

/// Stands in [`RecordedTable::steps`] for a row without a step.
pub const NO_STEP: i64 = i64::MIN;

/// One table with all its rows, by column. Times ascend.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedTable {
    /// Its declaration.
    pub spec: TableSpec,
    /// The file it was written by, such as `recorder-4711`.
    pub writer: String,
    /// Nanoseconds since the run began, for each row.
    pub times: Vec<u64>,
    /// Training steps, [`NO_STEP`] for rows without one; empty for tables that have none.
    pub steps: Vec<i64>,
    /// The values, one vector for each column of the declaration.
    pub columns: Vec<Vec<f64>>,
}

/// One column over time.
#[derive(Debug, Clone, Copy)]
pub struct SeriesView<'a> {
    /// Nanoseconds since the run began.
    pub times: &'a [u64],
    /// Values; [`crate::ABSENT`] where nothing was measured.
    pub values: &'a [f64],
}

impl<'a> SeriesView<'a> {
    /// The points at which something was measured.
    pub fn present(self) -> impl DoubleEndedIterator<Item = (u64, f64)> + 'a {
        self.times
            .iter()
            .copied()
            .zip(self.values.iter().copied())
            .filter(|(_, v)| !is_absent(*v))
    }

    /// The last measured value.
    pub fn last(self) -> Option<f64> {
        self.present().next_back().map(|(_, value)| value)
    }

    /// The largest measured value and its time.
    pub fn max(self) -> Option<(u64, f64)> {
        self.present()
            .filter(|(_, v)| !v.is_nan())
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
    }
}

impl RecordedTable {
    /// The process that the rows are from, as writers are named: of what another process told, that one.
    pub fn program(&self) -> String {
        match self.spec.subject {
            Subject::TorchMemory { pid: Some(pid), .. } => format!("python-{pid}"),
            _ => self.writer.clone(),
        }
    }

    /// A column by name.
    pub fn series(&self, column: &str) -> Option<SeriesView<'_>> {
        let values = self.columns.get(self.spec.column(column)?)?;
        Some(SeriesView {
            times: &self.times,
            values,
        })
    }
}

/// A process that wrote to a run as a rank of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedRank {
    /// Which one.
    pub rank: u32,
    /// The process.
    pub id: ProcessId,
    /// The time of the last row that it wrote.
    pub written_until_nanos: u64,
    /// It closed its file: it ended in good order, or at least said how.
    pub has_left: bool,
}

/// A run, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// `run.json`.
    pub description: RunDescription,
    /// Every table of every writer.
    pub tables: Vec<RecordedTable>,
    /// Everything that happened, by time.
    pub events: Vec<TimedEvent>,
    /// The stacks that rows name, of all writers.
    pub stacks: StackTree,
    /// It lies in a job whose recorder did not say how that ended: it is at work, or it died.
    pub is_job_open: bool,
    /// The ranks that wrote to it on the machine that it began on.
    pub ranks: Vec<RecordedRank>,
    /// The time of the last row in the files, also of tables that were not wanted; of a run inside a job, also when the last of its ranks left it.
    pub written_until_nanos: u64,
    /// Large tables were thinned for a picture: rows of a table that are no further apart than this had others between them. 0 where all rows were read.
    pub thinned_nanos: u64,
    /// Rows that the writers could not store.
    pub dropped_rows: u64,
    /// Of them those that programs logged: metrics, phases and the like, but no samples of memory.
    pub dropped_program_rows: u64,
    /// What was wrong with the files, one sentence each (torn tails are normal and not among them).
    pub damage: Vec<String>,
}

impl Recording {
    /// A run of which nothing was recorded.
    pub fn empty(description: RunDescription) -> Recording {
        Recording {
            description,
            tables: Vec::new(),
            events: Vec::new(),
            stacks: StackTree::default(),
            is_job_open: false,
            ranks: Vec::new(),
            written_until_nanos: 0,
            thinned_nanos: 0,
            dropped_rows: 0,
            dropped_program_rows: 0,
            damage: Vec::new(),
        }
    }

    /// Samples that the recorder could not store.
    pub fn dropped_samples(&self) -> u64 {
        self.dropped_rows.saturating_sub(self.dropped_program_rows)
    }

    /// The first table about a subject.
    pub fn table(&self, subject: &Subject) -> Option<&RecordedTable> {
        self.tables
            .iter()
            .find(|table| table.spec.subject == *subject)
    }

    /// The time of the last row or event; the same whichever tables were read.
    pub fn last_time_nanos(&self) -> u64 {
        let rows = self
            .tables
            .iter()
            .filter_map(|table| table.times.last().copied());
        rows.chain(self.events.iter().map(|event| event.time_nanos))
            .fold(self.written_until_nanos, u64::max)
    }
}
