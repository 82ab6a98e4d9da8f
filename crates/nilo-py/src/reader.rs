//! Reading a run back: series as arrays, the summary, the picture.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use nilo_analysis::settings::settings;
use nilo_analysis::{metric_group, metric_names, summarize};
use nilo_answer::picture::RunPicture;
use nilo_export::{ExportError, Format};
use nilo_plot::{ChartOptions, memory_chart};
use nilo_recorder::{after_the_fact, fallback_folders};
use nilo_runfile::find::{FindError, SameName};
use nilo_runfile::{RunFolder, RunfileError};
use nilo_sample::table::is_absent;
use nilo_sample::{Event, NO_STEP, Recording, Subject, TableSpec};
use pyo3::prelude::*;

use crate::errors::{not_found, os_error, value_error};
use crate::exporting::export;
use crate::numbers::Numbers;
use crate::text::Text;

/// A run on disk, also one that is still being written.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct RunReader {
    folder: RunFolder,
}

/// Why a run cannot have this name; None where it can.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "an argument from Python")]
pub(crate) fn refuse_name(name: Text) -> Option<String> {
    nilo_runfile::find::refuse_name(&name.0)
}

/// The folder of the run that is meant by a path, an id or the beginning of one, a name, `last` or `last~1`.
#[pyfunction]
pub(crate) fn find_run(root: PathBuf, asked: PathBuf) -> PyResult<PathBuf> {
    let found = nilo_runfile::find::find_run(&root, &fallback_folders(), &asked, SameName::Newest);
    let folder = found.map_err(|error| match error {
        FindError::Open(RunfileError::NotFound { .. }) => not_found(error),
        FindError::Open(other) => os_error(other),
        // It is there, more than once.
        FindError::SeveralFolders { .. } => value_error(format!("{error}\nname one by its path")),
        _ => not_found(error),
    })?;
    Ok(folder.path().to_owned())
}

