//! Reads this process tree, and hands what was read to every judge.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nilo_analysis::tracking::{Resource, ResourceTracker, ResourceVerdict};
use nilo_follow::{FollowSettings, Judge};
use nilo_recorder::{OwnMemory, OwnReading};
use nilo_sample::LimitSource;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::device::DeviceReading;
use crate::errors::os_error;
use crate::process_local::ProcessLocal;

/// What limits a program that limits itself.
pub(crate) const OWN_BUDGET: &str = "the program's own budget";

type IsWanted = Box<dyn Fn(&Resource) -> bool + Send>;

/// A judge with what it needs to know of GPUs, which are not in the rows.
pub(crate) struct OwnJudge {
    pub(crate) judge: Judge<IsWanted>,
    /// Whether it holds the program against its own budget, and nothing else.
    is_of_budget: bool,
    gpu_names: BTreeMap<u32, String>,
}

/// A judge that the monitor feeds and somebody asks.
pub(crate) struct SharedJudge {
    started_nanos: u64,
    judge: ProcessLocal<Arc<Mutex<OwnJudge>>>,
}

/// Reads the memory of this process tree, once for all who watch it.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct MemoryMonitor {
    state: ProcessLocal<Mutex<MonitorState>>,
}

struct MonitorState {
    memory: OwnMemory,
    /// What is known so far, for judges that come later.
    tracker: ResourceTracker,
    judges: Vec<Weak<Mutex<OwnJudge>>>,
}

#[pymethods]
impl MemoryMonitor {
    #[new]
    fn new() -> PyResult<MemoryMonitor> {
        let memory = OwnMemory::new().map_err(os_error)?;
        let tracker = ResourceTracker::of_process(std::process::id(), memory.limit());
        Ok(MemoryMonitor {
            state: ProcessLocal::new(Mutex::new(MonitorState {
                memory,
                tracker,
                judges: Vec::new(),
            })),
        })
    }

    /// A reading, now, which every watch takes in: `memory_bytes`, `peak_bytes`, `children_bytes`, `processes`, `limit_bytes`, `limit_source`,
    /// `available_bytes`; None where a figure is not known. `step` is the step that training has come to.
    #[pyo3(signature = (step=None))]
    fn read<'py>(&self, py: Python<'py>, step: Option<i64>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.state.get()?;
        let reading = py.detach(|| locked(state).read(step));
        let dict = PyDict::new(py);
        dict.set_item("memory_bytes", reading.memory_bytes)?;
        dict.set_item("peak_bytes", reading.peak_bytes)?;
        dict.set_item("children_bytes", reading.children_bytes)?;
        dict.set_item("processes", reading.processes)?;
        let limit = reading.limit.as_ref();
        dict.set_item("limit_bytes", limit.map(|limit| limit.bytes))?;
        dict.set_item("limit_source", limit.map(|limit| limit.source.to_string()))?;
        dict.set_item("available_bytes", reading.available_bytes)?;
        Ok(dict)
    }
}

impl MemoryMonitor {
    /// A judge of what is read from here on. `prepare` makes its tracker of what is known so far.
    pub(crate) fn judge(
        &self,
        py: Python<'_>,
        wants_host: bool,
        settings: FollowSettings<()>,
        prepare: impl FnOnce(&ResourceTracker) -> ResourceTracker + Send,
    ) -> PyResult<SharedJudge> {
        let is_wanted: IsWanted = Box::new(move |resource| match resource {
            Resource::Job | Resource::Host | Resource::AddressSpace | Resource::DataSize => {
                wants_host
            }
            Resource::Gpu { .. } | Resource::Torch { .. } => true,
            _ => false,
        });
        self.add_judge(py, is_wanted, false, settings, prepare)
    }

