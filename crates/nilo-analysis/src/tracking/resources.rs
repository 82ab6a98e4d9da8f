//! What can run out, and how its readings come out of the recorded tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nilo_sample::limit::is_cgroup_within;
use nilo_sample::table::is_absent;
use nilo_sample::{
    Limit, LimitCounts, LimitSource, ProcessId, RecordedTable, RunDescription, RunMode, Subject,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::own_cgroups::OwnCgroups;
use crate::shared_mappings::{DevShm, SharedCharge};
use nilo_forecast::{Cause, Forecast, Reading};

/// Something with a limit.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Resource {
    /// The job against the limit of a cgroup.
    Job,
    /// The machine's memory.
    Host,
    /// The address space of the process that comes nearest to its `RLIMIT_AS`.
    AddressSpace,
    /// The private writable addresses of the process that comes nearest to its `RLIMIT_DATA`.
    DataSize,
    /// A cgroup against its limit, where no job is watched in it, or where it holds only one of several.
    Cgroup {
        /// Its path below the mount.
        path: String,
    },
    /// One process, by its resident memory.
    Process {
        /// Which.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// Memory below `/dev/shm`.
    SharedMemory,
    /// A GPU's memory, whoever uses it.
    Gpu {
        /// Its index on this machine.
        index: u32,
    },
    /// The memory of a GPU where nothing tells which of several it is.
    UnnamedGpu,
    /// A GPU's memory as PyTorch's allocator in one process has it.
    Torch {
        /// The process's stream, such as `python-4711`.
        writer: String,
        /// The device's index in that process.
        device: u32,
    },
    /// A memory out of a file that another tool wrote.
    Track {
        /// Its name there, such as `gpu 0 memory.used [MiB]`.
        name: String,
    },
}

impl Resource {
    /// What runs out at a limit of a process's own that counts this.
    pub(crate) fn of_own_limit(counts: LimitCounts) -> Option<Resource> {
        match counts {
            LimitCounts::Memory => None,
            LimitCounts::AddressSpace => Some(Resource::AddressSpace),
            LimitCounts::DataSize => Some(Resource::DataSize),
        }
    }

    /// Whether it is what a process has mapped, touched or not.
    pub(crate) fn is_of_addresses(&self) -> bool {
        matches!(self, Resource::AddressSpace | Resource::DataSize)
    }

    /// Whether the recorder writes a row of it only when something changed.
    pub(crate) fn is_written_on_change(&self) -> bool {
        matches!(
            self,
            Resource::Host
                | Resource::AddressSpace
                | Resource::DataSize
                | Resource::SharedMemory
                | Resource::Cgroup { .. }
                | Resource::Gpu { .. }
        )
    }

    /// Whose growth a forecast of it tells of: what leaks into the machine's memory is the job, and what fills a cgroup may be others.
    pub(crate) fn grower(&self, forecast: &Forecast, reading: &Reading) -> String {
        match (self, forecast.cause, reading.own_bytes) {
            (Resource::Host, Some(Cause::Leak), Some(_)) => Resource::Job.to_string(),
            (Resource::Job, Some(Cause::Leak), _) => Resource::Job.to_string(),
            (Resource::Job, ..) if reading.is_shared => "the cgroup".to_owned(),
            _ => self.to_string(),
        }
    }

    /// Whether it lies on a GPU.
    pub fn is_gpu(&self) -> bool {
        match self {
            Resource::Job
            | Resource::Host
            | Resource::AddressSpace
            | Resource::DataSize
            | Resource::Cgroup { .. }
            | Resource::Process { .. }
            | Resource::SharedMemory => false,
            Resource::Gpu { .. } | Resource::UnnamedGpu | Resource::Torch { .. } => true,
            Resource::Track { name } => {
                let name = name.to_ascii_lowercase();
                let words = ["gpu", "cuda", "vram", "nvml", "hbm", "reserved"];
                words.iter().any(|word| name.contains(word))
            }
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Job => write!(f, "job memory"),
            Resource::Host => write!(f, "host memory"),
            Resource::AddressSpace => write!(f, "{}", LimitCounts::AddressSpace),
            Resource::DataSize => write!(f, "{}", LimitCounts::DataSize),
            Resource::Cgroup { path } => write!(f, "cgroup {path}"),
            Resource::Process { pid, name } => write!(f, "{name} (PID {pid})"),
            Resource::SharedMemory => write!(f, "/dev/shm"),
            Resource::Gpu { index } => write!(f, "GPU {index}"),
            Resource::UnnamedGpu => write!(f, "a GPU"),
            Resource::Torch { writer, device } => write!(f, "PyTorch on GPU {device} ({writer})"),
            Resource::Track { name } => write!(f, "{name}"),
        }
    }
}

/// A row's values by name, absent ones left out.
pub(crate) struct RowValues<'a>(pub(crate) &'a RecordedTable, pub(crate) usize);