/// Steps, seconds since the run began, and values.
type SeriesArrays = (Numbers, Numbers, Numbers);

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
        let mut names: Vec<String> = self.called(py, group)?.into_values().collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The names of the phases, sorted.
    fn phase_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.names(py, |spec, names| {
            if let Subject::Phase { name } = &spec.subject {
                names.insert(name.clone());
            }
        })
    }

    /// A metric's points in the order of their logging, of one rank only if given.
    #[pyo3(signature = (name, group=None, rank=None))]
    fn metric(
        &self,
        py: Python<'_>,
        name: Text,
        group: Option<&str>,
        rank: Option<u32>,
    ) -> PyResult<SeriesArrays> {
        let is_wanted = |spec: &TableSpec, group: Option<&str>| {
            let known = metric_group(spec);
            known.is_some() && (group.is_none() || known == group)
        };
        let is_of_rank = |spec: &TableSpec| rank.is_none() || spec.rank == rank;
        // Nearly always one group has the name, and the files are read once.
        // All ranks of it: whose name it is depends on what the others have.
        let mut found = self.load_column(py, &name, &|spec| is_wanted(spec, group))?;
        let groups: BTreeSet<_> = found
            .tables
            .iter()
            .map(|table| metric_group(&table.spec))
            .collect();
        if groups.len() == 1 {
            found.tables.retain(|table| is_of_rank(&table.spec));
            return Ok(py.detach(|| Points::gather(found)).into());
        }
        let called = self.called(py, group)?;
        let found = called.into_iter().find(|(_, known)| *known == *name);
        let Some(((group, column), _)) = found else {
            return Ok(Points::default().into());
        };
        self.series(py, &column, &|spec| {
            is_wanted(spec, Some(&group)) && is_of_rank(spec)
        })
    }

    /// The points of many metrics, or of all, by name; the files are read once.
    #[pyo3(signature = (names=None, group=None))]
    fn metrics(
        &self,
        py: Python<'_>,
        names: Option<BTreeSet<String>>,
        group: Option<&str>,
    ) -> PyResult<BTreeMap<String, SeriesArrays>> {
        let mut called = self.called(py, group)?;
        called.retain(|_, name| names.as_ref().is_none_or(|names| names.contains(name)));
        let recording = self.load(py, &|spec| {
            let of_group = |(group, _): &(String, String)| metric_group(spec) == Some(group);
            called.keys().any(of_group)
        })?;
        let all = py.detach(|| Points::gather_by_name(&recording, &called));
        Ok(all
            .into_iter()
            .map(|(name, points)| (name, points.into()))
            .collect())
    }

    /// The ranks that wrote to the run.
    fn ranks(&self, py: Python<'_>) -> PyResult<BTreeSet<u32>> {
        let ranks = Mutex::new(BTreeSet::new());
        self.load(py, &|spec| {
            ranks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(spec.rank);
            false
        })?;
        Ok(ranks.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// A phase's durations in nanoseconds.
    #[pyo3(signature = (name, rank=None))]
    fn phase(&self, py: Python<'_>, name: Text, rank: Option<u32>) -> PyResult<SeriesArrays> {
        let wanted = |spec: &TableSpec| {
            let is_phase =
                matches!(&spec.subject, Subject::Phase { name: phase } if *phase == *name);
            is_phase && (rank.is_none() || spec.rank == rank)
        };
        self.series(py, "duration_nanos", &wanted)
    }

    /// A column of the process tree's table, such as `memory_bytes`.
    fn tree(&self, py: Python<'_>, column: &str) -> PyResult<SeriesArrays> {
        self.series(py, column, &|spec| spec.subject == Subject::Tree)
    }

    /// A column of the totals of batches, samples, tokens.
    fn throughput(&self, py: Python<'_>, column: &str) -> PyResult<SeriesArrays> {
        self.series(py, column, &|spec| {
            matches!(spec.subject, Subject::Throughput { .. })
        })
    }

    /// A column of the readings that PyTorch gave of a GPU's memory.
    fn torch_memory(&self, py: Python<'_>, device: u32, column: &str) -> PyResult<SeriesArrays> {
        self.series(
            py,
            column,
            &|spec| matches!(spec.subject, Subject::TorchMemory { device: of, .. } if of == device),
        )
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

    /// The program's settings, as JSON.
    fn config_json(&self, py: Python<'_>) -> PyResult<String> {
        let recording = self.load(py, &|_| false)?;
        Ok(serde_json::to_string(&settings(&recording)).unwrap_or_default())
    }

    /// The summary that `nilo show --format json` is made of.
    fn summary_json(&self, py: Python<'_>) -> PyResult<String> {
        let recording = self.load(py, &|_| true)?;
        let summary = summarize(&recording, &after_the_fact(&recording));
        serde_json::to_string(&summary).map_err(|error| value_error(error.to_string()))
    }

    /// Writes the run for other programs; gives the path of what was written.
    fn export(&self, py: Python<'_>, path: PathBuf, format: &str) -> PyResult<PathBuf> {
        let format: Format = format
            .parse()
            .map_err(|error: ExportError| value_error(error.to_string()))?;
        let mut recording = self.load(py, &|_| true)?;
        let ending = after_the_fact(&recording);
        recording.description.ending = Some(ending);
        py.detach(|| export(&recording, format, &path).map_err(os_error))
    }

    /// The chart of memory as SVG, with the loss or the first metric below it.
    fn svg(&self, py: Python<'_>, width: u32, height: u32) -> PyResult<String> {
        let picture = py.detach(|| RunPicture::of_ended(&self.folder));
        let RunPicture {
            recording, figures, ..
        } = match picture.map_err(os_error)? {
            Some(picture) => picture,
            None => {
                let recording = self.load(py, &|_| true)?;
                let ending = after_the_fact(&recording);
                RunPicture::of(recording, ending)
            }
        };
        let options = ChartOptions {
            width,
            height,
            ..ChartOptions::of_run(&recording, &figures)
        };
        Ok(py.detach(|| memory_chart(&recording, &options).to_svg().to_owned()))
    }
}

impl RunReader {
    /// How metrics are called, by group and column.
    fn called(
        &self,
        py: Python<'_>,
        group: Option<&str>,
    ) -> PyResult<BTreeMap<(String, String), String>> {
        let specs = Mutex::new(Vec::new());
        self.load(py, &|spec| {
            let known = metric_group(spec);
            if known.is_some() && (group.is_none() || known == group) {
                let mut specs = specs.lock().unwrap_or_else(PoisonError::into_inner);
                if !specs.contains(spec) {
                    specs.push(spec.clone());
                }
            }
            false
        })?;
        let specs = specs.into_inner().unwrap_or_else(PoisonError::into_inner);
        let names = metric_names(&specs).into_iter();
        Ok(names
            .map(|((group, column), name)| ((group.to_owned(), column.to_owned()), name))
            .collect())
    }

    /// Names in the declarations of tables; no row is kept.
    fn names(
        &self,
        py: Python<'_>,
        note: impl Fn(&TableSpec, &mut BTreeSet<String>) + Sync,
    ) -> PyResult<Vec<String>> {
        let names = Mutex::new(BTreeSet::new());
        self.load(py, &|spec| {
            note(
                spec,
                &mut names.lock().unwrap_or_else(PoisonError::into_inner),
            );
            false
        })?;
        let names = names.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(names.into_iter().collect())
    }

    fn load(
        &self,
        py: Python<'_>,
        keep: &(dyn Fn(&TableSpec) -> bool + Sync),
    ) -> PyResult<Recording> {
        py.detach(|| self.folder.load_where(&|spec| keep(spec)).map_err(os_error))
    }

    fn series(
        &self,
        py: Python<'_>,
        column: &str,
        wanted: &(dyn Fn(&TableSpec) -> bool + Sync),
    ) -> PyResult<SeriesArrays> {
        let recording = self.load_column(py, column, wanted)?;
        Ok(py.detach(|| Points::gather(recording)).into())
    }

    fn load_column(
        &self,
        py: Python<'_>,
        column: &str,
        wanted: &(dyn Fn(&TableSpec) -> bool + Sync),
    ) -> PyResult<Recording> {
        py.detach(|| {
            let loaded = self.folder.load_column(column, &|spec| wanted(spec));
            loaded.map_err(os_error)
        })
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
    /// The points of tables that were cut to one column.
    fn gather(recording: Recording) -> Points {
        let mut points = Points::default();
        let tables = recording.tables.len();
        for mut table in recording.tables {
            let Some(mut values) = table.columns.pop() else {
                continue;
            };
            if table.steps.is_empty() {
                table.steps = vec![NO_STEP; values.len()];
            }
            if values.iter().copied().any(is_absent) {
                drop_absent(&mut table.times, &mut table.steps, &mut values);
            }
            // In the same memory: the standard library sees that both kinds of numbers take eight bytes.
            let seconds: Vec<f64> = table.times.into_iter().map(seconds).collect();
            append(&mut points.seconds, seconds);
            append(&mut points.steps, table.steps);
            append(&mut points.values, values);
        }
        if tables > 1 {
            points.sort();
        }
        points
    }

    /// The points of every wanted column of every table.
    fn gather_by_name(
        recording: &Recording,
        called: &BTreeMap<(String, String), String>,
    ) -> BTreeMap<String, Points> {
        let mut all: BTreeMap<String, Points> = BTreeMap::new();
        for table in &recording.tables {
            let group = metric_group(&table.spec).unwrap_or_default();
            for (column, values) in table.spec.columns.iter().zip(&table.columns) {
                let key = (group.to_owned(), column.name.clone());
                let Some(name) = called.get(&key) else {
                    continue;
                };
                let points = all.entry(name.clone()).or_default();
                let measured = values.iter().enumerate().filter(|(_, v)| !is_absent(**v));
                for (row, value) in measured {
                    points
                        .steps
                        .push(table.steps.get(row).copied().unwrap_or(NO_STEP));
                    points.seconds.push(seconds(table.times[row]));
                    points.values.push(*value);
                }
            }
        }
        all.retain(|_, points| !points.values.is_empty());
        all.values_mut().for_each(Points::sort);
        all
    }

    /// Where several tables hold one metric, their points together stand in the order of time, as those of each do.
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

impl From<Points> for SeriesArrays {
    fn from(points: Points) -> SeriesArrays {
        (
            points.steps.into(),
            points.seconds.into(),
            points.values.into(),
        )
    }
}

fn seconds(time_nanos: u64) -> f64 {
    time_nanos as f64 / 1e9
}

/// Appends without copying where there was nothing before.
fn append<T>(all: &mut Vec<T>, mut more: Vec<T>) {
    if all.is_empty() {
        *all = more;
    } else {
        all.append(&mut more);
    }
}

/// Leaves out the rows in which nothing was measured.
fn drop_absent(times: &mut Vec<u64>, steps: &mut Vec<i64>, values: &mut Vec<f64>) {
    let present: Vec<bool> = values.iter().map(|value| !is_absent(*value)).collect();
    let mut flags = present.iter();
    times.retain(|_| *flags.next().unwrap_or(&true));
    flags = present.iter();
    steps.retain(|_| *flags.next().unwrap_or(&true));
    values.retain(|value| !is_absent(*value));
}