    /// A judge of this program's memory against what it allows itself, where that is smaller than the limit in force.
    pub(crate) fn budget_judge(
        &self,
        py: Python<'_>,
        settings: FollowSettings<()>,
        budget_bytes: u64,
    ) -> PyResult<SharedJudge> {
        let is_wanted: IsWanted = Box::new(|resource| *resource == Resource::Job);
        self.add_judge(py, is_wanted, true, settings, |known| {
            known.against_budget(budget_bytes)
        })
    }

    fn add_judge(
        &self,
        py: Python<'_>,
        is_wanted: IsWanted,
        is_of_budget: bool,
        settings: FollowSettings<()>,
        prepare: impl FnOnce(&ResourceTracker) -> ResourceTracker + Send,
    ) -> PyResult<SharedJudge> {
        let settings = FollowSettings {
            rules: settings.rules,
            leaks: settings.leaks,
            idle: settings.idle,
            is_wanted,
        };
        let state = self.state.get()?;
        let (started_nanos, judge) = py.detach(|| {
            let mut state = locked(state);
            let judge = Arc::new(Mutex::new(OwnJudge {
                judge: Judge::new(prepare(&state.tracker), settings),
                is_of_budget,
                gpu_names: BTreeMap::new(),
            }));
            state.judges.push(Arc::downgrade(&judge));
            (state.memory.started_nanos(), judge)
        });
        Ok(SharedJudge {
            started_nanos,
            judge: ProcessLocal::new(judge),
        })
    }
}

impl MonitorState {
    fn read(&mut self, step: Option<i64>) -> OwnReading {
        let reading = self.memory.read(step);
        let update = self.memory.take_rows();
        self.tracker.take(&update.tables, &update.events);
        self.judges.retain(|judge| {
            let judge = judge.upgrade();
            judge
                .map(|judge| locked(&judge).judge.take(&update))
                .is_some()
        });
        reading
    }
}

impl SharedJudge {
    /// Takes in what was read of GPUs, then asks.
    pub(crate) fn ask<T: Send>(
        &self,
        py: Python<'_>,
        readings: &[DeviceReading],
        step: Option<i64>,
        question: impl FnOnce(&mut OwnJudge) -> T + Send,
    ) -> PyResult<T> {
        let judge = self.judge.get()?;
        let now = nilo_runfile::monotonic_nanos().saturating_sub(self.started_nanos);
        Ok(py.detach(|| {
            let mut judge = locked(judge);
            for reading in readings {
                judge.take(reading, now, step);
            }
            question(&mut judge)
        }))
    }
}

impl OwnJudge {
    fn take(&mut self, reading: &DeviceReading, now_nanos: u64, step: Option<i64>) {
        let Some(gpu) = reading.program_gpu() else {
            return;
        };
        self.gpu_names.insert(gpu.index, reading.source.clone());
        for (resource, reading) in gpu.readings(now_nanos, step) {
            self.judge.observe(resource, reading);
        }
    }

    /// A resource's name among all that are judged: the same memory is held against a limit and a budget.
    pub(crate) fn name_of(&self, resource: &str) -> String {
        match self.is_of_budget {
            true => format!("{resource} within {OWN_BUDGET}"),
            false => resource.to_owned(),
        }
    }

    /// Whether it has something to say of it: a budget that is larger than the limit in force is none.
    pub(crate) fn has_limit(&self, verdict: &ResourceVerdict) -> bool {
        !self.is_of_budget || verdict.reading.limit().is_some()
    }

    /// What limits a resource, in words.
    pub(crate) fn limit_source(&self, verdict: &ResourceVerdict) -> String {
        if self.is_of_budget {
            return OWN_BUDGET.to_owned();
        }
        let name = match &verdict.resource {
            Resource::Gpu { index } => self.gpu_names.get(index).cloned(),
            Resource::Torch { device, .. } => self.gpu_names.get(device).cloned(),
            Resource::Host => Some(LimitSource::Host.to_string()),
            _ => {
                let limit = self.judge.tracker().limit();
                limit.map(|limit| limit.source.to_string())
            }
        };
        name.unwrap_or_else(|| "no limit known".to_owned())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