impl RowValues<'_> {
    pub(crate) fn get(&self, column: &str) -> Option<f64> {
        let values = self.0.columns.get(self.0.spec.column(column)?)?;
        let value = *values.get(self.1)?;
        (!is_absent(value)).then_some(value)
    }

    fn step(&self) -> Option<i64> {
        let step = *self.0.steps.get(self.1)?;
        (step != nilo_sample::NO_STEP).then_some(step)
    }
}

/// What was read last, of all that a reading is put together from.
#[derive(Debug, Clone, Default)]
pub(crate) struct LatestReadings {
    /// The limit in force.
    pub(crate) limit: Option<Limit>,
    /// A limit given by hand, against which the job's memory is held as if no other were there.
    pub(crate) given_limit_bytes: Option<f64>,
    /// What a program allows itself: its process tree is held against this alone, where the limit in force is larger or there is none.
    pub(crate) budget_bytes: Option<f64>,
    /// The newest level of each cgroup.
    cgroup_levels: BTreeMap<String, CgroupLevel>,
    /// Cgroups in which there was a process of the job, and none is any more.
    left_cgroups: BTreeSet<String>,
    own_cgroups: OwnCgroups,
    dev_shm: DevShm,
    tree_bytes: f64,
    tree_nanos: u64,
    tree_swap_bytes: f64,
    root_pid: Option<u32>,
    /// What the driver keeps of each GPU for itself: nobody can have it.
    gpu_reserved_bytes: BTreeMap<u32, u64>,
    /// No job is watched: the limiting cgroup speaks for itself.
    pub(crate) of_machine: bool,
    /// Several processes were named, and each may be in a cgroup of its own.
    several_roots: bool,
    root_rss_bytes: Option<f64>,
    /// What each process that lives has mapped.
    mapped: BTreeMap<ProcessId, MappedBytes>,
    /// What the root does not hold is its workers'.
    pub(crate) has_workers: bool,
    step: Option<i64>,
    pressure: Option<(u64, f64)>,
    pressure_full: Option<f64>,
}

/// What a process has mapped, touched or not.
#[derive(Debug, Clone, Copy, Default)]
struct MappedBytes {
    address_space: Option<f64>,
    data_size: Option<f64>,
}

