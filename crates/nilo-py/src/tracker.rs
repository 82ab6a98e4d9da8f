//! Metrics in memory and in the run: the native half of `MetricTracker`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use nilo_sample::ABSENT;

use crate::destination::Destination;
use crate::flatten::{FlatValues, as_dict, flatten};
use crate::number::{self, LoggedValue};
use crate::pending::DeviceNumber;
use crate::run::{Run, step_of};
use crate::series::{Series, SeriesStatistics, finite, mean_and_std, metric_summary};
use crate::shared::{QuickOutcome, SharedRun};
use crate::stream::{RowStep, TrackedStep};
use crate::text::{Text, text_of};
use crate::tracked_metrics::TrackedMetrics;
use crate::trouble::report;

/// Values by name, kept in memory for statistics and stored in the run as they come.
#[pyclass(frozen, subclass, module = "nilometer._native")]
pub(crate) struct Tracker {
    destination: Destination,
    /// The group that was asked for.
    asked_group: Option<String>,
    /// The run that it writes to and its group there.
    place: Mutex<Option<(Arc<SharedRun>, Group)>>,
    metrics: Mutex<TrackedMetrics>,
    later: Mutex<Vec<PendingValue>>,
}

/// The group that a tracker's tables belong to.
enum Group {
    /// By the user.
    Asked(Arc<str>),
    /// The lowest number that was free.
    Numbered(u32, Arc<str>),
}

impl Group {
    fn name(&self) -> Arc<str> {
        match self {
            Group::Asked(name) | Group::Numbered(_, name) => Arc::clone(name),
        }
    }
}

/// A place in a series whose number is still on a device.
struct PendingValue {
    name: String,
    index: usize,
    number: DeviceNumber,
}

#[pymethods]
impl Tracker {
    #[new]
    #[pyo3(signature = (run=None, group=None))]
    fn new(run: Option<&Bound<'_, Run>>, group: Option<String>) -> Tracker {
        Tracker {
            destination: Destination::new(run.map(Bound::get)),
            asked_group: group,
            place: Mutex::default(),
            metrics: Mutex::default(),
            later: Mutex::default(),
        }
    }

    /// Adds one value.
    #[pyo3(signature = (name, value, step=None))]
    fn update(
        &self,
        name: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        step: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let dict = PyDict::new(name.py());
        dict.set_item(name, value)?;
        self.add(&dict, step)
    }

    /// Adds several values of one step.
    #[pyo3(signature = (metrics, step=None))]
    fn update_batch(
        &self,
        metrics: &Bound<'_, PyAny>,
        step: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        match as_dict(metrics) {
            Some(dict) => self.add(&dict, step),
            None => report(
                metrics.py(),
                "update_batch: the metrics are not a dictionary of names and numbers",
            ),
        }
    }

    /// The mean of a metric's finite values; of the last `window` ones only, if given.
    #[pyo3(signature = (name, window=None))]
    fn get_mean(&self, py: Python<'_>, name: Text, window: Option<i64>) -> PyResult<f64> {
        self.over(py, &name, window, |values| mean_and_std(&finite(values)).0)
    }

    /// Their population standard deviation, likewise.
    #[pyo3(signature = (name, window=None))]
    fn get_std(&self, py: Python<'_>, name: Text, window: Option<i64>) -> PyResult<f64> {
        self.over(py, &name, window, |values| mean_and_std(&finite(values)).1)
    }

    /// The last value.
    fn get_last(&self, py: Python<'_>, name: Text) -> PyResult<Option<f64>> {
        self.over(py, &name, Some(1), |values| values.last().copied())
    }

