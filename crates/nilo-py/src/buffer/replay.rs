//! The native half of `nilometer.ReplayBuffer`.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use nilo_buffer::{
    ElementKind, LoadOptions, ReplaySettings, ReplayStore, Returns, Step, check_spill_folder,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::arrays::{ArrayMemory, check_outputs};
use super::batch::{BatchMemory, Pairs, memories, pairs};
use super::buffer_error;
use super::fork_lock::ForkLock;
use crate::errors::{sentence, value_error};

/// Transitions, shared by many samplers and one writer at a time.
#[pyclass(name = "ReplayStore", frozen, module = "nilometer._native")]
pub(crate) struct PyReplayStore {
    store: ForkLock<ReplayStore>,
    random: Mutex<fastrand::Rng>,
}

#[pymethods]
impl PyReplayStore {
    /// `settings` is the JSON of `nilo_buffer::ReplaySettings`.
    #[new]
    #[pyo3(signature = (settings, spill_folder=None, seed=None))]
    fn new(
        settings: &str,
        spill_folder: Option<PathBuf>,
        seed: Option<u64>,
    ) -> PyResult<PyReplayStore> {
        let settings: ReplaySettings =
            serde_json::from_str(settings).map_err(|error| value_error(error.to_string()))?;
        let settings = ReplaySettings {
            spill_folder,
            ..settings
        };
        Ok(PyReplayStore::holding(
            ReplayStore::new(settings).map_err(buffer_error)?,
            seed,
        ))
    }

    /// Adds one transition of each environment. Returns how many were dropped for memory so far.
    fn add(
        &self,
        py: Python<'_>,
        observations: Pairs<'_>,
        columns: Vec<Bound<'_, PyAny>>,
        rewards: &Bound<'_, PyAny>,
        terminated: &Bound<'_, PyAny>,
        truncated: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let observations = pairs(&observations)?;
        let columns = memories(&columns)?;
        let rewards = ArrayMemory::of(rewards)?.expect(ElementKind::F32)?;
        let terminated = ArrayMemory::of(terminated)?.expect(ElementKind::Bool)?;
        let truncated = ArrayMemory::of(truncated)?.expect(ElementKind::Bool)?;
        py.detach(|| {
            // SAFETY: Python code that changes arrays while they are added loses its own data, as with numpy; the kinds were checked, and numpy's booleans are 0 or 1.
            let step = unsafe {
                Step {
                    observations: &observations
                        .iter()
                        .map(|(now, next)| (now.bytes(), next.bytes()))
                        .collect::<Vec<_>>(),
                    columns: &columns
                        .iter()
                        .map(|column| column.bytes())
                        .collect::<Vec<_>>(),
                    rewards: rewards.items(),
                    terminated: terminated.items(),
                    truncated: truncated.items(),
                }
            };
            let mut store = self.store.write()?;
            store.add(step).map_err(buffer_error)?;
            Ok(store.dropped_here())
        })
    }

