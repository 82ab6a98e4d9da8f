//! The CSV table: one row for each tick of the process tree.
//!
//! Promises: the first three columns are `timestamp_seconds,memory_mb,cpu_percent` with 3, 2 and 1 decimals.
//! What was not measured is an empty field.
//! `ending` is 1 in rows that were taken while the job gave its memory back, or after the kernel had killed it: no verdict rests on them.
//! Neighbours: [`crate::csv_log`] writes the three columns during a run, [`crate::csv_long`] writes every table.

use std::io::Write;

use nilo_analysis::owned_cgroup::owned_cgroup_table;
use nilo_analysis::tracking::ending_began;
use nilo_sample::limit::NO_LIMIT_FROM;
use nilo_sample::units::to_mb;
use nilo_sample::{Event, RecordedTable, Recording, Subject, is_absent};

use crate::ExportError;
use crate::csv_rows::CsvRows;
use crate::in_force::{InForce, cell};

/// The columns of every memory log.
const BASIC_HEADER: [&str; 3] = ["timestamp_seconds", "memory_mb", "cpu_percent"];

/// What follows them in a full table.
const FURTHER_HEADER: [&str; 9] = [
    "rss_mb",
    "high_water_mb",
    "swap_mb",
    "processes",
    "cgroup_working_set_mb",
    "cgroup_limit_mb",
    "host_available_mb",
    "marks",
    "ending",
];

/// Which columns to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CsvColumns {
    /// Time, memory and CPU: the format of `--memory-log`.
    Basic,
    /// These and everything else that has one value for each tick.
    Full,
}

/// Writes the table. Without ticks there is a header all the same.
///
/// A mark stands in the first row at or after it, marks after the last row in the last; several are joined by `;`.
pub fn write_csv(
    recording: &Recording,
    columns: CsvColumns,
    output: impl Write,
) -> Result<(), ExportError> {
    let further = match columns {
        CsvColumns::Basic => [].iter(),
        CsvColumns::Full => FURTHER_HEADER.iter(),
    };
    let mut rows = CsvRows::new(output, BASIC_HEADER.iter().chain(further))?;
    if let Some(tree) = recording.table(&Subject::Tree) {
        write_rows(recording, tree, columns, &mut rows)?;
    }
    rows.finish()?;
    Ok(())
}

/// Begins a memory log: the header of the three columns.
pub(crate) fn basic_rows<W: Write>(output: W) -> std::io::Result<CsvRows<W>> {
    CsvRows::new(output, BASIC_HEADER)
}

fn write_rows(
    recording: &Recording,
    tree: &RecordedTable,
    columns: CsvColumns,
    rows: &mut CsvRows<impl Write>,
) -> Result<(), ExportError> {
    let position = |name| tree.spec.column(name).unwrap_or(usize::MAX);
    let further = [
        (position("rss_bytes"), NumberScale::Megabytes),
        (position("high_water_bytes"), NumberScale::Megabytes),
        (position("swap_bytes"), NumberScale::Megabytes),
        (position("processes"), NumberScale::Whole),
    ];
    let (memory, cpu) = (position("memory_bytes"), position("cpu_nanos"));
    let mut load = CpuLoad::default();
    let mut cgroup = InForce::new(job_cgroup(recording));
    let mut host = InForce::new(recording.table(&Subject::Host));
    let mut marks = PendingMarks::new(recording);
    let ending = recording.description.ending.as_ref();
    let ending_from = ending.and_then(|ending| ending_began(recording, ending));

    for (row, time_nanos) in tree.times.iter().copied().enumerate() {
        let cpu_percent = load.percent(time_nanos, cell(tree, cpu, row));
        write_basic(rows, time_nanos, cell(tree, memory, row), cpu_percent)?;
        if columns == CsvColumns::Full {
            cgroup.advance(time_nanos);
            host.advance(time_nanos);
            for (column, scale) in further {
                write_number(rows, Some(cell(tree, column, row)), scale)?;
            }
            let working_set = cgroup.value("working_set_bytes");
            write_number(rows, working_set, NumberScale::Megabytes)?;
            let limit = cgroup
                .value("limit_bytes")
                .filter(|bytes| *bytes < NO_LIMIT_FROM as f64);
            write_number(rows, limit, NumberScale::Megabytes)?;
            write_number(rows, host.value("available_bytes"), NumberScale::Megabytes)?;
            let until = (row + 1 < tree.times.len()).then_some(time_nanos);
            rows.text(&marks.take(until))?;
            let is_ending = ending_from.is_some_and(|from| time_nanos >= from);
            rows.number_if_known(is_ending.then_some(1))?;
        }
        rows.end_row()?;
    }
    Ok(())
}