    /// The summary of one metric, or of all by name.
    #[pyo3(signature = (name=None, window=None))]
    fn get_summary<'py>(
        &self,
        py: Python<'py>,
        name: Option<Text>,
        window: Option<i64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        if let Some(name) = name {
            let statistics = self.over(py, &name, window, SeriesStatistics::of)?;
            return metric_summary(py, &statistics);
        }
        let all = PyDict::new(py);
        for name in self.names() {
            let statistics = self.over(py, &name, window, SeriesStatistics::of)?;
            all.set_item(name, metric_summary(py, &statistics)?)?;
        }
        Ok(all)
    }

    /// The names so far, sorted.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.locked().names().cloned().collect();
        names.sort_unstable();
        names
    }

    /// A metric's values in order.
    #[pyo3(signature = (name, window=None))]
    fn get_values(&self, py: Python<'_>, name: Text, window: Option<i64>) -> PyResult<Vec<f64>> {
        self.over(py, &name, window, <[f64]>::to_vec)
    }

    /// The same as the bytes of doubles.
    fn value_bytes<'py>(&self, py: Python<'py>, name: Text) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.over(py, &name, None, |values| {
            let bytes = values.iter().flat_map(|value| value.to_ne_bytes());
            bytes.collect::<Vec<u8>>()
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Forgets every value in memory; the run keeps them.
    fn reset(&self) {
        self.later
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        self.locked().forget_values();
    }

    fn __contains__(&self, name: Text) -> bool {
        self.locked().get(&name).is_some()
    }

    fn __len__(&self) -> usize {
        self.locked().names().count()
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        let place = self.place.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((run, Group::Numbered(number, _))) = place {
            run.give_back_tracker(*number);
        }
    }
}

impl Tracker {
    /// The group of this tracker in a run. Neither `log` nor another tracker that lives at the same time has it, so that equal names stay apart.
    fn group_in(&self, run: &Arc<SharedRun>) -> Arc<str> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        match &*place {
            Some((known, group)) if Arc::ptr_eq(known, run) => return group.name(),
            Some((known, Group::Numbered(number, _))) => known.give_back_tracker(*number),
            _ => {}
        }
        if place.is_some() {
            self.locked().restart_steps();
        }
        let group = match &self.asked_group {
            Some(name) => Group::Asked(name.as_str().into()),
            None => {
                let number = run.take_tracker();
                Group::Numbered(number, format!("tracker-{}", number + 1).into())
            }
        };
        let name = group.name();
        *place = Some((Arc::clone(run), group));
        name
    }

    fn locked(&self) -> MutexGuard<'_, TrackedMetrics> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn over<T>(
        &self,
        py: Python<'_>,
        name: &str,
        window: Option<i64>,
        work: impl FnOnce(&[f64]) -> T,
    ) -> PyResult<T> {
        if let Some(window @ ..1) = window {
            // `min(step, 100)` is 0 in the first step of a loop.
            report(py, &format!("window must be positive, not {window}"))?;
            return Ok(work(&[]));
        }
        let window = window.and_then(|window| usize::try_from(window).ok());
        self.settle(py);
        if let Some(series) = self.locked().get(name) {
            return Ok(work(series.last(window)));
        }
        // In the loop a name may come later than the question for it.
        let text = format!("no metric is called {name:?} so far; names() lists those that are");
        report(py, &text)?;
        Ok(work(&[]))
    }

    fn add(&self, dict: &Bound<'_, PyDict>, step: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let py = dict.py();
        let given = step_of("update", step)?;
        let run = self.destination.get(py)?;
        let group = self.group_in(&run);
        let said = given.or_else(|| run.with_stream(|stream| stream.step).flatten());
        let said = said.map(|step| TrackedStep {
            step,
            is_given: given.is_some(),
        });
        if run.is_stored()
            && let Some(step) = said.or_else(|| self.common_step(dict))
        {
            let quick = run.log_quickly(&group, dict, RowStep::Tracked(step));
            if quick != QuickOutcome::NeedsCare {
                self.keep_plain(dict, step.step);
                return run.after_quick_row(py, quick);
            }
        }
        let rows = self.rows_by_step(flatten(dict)?, said);
        for (tracked, found) in &rows {
            self.keep(py, found, tracked.step);
        }
        let rows = rows.into_iter();
        let rows = rows.map(|(tracked, found)| (RowStep::Tracked(tracked), found));
        run.log_found(py, &group, rows.collect())
    }

    /// The step that all metrics of a plain dictionary have come to, if it is one.
    #[inline]
    fn common_step(&self, dict: &Bound<'_, PyDict>) -> Option<TrackedStep> {
        let metrics = self.locked();
        let mut steps = dict.iter().map(|(key, _)| {
            let name = key.cast::<PyString>().ok()?;
            Some(metrics.next_step(&text_of(name)))
        });
        let first = steps.next()??;
        let is_common = steps.all(|step| step == Some(first));
        is_common.then_some(TrackedStep {
            step: first,
            is_given: false,
        })
    }

    /// What a dictionary held, by step: each metric counts its own where none is said.
    fn rows_by_step(
        &self,
        found: FlatValues,
        said: Option<TrackedStep>,
    ) -> Vec<(TrackedStep, FlatValues)> {
        if let Some(step) = said {
            return vec![(step, found)];
        }
        let metrics = self.locked();
        let mut rows = BTreeMap::<i64, FlatValues>::new();
        for (name, number) in found.numbers {
            let row = rows.entry(metrics.next_step(&name)).or_default();
            row.numbers.push((name, number));
        }
        for (name, number) in found.on_device {
            let row = rows.entry(metrics.next_step(&name)).or_default();
            row.on_device.push((name, number));
        }
        for (name, what) in found.unusable {
            let row = rows.entry(metrics.next_step(&name)).or_default();
            row.unusable.push((name, what));
        }
        for name in found.absent {
            let row = rows.entry(metrics.next_step(&name)).or_default();
            row.absent.push(name);
        }
        for name in found.repeated {
            let row = rows.entry(metrics.next_step(&name)).or_default();
            row.repeated.push(name);
        }
        if let (1, Some(mut row)) = (rows.len(), rows.first_entry()) {
            row.get_mut().keys = found.keys;
        }
        let counted = |step| TrackedStep {
            step,
            is_given: false,
        };
        let by_step = rows.into_iter();
        by_step.map(|(step, row)| (counted(step), row)).collect()
    }

    /// Keeps a dictionary that is known to be flat and plain.
    #[inline]
    fn keep_plain(&self, dict: &Bound<'_, PyDict>, step: i64) {
        for (key, value) in dict.iter() {
            if let (Ok(name), LoggedValue::Number(number)) =
                (key.cast::<PyString>(), number::read(&value))
            {
                self.locked().push(&text_of(name), number, step);
            }
        }
    }

    fn keep(&self, py: Python<'_>, found: &FlatValues, step: i64) {
        for (name, number) in &found.numbers {
            self.locked().push(name, *number, step);
        }
        for (name, number) in &found.on_device {
            self.push_later(py, name, number, step);
        }
        for (name, _) in &found.unusable {
            self.locked().skip(name, step);
        }
    }

    /// Holds the place of a number that is still on a device.
    fn push_later(&self, py: Python<'_>, name: &str, number: &DeviceNumber, step: i64) {
        self.locked().push(name, ABSENT, step);
        let index = self.locked().get(name).map_or(0, Series::len);
        if index > 0 {
            let place = PendingValue {
                name: name.to_owned(),
                index: index - 1,
                number: number.clone_ref(py),
            };
            self.later
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(place);
        }
    }

    /// Puts numbers from devices into their places, waiting for them.
    fn settle(&self, py: Python<'_>) {
        let later = std::mem::take(&mut *self.later.lock().unwrap_or_else(PoisonError::into_inner));
        for place in later {
            let value = place.number.value(py).unwrap_or(f64::NAN);
            self.locked().set(&place.name, place.index, value);
        }
    }
}