impl MappedBytes {
    /// What counts against a limit of its own.
    fn counted(&self, counts: LimitCounts) -> Option<f64> {
        match counts {
            LimitCounts::Memory => None,
            LimitCounts::AddressSpace => self.address_space,
            LimitCounts::DataSize => self.data_size,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct CgroupLevel {
    working_set: f64,
    reclaimable: f64,
    /// Files in memory, which stay charged until they are deleted, and memory that processes share.
    tmpfs: Option<f64>,
    parts: SharedCharge,
    is_shared: bool,
}

impl CgroupLevel {
    /// What cannot be given back.
    fn needed(&self) -> f64 {
        self.working_set - self.reclaimable
    }
}

impl LatestReadings {
    pub(crate) fn new(description: &RunDescription) -> LatestReadings {
        LatestReadings {
            limit: description.limit.clone(),
            root_pid: description.root_pids.first().copied(),
            of_machine: description.mode == RunMode::Machine,
            several_roots: description.root_pids.len() > 1,
            ..LatestReadings::default()
        }
    }

    /// Of a process tree that no run describes.
    pub(crate) fn of_process(pid: u32, limit: Option<&Limit>) -> LatestReadings {
        LatestReadings {
            limit: limit.cloned(),
            root_pid: Some(pid),
            ..LatestReadings::default()
        }
    }

    /// A GPU is there, and its driver keeps so much of it.
    pub(crate) fn add_gpu(&mut self, index: u32, reserved_bytes: u64) {
        self.gpu_reserved_bytes.insert(index, reserved_bytes);
    }

    /// The readings that a row completes, handed to `each`. Gives the job's level where a row shows it between two readings:
    /// its cgroup is also read when the kernel is about to kill.
    pub(crate) fn take(
        &mut self,
        time_nanos: u64,
        row: &RowValues<'_>,
        mut each: impl FnMut(Resource, Reading),
    ) -> Option<Reading> {
        if let Subject::Cgroup { path } = &row.0.spec.subject {
            let tree_bytes = self.tree_bytes;
            self.own_cgroups
                .take(path, row, tree_bytes, &mut self.dev_shm);
        }
        match &row.0.spec.subject {
            Subject::Tree => {
                let memory = row.get("memory_bytes")?;
                self.tree_bytes = memory;
                self.tree_nanos = time_nanos;
                self.tree_swap_bytes = row.get("swap_bytes").unwrap_or(0.0);
                each(Resource::Job, self.job(time_nanos));
            }
            Subject::Process(id) => {
                if Some(id.pid) == self.root_pid {
                    self.root_rss_bytes = row.get("rss_bytes");
                }
                if let Some(virtual_bytes) = row.get("virtual_bytes") {
                    self.mapped.entry(*id).or_default().address_space = Some(virtual_bytes);
                    self.own_limit(time_nanos, *id, LimitCounts::AddressSpace, each);
                }
            }
            Subject::ProcessDetail(id) => {
                if let Some(data_bytes) = row.get("data_bytes") {
                    self.mapped.entry(*id).or_default().data_size = Some(data_bytes);
                    self.own_limit(time_nanos, *id, LimitCounts::DataSize, each);
                }
            }
            Subject::Cgroup { path } => {
                let mut level = cgroup_level(row)?;
                let before = self.cgroup_levels.get(path);
                level.parts = before.map_or_else(SharedCharge::default, |it| it.parts);
                if let (Some(anon), Some(shmem)) = (row.get("anon_bytes"), level.tmpfs) {
                    let tree_bytes = self.tree_bytes;
                    (level.parts).take(anon, shmem, tree_bytes, &mut self.dev_shm);
                }
                self.cgroup_levels.insert(path.clone(), level);
                if self.is_limiting(path) {
                    if self.of_machine {
                        let limit_bytes = self.limit.as_ref().map(|limit| limit.bytes as f64);
                        let reading = self.cgroup(time_nanos, level, limit_bytes);
                        each(Resource::Cgroup { path: path.clone() }, reading);
                    }
                    return Some(self.job(time_nanos));
                }
                if let Some(limit) = row.get("limit_bytes")
                    && self.is_limit_of_some(path, limit, row.get("holds_job"))
                {
                    let reading = self.cgroup(time_nanos, level, Some(limit));
                    each(Resource::Cgroup { path: path.clone() }, reading);
                }
            }
            Subject::Host => self.host(time_nanos, row, each),
            Subject::Gpu { index } => {
                if let Some(used_bytes) = row.get("used_bytes") {
                    let reserved = self.gpu_reserved_bytes.get(index);
                    let reserved = reserved.map_or(0.0, |bytes| *bytes as f64);
                    let reading = Reading {
                        time_nanos,
                        used_bytes,
                        limit_bytes: row.get("total_bytes").map(|total| total - reserved),
                        own_bytes: row.get("job_bytes"),
                        step: self.step,
                        ..Reading::default()
                    };
                    each(Resource::Gpu { index: *index }, reading);
                }
            }
            Subject::TorchMemory { device, .. } => {
                self.step = row.step().or(self.step);
                if let Some(reading) = torch(time_nanos, row) {
                    let writer = row.0.program();
                    each(
                        Resource::Torch {
                            writer,
                            device: *device,
                        },
                        reading,
                    );
                }
            }
            Subject::Metrics { .. } | Subject::Phase { .. } | Subject::Throughput { .. } => {
                self.step = row.step().or(self.step);
            }
            _ => {}
        }
        None
    }

    fn is_limiting(&self, path: &str) -> bool {
        self.limiting_path() == Some(path)
    }

    /// The cgroup that sets the job's limit.
    pub(crate) fn limiting_path(&self) -> Option<&str> {
        match &self.limit.as_ref()?.source {
            LimitSource::Cgroup { path, .. } => Some(path),
            LimitSource::Host | LimitSource::Rlimit { .. } => None,
        }
    }

    /// Whether this limit holds for some processes of the job, and the job's own limit does not say it already: each is held against its own.
    fn is_limit_of_some(&mut self, path: &str, limit_bytes: f64, holds_job: Option<f64>) -> bool {
        let is_known = self.left_cgroups.contains(path);
        match holds_job {
            Some(0.0) => drop(self.left_cgroups.insert(path.to_owned())),
            _ => drop(self.left_cgroups.remove(path)),
        }
        let is_held = match holds_job {
            // The row that tells that the last process has left tells what is left behind, too.
            Some(0.0) => !is_known,
            Some(_) => true,
            // Nothing was written about it.
            None => self.several_roots,
        };
        let Some(limit) = self.limit.as_ref().filter(|_| is_held && !self.of_machine) else {
            return is_held && !self.of_machine;
        };
        match &limit.source {
            // On the way from a cgroup to the root the smallest limit counts.
            LimitSource::Cgroup { path: other, .. } => {
                let is_on_one_way = is_cgroup_within(path, other) || is_cgroup_within(other, path);
                limit_bytes < limit.bytes as f64 || !is_on_one_way
            }
            // A limit of addresses says nothing of memory.
            LimitSource::Rlimit { .. } => true,
            LimitSource::Host => limit_bytes < limit.bytes as f64,
        }
    }

    /// A process has ended.
    pub(crate) fn forget_process(&mut self, id: ProcessId) {
        self.mapped.remove(&id);
    }

    /// What a process has mapped against a limit of its own, where no other is nearer to it. One that is above it is not held by it.
    fn own_limit(
        &self,
        time_nanos: u64,
        id: ProcessId,
        counts: LimitCounts,
        mut each: impl FnMut(Resource, Reading),
    ) {
        let in_force = self.limit.as_ref().filter(|limit| {
            let is_counted = limit.source.counts() == counts;
            is_counted && self.given_limit_bytes.is_none()
        });
        let (Some(limit), Some(resource)) = (in_force, Resource::of_own_limit(counts)) else {
            return;
        };
        let limit_bytes = limit.bytes as f64;
        let mapped = self.mapped.iter();
        let held = mapped.filter_map(|(id, mapped)| Some((id, mapped.counted(counts)?)));
        let held = held.filter(|(_, bytes)| *bytes <= limit_bytes);
        let nearest = held.max_by(|one, other| one.1.total_cmp(&other.1));
        if let Some((_, used_bytes)) = nearest.filter(|(nearest, _)| **nearest == id) {
            let reading = Reading {
                time_nanos,
                used_bytes,
                limit_bytes: Some(limit_bytes),
                step: self.step,
                ..Reading::default()
            };
            each(resource, reading);
        }
    }

    /// A cgroup against its limit.
    fn cgroup(&self, time_nanos: u64, level: CgroupLevel, limit_bytes: Option<f64>) -> Reading {
        Reading {
            time_nanos,
            used_bytes: level.working_set,
            reclaimable_bytes: level.reclaimable,
            tmpfs_bytes: level.tmpfs,
            limit_bytes,
            step: self.step,
            ..Reading::default()
        }
    }

    /// Whether a cgroup limits the memory of the job, before a limit was given by hand.
    pub(crate) fn has_own_limit(&self) -> bool {
        let limit = self.limit.as_ref();
        limit.is_some_and(|limit| matches!(limit.source, LimitSource::Cgroup { .. }))
    }

    /// The job against the limit of a cgroup. Where only the machine limits it, it has none here: the machine's reading says when that ends.
    /// A limit of addresses has a reading of its own.
    fn job(&self, time_nanos: u64) -> Reading {
        let limit = self.limit.as_ref().filter(|_| self.has_own_limit());
        let limit_bytes = match self.budget_bytes {
            Some(_) => self.budget_below_limit(),
            None => {
                let own = limit.map(|limit| limit.bytes as f64);
                self.given_limit_bytes.or(own)
            }
        };
        let level = self
            .limiting_path()
            .filter(|_| self.given_limit_bytes.is_none() && self.budget_bytes.is_none());
        let cgroup = level.and_then(|path| self.cgroup_levels.get(path));
        let (used_bytes, reclaimable_bytes) = match cgroup {
            Some(level) => (level.working_set, level.reclaimable),
            None => (self.tree_bytes, 0.0),
        };
        let (shared_bytes, charge) = match cgroup {
            Some(level) => (level.tmpfs, Some(level.parts)),
            None => (
                self.own_cgroups.mapped_tmpfs_bytes(self.tree_bytes),
                self.own_cgroups.charge(),
            ),
        };
        let without_file_bytes =
            charge.map(|charge| charge.without_file_bytes(self.tree_bytes, &self.dev_shm));
        let children = self
            .root_rss_bytes
            .filter(|_| self.has_workers)
            .map(|root| (self.tree_bytes - root).max(0.0));
        Reading {
            time_nanos,
            used_bytes,
            reclaimable_bytes,
            limit_bytes,
            tmpfs_bytes: shared_bytes
                .map(|shared| (shared - without_file_bytes.unwrap_or(0.0)).max(0.0)),
            shared_mapping_bytes: without_file_bytes,
            children_bytes: children,
            // The tree counts file pages too that the kernel can drop or charges elsewhere, and it is read before its cgroup.
            // The cgroup is also read between two ticks, when the kernel gives notice: what the job held before says nothing of that moment.
            job_bytes: cgroup
                .filter(|_| self.tree_nanos == time_nanos)
                .map(|level| self.tree_bytes.min(level.needed())),
            is_shared: cgroup.is_some_and(|level| level.is_shared),
            step: self.step,
            ..Reading::default()
        }
    }

    fn budget_below_limit(&self) -> Option<f64> {
        let limit = self.limit.as_ref().filter(|limit| limit.is_of_memory());
        let in_force = limit.map(|limit| limit.bytes as f64);
        self.budget_bytes
            .filter(|budget| in_force.is_none_or(|limit| *budget < limit))
    }

    fn host(
        &mut self,
        time_nanos: u64,
        row: &RowValues<'_>,
        mut each: impl FnMut(Resource, Reading),
    ) {
        if let (Some(total), Some(full)) = (row.get("total_bytes"), row.get("available_bytes")) {
            if let Some(stalled) = row.get("pressure_full_nanos") {
                if let Some((before, stalled_before)) = self.pressure {
                    let passed = time_nanos.saturating_sub(before).max(1) as f64;
                    self.pressure_full =
                        Some(((stalled - stalled_before) / passed).clamp(0.0, 1.0));
                }
                self.pressure = Some((time_nanos, stalled));
            }
            let reading = Reading {
                time_nanos,
                used_bytes: (total - full).max(0.0),
                limit_bytes: Some(total),
                own_bytes: (self.tree_bytes > 0.0)
                    .then_some(self.tree_bytes + self.tree_swap_bytes),
                swap_used_bytes: row.get("swap_used_bytes"),
                swap_total_bytes: row.get("swap_total_bytes"),
                pressure_full: self.pressure_full,
                step: self.step,
                ..Reading::default()
            };
            each(Resource::Host, reading);
        }
        if let (Some(total), Some(used)) = (row.get("shm_total_bytes"), row.get("shm_used_bytes")) {
            self.dev_shm.take(used);
            // Everybody on the machine writes there; another tmpfs is not in it.
            let own = self.own_cgroups.tmpfs_bytes().filter(|_| !self.of_machine);
            let reading = Reading {
                time_nanos,
                used_bytes: used,
                limit_bytes: Some(total),
                own_bytes: own.map(|own| own.min(used)),
                step: self.step,
                ..Reading::default()
            };
            each(Resource::SharedMemory, reading);
        }
    }
}

/// A cgroup's level and what of it the kernel can drop: file pages, but not shared memory, which it counts among them.
fn cgroup_level(row: &RowValues<'_>) -> Option<CgroupLevel> {
    let usage = row.get("usage_bytes")?;
    let working_set = row.get("working_set_bytes").unwrap_or(usage);
    let files = row.get("file_bytes").unwrap_or(0.0) - row.get("shmem_bytes").unwrap_or(0.0);
    let needed = (usage - files.max(0.0)).max(0.0);
    Some(CgroupLevel {
        working_set,
        reclaimable: (working_set - needed).max(0.0),
        tmpfs: row.get("shmem_bytes"),
        parts: SharedCharge::default(),
        is_shared: row.get("owned") == Some(0.0),
    })
}

/// PyTorch may take what it has and what is free on the device, and no more than the program allows it.
fn torch(time_nanos: u64, row: &RowValues<'_>) -> Option<Reading> {
    let reserved = row.get("reserved_bytes")?;
    let free = row.get("device_free_bytes");
    Some(Reading {
        time_nanos,
        used_bytes: reserved,
        held_bytes: row.get("allocated_bytes"),
        limit_bytes: free
            .map(|free| reserved + free)
            .into_iter()
            .chain(row.get("allowed_bytes"))
            .reduce(f64::min),
        step: row.step(),
        ..Reading::default()
    })
}