    /// Draws transitions, writes their numbers to `rows` and their data to the other arrays. With `beta` they are drawn by priority, and `weights` is written.
    #[expect(
        clippy::too_many_arguments,
        reason = "an array for each part of a batch"
    )]
    #[pyo3(signature = (rows, observations, columns, returns, steps, gamma, beta=None, weights=None))]
    fn sample(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        observations: Pairs<'_>,
        columns: Vec<Bound<'_, PyAny>>,
        returns: [Bound<'_, PyAny>; 4],
        steps: usize,
        gamma: f32,
        beta: Option<f32>,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let rows = ArrayMemory::of(rows)?.expect(ElementKind::U64)?;
        let weights = weights
            .map(|array| ArrayMemory::of(array)?.expect(ElementKind::F32))
            .transpose()?;
        let batch = BatchMemory::of(&observations, &columns, &returns)?;
        check_outputs(batch.all().chain([&rows]).chain(&weights))?;
        py.detach(|| {
            // SAFETY: the arrays were made for this batch, do not overlap, and have the kinds checked above.
            let (rows, weights) = unsafe {
                (
                    rows.items_mut::<u64>(),
                    weights.as_ref().map(|array| array.items_mut::<f32>()),
                )
            };
            let store = self.store.read()?;
            self.draw(&store, rows, beta, weights)?;
            // SAFETY: as above.
            let mut targets = unsafe { batch.targets() };
            store
                .read(rows, Returns { steps, gamma }, &mut targets)
                .map_err(buffer_error)
        })
    }

    /// Reads the transitions with these numbers.
    #[expect(
        clippy::too_many_arguments,
        reason = "an array for each part of a batch"
    )]
    fn read(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        observations: Pairs<'_>,
        columns: Vec<Bound<'_, PyAny>>,
        returns: [Bound<'_, PyAny>; 4],
        steps: usize,
        gamma: f32,
    ) -> PyResult<()> {
        let rows = ArrayMemory::of(rows)?.expect(ElementKind::U64)?;
        let batch = BatchMemory::of(&observations, &columns, &returns)?;
        check_outputs(batch.all())?;
        py.detach(|| {
            // SAFETY: the arrays were made for this batch, do not overlap, and have the kinds checked above.
            let (rows, mut targets) = unsafe { (rows.items::<u64>(), batch.targets()) };
            self.store
                .read()?
                .read(rows, Returns { steps, gamma }, &mut targets)
                .map_err(buffer_error)
        })
    }

    /// Sets the priorities of transitions; those that have left are passed over.
    fn set_priorities(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        priorities: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let rows = ArrayMemory::of(rows)?.expect(ElementKind::U64)?;
        let priorities = ArrayMemory::of(priorities)?.expect(ElementKind::F32)?;
        py.detach(|| {
            // SAFETY: the kinds were checked; who changes the arrays meanwhile changes the priorities.
            let (rows, priorities) = unsafe { (rows.items::<u64>(), priorities.items::<f32>()) };
            if rows.len() != priorities.len() {
                return Err(value_error(format!(
                    "{} transitions have {} priorities",
                    rows.len(),
                    priorities.len()
                )));
            }
            self.store
                .write()?
                .set_priorities(rows, priorities)
                .map_err(buffer_error)
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| Ok(self.store.read()?.len()))
    }

    /// Transitions that were dropped for memory since this was made or loaded, and why the disk could not take them, where it was tried.
    fn dropped(&self, py: Python<'_>) -> PyResult<(u64, Option<String>)> {
        py.detach(|| {
            let store = self.store.read()?;
            let failure = store.spill_failure().map(|error| sentence(error));
            Ok((store.dropped_here(), failure))
        })
    }

    /// The numbers of the oldest transition and of the one that comes next.
    fn rows(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        py.detach(|| {
            let rows = self.store.read()?.rows();
            Ok((rows.start, rows.end))
        })
    }

    fn capacity(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| Ok(self.store.read()?.capacity()))
    }

    fn projected_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| Ok(self.store.read()?.projected_bytes()))
    }

    /// Before the process is forked: waits for calls of other threads and holds up further ones.
    fn begin_fork(&self, py: Python<'_>) {
        py.detach(|| self.store.begin_fork());
    }

    /// After the fork, in the parent and in the child.
    fn end_fork(&self) {
        self.store.end_fork();
    }

    /// Drops everything.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.store.write()?.clear().map_err(buffer_error))
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| Ok::<_, PyErr>(self.store.read()?.statistics()))?;
        let dict = PyDict::new(py);
        dict.set_item("transitions", found.transitions)?;
        dict.set_item("capacity", found.capacity)?;
        dict.set_item("added", found.added)?;
        dict.set_item("dropped_for_memory", found.dropped_for_memory)?;
        dict.set_item("frames", found.frames)?;
        dict.set_item("raw_bytes", found.raw_bytes)?;
        dict.set_item("memory_bytes", found.memory_bytes)?;
        dict.set_item("disk_bytes", found.disk_bytes)?;
        dict.set_item("projected_bytes", found.projected_bytes)?;
        dict.set_item("cache_hits", found.cache.hits)?;
        dict.set_item("cache_bytes", found.cache.used_bytes)?;
        dict.set_item("cache_misses", found.cache.misses)?;
        let columns = PyDict::new(py);
        for column in found.columns {
            let entry = PyDict::new(py);
            entry.set_item("codec", column.codec)?;
            entry.set_item("raw_bytes", column.raw_bytes)?;
            entry.set_item("stored_bytes", column.stored_bytes)?;
            let trial = PyDict::new(py);
            for (codec, share) in column.trial {
                trial.set_item(codec, share)?;
            }
            entry.set_item("trial", trial)?;
            columns.set_item(column.name, entry)?;
        }
        dict.set_item("columns", columns)?;
        Ok(dict)
    }

    fn save(&self, py: Python<'_>, path: PathBuf, note: &str) -> PyResult<()> {
        py.detach(|| self.store.read()?.save(&path, note).map_err(buffer_error))
    }

    /// A saved buffer and its note.
    #[staticmethod]
    #[pyo3(signature = (path, max_bytes=None, spill_folder=None, seed=None))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        max_bytes: Option<usize>,
        spill_folder: Option<PathBuf>,
        seed: Option<u64>,
    ) -> PyResult<(PyReplayStore, String)> {
        let options = LoadOptions {
            max_bytes,
            spill_folder,
        };
        let (store, note) = py
            .detach(|| ReplayStore::load(&path, &options))
            .map_err(buffer_error)?;
        Ok((PyReplayStore::holding(store, seed), note))
    }

    /// What `save` writes, as bytes.
    fn to_bytes<'py>(&self, py: Python<'py>, note: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            let mut bytes = Vec::new();
            self.store.read()?.write(&mut bytes, note)?;
            Ok::<_, PyErr>(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The reverse of `to_bytes`.
    #[staticmethod]
    #[pyo3(signature = (data, spill_folder=None, seed=None))]
    fn from_bytes(
        py: Python<'_>,
        data: &[u8],
        spill_folder: Option<PathBuf>,
        seed: Option<u64>,
    ) -> PyResult<(PyReplayStore, String)> {
        let options = LoadOptions {
            // One that is not there, or on another machine, is done without.
            spill_folder: spill_folder.filter(|folder| check_spill_folder(folder).is_ok()),
            ..LoadOptions::default()
        };
        let read = py.detach(|| ReplayStore::read_from(data, data.len() as u64, &options));
        let (store, note) =
            read.map_err(|reason| value_error(format!("cannot read the buffer: {reason}")))?;
        Ok((PyReplayStore::holding(store, seed), note))
    }
}

impl PyReplayStore {
    fn holding(store: ReplayStore, seed: Option<u64>) -> PyReplayStore {
        PyReplayStore {
            store: ForkLock::new(store),
            random: Mutex::new(seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed)),
        }
    }

    /// Each call draws with a generator of its own, so that threads do not wait for each other's batches.
    fn draw(
        &self,
        store: &ReplayStore,
        rows: &mut [u64],
        beta: Option<f32>,
        weights: Option<&mut [f32]>,
    ) -> PyResult<()> {
        let mut random = self
            .random
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fork();
        let Some(beta) = beta else {
            let drawn = store
                .draw_uniform(rows.len(), &mut random)
                .map_err(buffer_error)?;
            rows.copy_from_slice(&drawn);
            return Ok(());
        };
        let (drawn, weighed) = store
            .draw_prioritized(rows.len(), beta, &mut random)
            .map_err(buffer_error)?;
        rows.copy_from_slice(&drawn);
        match weights {
            Some(weights) if weights.len() == weighed.len() => weights.copy_from_slice(&weighed),
            Some(_) => return Err(value_error("as many weights as rows are expected")),
            None => {}
        }
        Ok(())
    }
}