/// The job's own cgroup, else the first that was read.
fn job_cgroup(recording: &Recording) -> Option<&RecordedTable> {
    let is_cgroup = |table: &&RecordedTable| matches!(table.spec.subject, Subject::Cgroup { .. });
    let mut cgroups = recording.tables.iter().filter(is_cgroup);
    owned_cgroup_table(recording).or_else(|| cgroups.find(|table| !table.times.is_empty()))
}

/// CPU use between two successive readings of the counter.
#[derive(Default)]
struct CpuLoad {
    started: bool,
    /// Time and value of the last reading that was there.
    before: Option<(u64, f64)>,
}

impl CpuLoad {
    /// Percent of one core; zero in the first row and when the counter went back, `None` when it was not read.
    fn percent(&mut self, time_nanos: u64, cpu_nanos: f64) -> Option<f64> {
        let first = !std::mem::replace(&mut self.started, true);
        if !cpu_nanos.is_finite() {
            return first.then_some(0.0);
        }
        let before = self.before.replace((time_nanos, cpu_nanos));
        let Some((time_before, cpu_before)) = before else {
            return Some(0.0);
        };
        let elapsed_nanos = time_nanos.saturating_sub(time_before);
        if elapsed_nanos == 0 {
            self.before = before;
            return None;
        }
        Some(((cpu_nanos - cpu_before) / elapsed_nanos as f64 * 100.0).max(0.0))
    }
}

/// Hands out the marks in the order of time.
struct PendingMarks<'a> {
    left: std::iter::Peekable<std::vec::IntoIter<(u64, &'a str)>>,
}

impl<'a> PendingMarks<'a> {
    fn new(recording: &'a Recording) -> PendingMarks<'a> {
        let marks = recording.events.iter().filter_map(|timed| {
            if let Event::Mark { text } = &timed.event {
                Some((timed.time_nanos, text.as_str()))
            } else {
                None
            }
        });
        let mut marks: Vec<_> = marks.collect();
        marks.sort_by_key(|(time_nanos, _)| *time_nanos);
        PendingMarks {
            left: marks.into_iter().peekable(),
        }
    }

    /// Those not yet taken up to a time; all that are left without one.
    fn take(&mut self, until: Option<u64>) -> String {
        let mut texts = Vec::new();
        while let Some((_, text)) = self
            .left
            .next_if(|(time, _)| until.is_none_or(|until| *time <= until))
        {
            texts.push(text);
        }
        texts.join(";")
    }
}

/// How a number is written.
#[derive(Clone, Copy)]
enum NumberScale {
    Megabytes,
    Whole,
    Percent,
}

/// The three columns of every memory log; what is not a finite number stays empty.
pub(crate) fn write_basic(
    rows: &mut CsvRows<impl Write>,
    time_nanos: u64,
    memory_bytes: f64,
    cpu_percent: Option<f64>,
) -> std::io::Result<()> {
    let millis = time_nanos / 1_000_000 + u64::from(time_nanos % 1_000_000 >= 500_000);
    rows.number(format_args!("{}.{:03}", millis / 1000, millis % 1000))?;
    write_number(rows, Some(memory_bytes), NumberScale::Megabytes)?;
    write_number(rows, cpu_percent, NumberScale::Percent)
}

fn write_number(
    rows: &mut CsvRows<impl Write>,
    value: Option<f64>,
    scale: NumberScale,
) -> std::io::Result<()> {
    let present = |value: &f64| !is_absent(*value) && value.is_finite();
    match (value.filter(present), scale) {
        (Some(value), NumberScale::Megabytes) => rows.number(format_args!("{:.2}", to_mb(value))),
        (Some(value), NumberScale::Whole) => rows.number(format_args!("{value:.0}")),
        (Some(value), NumberScale::Percent) => rows.number(format_args!("{value:.1}")),
        (None, _) => rows.number_if_known(None::<f64>),
    }
}
