//! Reading a run back: series as the bytes of arrays, the summary, the picture.
//!
//! The stable Python interface has no buffer protocol before 3.11, so arrays travel as bytes, which numpy and `array` take over as they are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nilo_analysis::summarize;
use nilo_plot::{ChartOptions, memory_chart};
use nilo_recorder::after_the_fact;
use nilo_runfile::RunFolder;
use nilo_sample::table::is_absent;
use nilo_sample::{Event, NO_STEP, Recording, Subject, TableSpec};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{os_error, value_error};

/// A run on disk, also one that is still being written.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct RunReader {
    folder: RunFolder,
}

/// Steps (int64), seconds since the run began (float64), values (float64), and whether every point has a step.
type SeriesBytes<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    bool,
);

#[pymethods]
impl RunReader {
    #[new]
    fn new(path: PathBuf) -> PyResult<RunReader> {
        let folder = RunFolder::open(&path).map_err(os_error)?;
        folder.describe().map_err(os_error)?;
        Ok(RunReader { folder })
    }

    /// `run.json` as text.
    fn description_json(&self) -> PyResult<String> {
        let description = self.folder.describe().map_err(os_error)?;
        serde_json::to_string(&description).map_err(|error| value_error(error.to_string()))
    }

    /// The names of the metrics, of one group only if given, sorted.
    #[pyo3(signature = (group=None))]
    fn metric_names(&self, py: Python<'_>, group: Option<&str>) -> PyResult<Vec<String>> {
        let recording = self.load(py, &|spec| is_metric(spec, group))?;
        let columns = recording
            .tables
            .iter()
            .flat_map(|table| &table.spec.columns);
        let mut names: Vec<String> = columns.map(|column| column.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// The names of the phases, sorted.
    fn phase_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let recording = self.load(py, &|spec| matches!(spec.subject, Subject::Phase { .. }))?;
        let names = recording
            .tables
            .iter()
            .filter_map(|table| match &table.spec.subject {
                Subject::Phase { name } => Some(name.clone()),
                _ => None,
            });
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// A metric's points in the order of their logging.
    #[pyo3(signature = (name, group=None))]
    fn metric<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        group: Option<&str>,
    ) -> PyResult<SeriesBytes<'py>> {
        let wanted = |spec: &TableSpec| is_metric(spec, group) && spec.column(name).is_some();
        self.series(py, name, &wanted)
    }

    /// A phase's durations in nanoseconds.
    fn phase<'py>(&self, py: Python<'py>, name: &str) -> PyResult<SeriesBytes<'py>> {
        let wanted = |spec: &TableSpec| matches!(&spec.subject, Subject::Phase { name: phase } if phase == name);
        self.series(py, "duration_nanos", &wanted)
    }

    /// A column of the process tree's table, such as `memory_bytes`.
    fn tree<'py>(&self, py: Python<'py>, column: &str) -> PyResult<SeriesBytes<'py>> {
        self.series(py, column, &|spec| spec.subject == Subject::Tree)
    }

    /// A column of the totals of batches, samples, tokens.
    fn throughput<'py>(&self, py: Python<'py>, column: &str) -> PyResult<SeriesBytes<'py>> {
        self.series(py, column, &|spec| spec.subject == Subject::Throughput)
    }

    /// Marks with their seconds.
    fn marks(&self, py: Python<'_>) -> PyResult<Vec<(f64, String)>> {
        let recording = self.load(py, &|_| false)?;
        let marks = recording
            .events
            .into_iter()
            .filter_map(|timed| match timed.event {
                Event::Mark { text } => Some((timed.time_nanos as f64 / 1e9, text)),
                _ => None,
            });
        Ok(marks.collect())
    }

    /// The program's settings.
    fn config(&self, py: Python<'_>) -> PyResult<BTreeMap<String, String>> {
        let recording = self.load(py, &|_| false)?;
        let mut config = BTreeMap::new();
        for timed in recording.events {
            if let Event::Config { values } = timed.event {
                config.extend(values);
            }
        }
        Ok(config)
    }

    /// The summary that `nilo show --format json` is made of.
    fn summary_json(&self, py: Python<'_>) -> PyResult<String> {
        let recording = self.load(py, &|_| true)?;
        let summary = summarize(&recording, &after_the_fact(&recording));
        serde_json::to_string(&summary).map_err(|error| value_error(error.to_string()))
    }

    /// The chart of memory as SVG.
    fn svg(&self, py: Python<'_>, width: u32, height: u32) -> PyResult<String> {
        let recording = self.load(py, &|_| true)?;
        let options = ChartOptions {
            width,
            height,
            ..ChartOptions::default()
        };
        Ok(py.detach(|| memory_chart(&recording, &options).to_svg().to_owned()))
    }
}

impl RunReader {
    fn load(
        &self,
        py: Python<'_>,
        keep: &(dyn Fn(&TableSpec) -> bool + Sync),
    ) -> PyResult<Recording> {
        py.detach(|| self.folder.load_where(&|spec| keep(spec)).map_err(os_error))
    }

    fn series<'py>(
        &self,
        py: Python<'py>,
        column: &str,
        wanted: &(dyn Fn(&TableSpec) -> bool + Sync),
    ) -> PyResult<SeriesBytes<'py>> {
        let recording = self.load(py, wanted)?;
        let points = py.detach(|| Points::gather(&recording, column));
        let all_steps = points.steps.iter().all(|step| *step != NO_STEP);
        Ok((
            PyBytes::new(py, bytes_of(&points.steps)),
            PyBytes::new(py, bytes_of(&points.seconds)),
            PyBytes::new(py, bytes_of(&points.values)),
            all_steps,
        ))
    }
}

fn is_metric(spec: &TableSpec, wanted: Option<&str>) -> bool {
    match &spec.subject {
        Subject::Metrics { name } => wanted.is_none_or(|wanted| wanted == name),
        _ => false,
    }
}

/// Parallel arrays.
#[derive(Default)]
struct Points {
    steps: Vec<i64>,
    seconds: Vec<f64>,
    values: Vec<f64>,
}

impl Points {
    fn gather(recording: &Recording, column: &str) -> Points {
        let mut points = Points::default();
        for table in &recording.tables {
            let Some(values) = table
                .spec
                .column(column)
                .and_then(|index| table.columns.get(index))
            else {
                continue;
            };
            for (row, (value, time)) in values.iter().zip(&table.times).enumerate() {
                if is_absent(*value) {
                    continue;
                }
                points
                    .steps
                    .push(table.steps.get(row).copied().unwrap_or(NO_STEP));
                points.seconds.push(*time as f64 / 1e9);
                points.values.push(*value);
            }
        }
        points.sort();
        points
    }

    /// Several tables hold one metric; together their points stand in the order of time.
    fn sort(&mut self) {
        if self.seconds.is_sorted() {
            return;
        }
        let mut order: Vec<usize> = (0..self.seconds.len()).collect();
        order.sort_by(|a, b| self.seconds[*a].total_cmp(&self.seconds[*b]));
        self.steps = order.iter().map(|at| self.steps[*at]).collect();
        self.values = order.iter().map(|at| self.values[*at]).collect();
        self.seconds = order.iter().map(|at| self.seconds[*at]).collect();
    }
}

/// Numbers that may be looked at as bytes: no padding, every bit pattern valid.
trait Plain: Copy {}
impl Plain for f64 {}
impl Plain for i64 {}

fn bytes_of<T: Plain>(numbers: &[T]) -> &[u8] {
    // SAFETY: the numbers have no padding, and any bytes are valid bytes; the lifetime is that of the slice.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), std::mem::size_of_val(numbers)) }
}
