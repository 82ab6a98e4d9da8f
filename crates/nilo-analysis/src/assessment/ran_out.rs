//! What ran out of memory before the recording ended: nobody has to forecast that.
//!
//! The kernel killed, or the program died of an exception that says so. `nilo show`, `runs`, `oom`, `leak`, `plot` and Python all ask [`ran_out`].

use std::fmt;

use nilo_sample::units::to_secs;
use nilo_sample::words::{bytes_in_words, duration_in_words};
use nilo_sample::{
    Certainty, Ending, Event, GpuAllocationFailure, Limit, LimitSource, Recording, RunStatus,
    Subject, UnhandledException,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address_limit::{NearestProcess, largest_rise, nearest_process};
use crate::ending::{NEAR_LIMIT, limit_in_force, name_of};
use crate::exceptions::failed_allocation;
use crate::gpu_oom::{GpuOomCause, gpu_oom_cause};
use crate::held_of_limit::{held_of_cgroup, held_of_limit};
use crate::limit_use::LimitUse;
use crate::summary::peak_memory_bytes;
use crate::tracking::{Resource, ResourceTracker, ResourceVerdict};
use nilo_forecast::Growth;
use nilo_forecast::words::growth_until_the_end;

/// An exception's message is evidence up to this length; the exception itself has the rest.
const EVIDENCE_CHARS: usize = 200;

/// What an allocation that fails ends a program with, where it does not exit by itself: `abort`, or a pointer that nobody checked.
const FAILED_ALLOCATION_SIGNALS: [i32; 2] = [6, 11];
/// From this share of a limit on, one more rise like the last moments' may have been what was refused.
const WITHIN_A_RISE: f64 = 0.8;
/// How long before the end a level still tells of it.
const LAST_MOMENTS_NANOS: u64 = 1_000_000_000;

/// A resource that ran out.
#[derive(Debug, Clone, PartialEq)]
pub struct RanOut {
    /// Which.
    pub resource: Resource,
    /// How that showed.
    pub kind: RanOutKind,
    /// When, in nanoseconds since the run began; not known where the recorder died before it.
    pub time_nanos: Option<u64>,
    /// The process that was killed or failed.
    pub pid: Option<u32>,
    /// Its name.
    pub name: Option<String>,
    /// The limit that was reached.
    pub limit_bytes: Option<u64>,
    /// A limit of the process's own, where that refused the memory.
    pub refused_by: Option<LimitSource>,
    /// The most that was held; of a cgroup's limit, what was charged to the cgroup; of a limit of addresses, what one process had mapped.
    pub peak_bytes: Option<u64>,
    /// What was asked for and held, where it is a GPU's memory.
    pub gpu: Option<GpuAllocationFailure>,
    /// Why, where it is a GPU's memory and that can be told.
    pub gpu_cause: Option<GpuOomCause>,
    /// What filled the limit, where it is a cgroup's.
    pub limit_use: Option<LimitUse>,
    /// Whether something else may be the cause.
    pub certainty: Certainty,
    /// The growth that led there.
    pub growth: Option<Growth>,
    /// What this rests on, one sentence each.
    pub evidence: Vec<String>,
}

/// How running out of memory showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RanOutKind {
    /// The kernel killed a process.
    OomKill,
    /// An allocation on a GPU failed, and nobody caught the exception.
    GpuAllocation,
    /// The system refused memory, and nobody caught the exception.
    HostAllocation,
}

/// What the run ended of, where that is memory. The tracker remembers it, so that its verdicts know what their growth led to.
pub fn ran_out(
    recording: &Recording,
    ending: &Ending,
    tracker: &mut ResourceTracker,
) -> Option<RanOut> {
    let mut ran_out = ran_out_without_growth(recording, ending)?;
    tracker.end_with(&ran_out);
    let verdicts = tracker.verdicts(None);
    let led_here = |verdict: &&ResourceVerdict| verdict.led_to_end;
    // The resource that ran out knows best; where only the machine limits a job, the growth is told of the job.
    let own = verdicts.iter().filter(led_here).filter_map(|verdict| {
        let is_own = verdict.resource == ran_out.resource;
        Some((is_own, verdict.growth?))
    });
    ran_out.growth = own
        .max_by_key(|(is_own, _)| *is_own)
        .map(|(_, growth)| growth);
    let growth = ran_out.growth.as_ref();
    let failure = ran_out.gpu.as_ref();
    ran_out.gpu_cause = failure.and_then(|failure| gpu_oom_cause(recording, failure, growth));
    Some(ran_out)
}

/// The same without the growth that led there, for whoever has not followed the resources.
pub fn ran_out_without_growth(recording: &Recording, ending: &Ending) -> Option<RanOut> {
    of_kill(recording, ending)
        .or_else(|| of_exception(recording, ending))
        .or_else(|| of_refusal(recording, ending))
}

fn of_kill(recording: &Recording, ending: &Ending) -> Option<RanOut> {
    let oom = ending.oom.as_ref().filter(|oom| match ending.status {
        RunStatus::OomKilled => true,
        // A job whose worker was killed may wait for it for ever.
        RunStatus::Running => oom.certainty >= Certainty::Likely,
        _ => false,
    })?;
    let limit = oom.limit.as_ref();
    // Of several limits the one that ran out may be another than the job is held against.
    let own = match limit.map(|limit| (limit, &limit.source)) {
        Some((limit, LimitSource::Cgroup { path, .. })) if !is_in_force(recording, path) => {
            Some((path.clone(), limit.bytes))
        }
        _ => own_cgroup(recording),
    };
    // Whoever else is charged to the cgroup, the limit that ran out is that of all of them.
    let path = match (&own, limit.map(|limit| &limit.source)) {
        (Some((path, _)), _) => Some(path),
        (None, Some(LimitSource::Cgroup { path, .. })) => Some(path),
        _ => None,
    };
    let limit_use = path.and_then(|path| LimitUse::of_cgroup(recording, path));
    let held_bytes = peak_memory_bytes(recording).map(|peak| match &own {
        Some((path, limit)) => held_of_cgroup(recording, path, *limit, peak as f64) as u64,
        // What the kernel killed for is memory, whatever else limits the job.
        None => held_of_limit(recording, peak as f64)
            .filter(|_| limit.is_some_and(Limit::is_of_memory))
            .map_or(peak, |held| held as u64),
    });
    let limit_bytes = match &own {
        Some((_, limit)) => Some(*limit),
        None => limit.map(|limit| limit.bytes),
    };
    let limit_use = limit_use.map(|limit_use| limit_use.when_it_ran_out(limit_bytes, held_bytes));
    let resource = match (&own, limit.map(|limit| &limit.source)) {
        (Some((path, _)), _) => Resource::Cgroup { path: path.clone() },
        // The machine's view of the job is the machine's line where nothing else limits it.
        (None, Some(LimitSource::Host)) => Resource::Host,
        (None, _) => Resource::Job,
    };
    Some(RanOut {
        resource,
        kind: RanOutKind::OomKill,
        time_nanos: oom.time_nanos,
        pid: oom.victim_pid,
        name: oom.victim_name.clone(),
        limit_bytes,
        refused_by: None,
        peak_bytes: match limit_use {
            Some(limit_use) => Some(limit_use.peak_bytes),
            None => held_bytes,
        },
        gpu: None,
        gpu_cause: None,
        limit_use,
        certainty: oom.certainty,
        growth: None,
        evidence: oom.evidence.clone(),
    })
}

/// Whether it is this cgroup whose limit the job is held against.
fn is_in_force(recording: &Recording, path: &str) -> bool {
    let source = limit_in_force(recording).map(|limit| limit.source);
    matches!(&source, Some(LimitSource::Cgroup { path: in_force, .. }) if in_force == path)
}

/// Of several jobs, in a verdict that names the limit that all of them share: the cgroup that the kill was counted in, where it has a limit of its own.
fn own_cgroup(recording: &Recording) -> Option<(String, u64)> {
    if recording.description.root_pids.len() < 2 {
        return None;
    }
    recording.events.iter().find_map(|timed| {
        let Event::OomKill { cgroup, .. } = &timed.event else {
            return None;
        };
        let path = cgroup.clone()?;
        let table = recording.table(&Subject::Cgroup { path: path.clone() })?;
        let limit = table.series("limit_bytes")?.last()?;
        (!is_in_force(recording, &path)).then_some((path, limit as u64))
    })
}

fn of_exception(recording: &Recording, ending: &Ending) -> Option<RanOut> {
    let (time_nanos, raised) = failed_allocation(recording, ending)?;
    let exception = &raised.failed_allocation();
    let is_gpu = exception.is_gpu_out_of_memory();
    let gpu = ending.gpu_out_of_memory.clone().filter(|_| is_gpu);
    let told = gpu.as_ref().and_then(|failure| failure.device);
    let index = gpu_in(exception).or(told).or_else(|| only_gpu(recording));
    // What the process is allowed says more than what the device has.
    let allowed = gpu.as_ref().and_then(|failure| failure.allowed_bytes);
    let held = gpu.as_ref().and_then(|failure| failure.allocated_bytes);
    let total = gpu.as_ref().and_then(|failure| failure.device_total_bytes);
    let free = gpu.as_ref().and_then(|failure| failure.device_free_bytes);
    let used = total
        .zip(free)
        .map(|(total, free)| total.saturating_sub(free));
    // The kernel looks at this limit first, and promises more memory than there is otherwise.
    let refused = refusing_limit(recording).filter(|_| !is_gpu);
    let refused = refused.and_then(|limit| {
        let nearest = nearest_process(recording, &limit, 0)?;
        Some((limit, nearest.bytes as u64))
    });
    Some(RanOut {
        resource: match (is_gpu, index, &refused) {
            (true, Some(index), _) => Resource::Gpu { index },
            (true, None, _) => Resource::UnnamedGpu,
            (false, _, Some((limit, _))) => resource_of(limit),
            (false, _, None) => Resource::Job,
        },
        kind: match is_gpu {
            true => RanOutKind::GpuAllocation,
            false => RanOutKind::HostAllocation,
        },
        time_nanos: Some(time_nanos),
        pid: Some(exception.pid),
        name: name_of(recording, exception.pid),
        limit_bytes: match &refused {
            Some((limit, _)) => Some(limit.bytes),
            None => allowed
                .or_else(|| {
                    let index = index.filter(|_| is_gpu)?;
                    gpu_figure(recording, index, "total_bytes")
                })
                .or(total),
        },
        peak_bytes: match (is_gpu, &refused) {
            (true, _) if allowed.is_some() => held,
            (true, _) => index
                .and_then(|index| gpu_figure(recording, index, "used_bytes"))
                .max(used)
                .or(held),
            (false, Some((_, mapped))) => Some(*mapped),
            (false, None) => peak_memory_bytes(recording),
        },
        refused_by: refused.map(|(limit, _)| limit.source),
        gpu,
        gpu_cause: None,
        limit_use: None,
        certainty: Certainty::Certain,
        growth: None,
        evidence: vec![first_line(exception)],
    })
}

/// A command that failed at a limit of its own (`ulimit -v`): there the system refuses memory instead of killing, and only the program sees it.
fn of_refusal(recording: &Recording, ending: &Ending) -> Option<RanOut> {
    let limit = limit_that_may_refuse(recording, ending)?;
    // The limit is one process's, so the one that came nearest counts.
    // Resident memory is part of the addresses: where those were not recorded, it says what they were at the least.
    let from_nanos = ending.time_nanos.saturating_sub(LAST_MOMENTS_NANOS);
    let addresses = nearest_process(recording, &limit, from_nanos);
    let nearest = addresses.or_else(|| largest_resident(recording, from_nanos))?;
    let limit_bytes = limit.bytes as f64;
    let share = nearest.bytes / limit_bytes;
    // The sample before an allocation that fails is as far from the limit as that was large.
    let rise = largest_rise(recording, &limit, nearest.pid, from_nanos);
    let is_within_a_rise = share >= WITHIN_A_RISE && nearest.bytes + rise >= limit_bytes;
    if share < NEAR_LIMIT && !is_within_a_rise {
        return None;
    }
    let rose = match share < NEAR_LIMIT {
        true => format!(
            ", and had risen by {:.1} % of it at once",
            100.0 * rise / limit_bytes
        ),
        false => String::new(),
    };
    let before = to_secs(ending.time_nanos.saturating_sub(nearest.time_nanos));
    let pid = nearest.pid;
    Some(RanOut {
        resource: match addresses {
            Some(_) => resource_of(&limit),
            None => Resource::Job,
        },
        kind: RanOutKind::HostAllocation,
        time_nanos: Some(ending.time_nanos),
        pid: Some(pid),
        name: name_of(recording, pid),
        limit_bytes: Some(limit.bytes),
        peak_bytes: nearest_process(recording, &limit, 0).map(|peak| peak.bytes as u64),
        gpu: None,
        gpu_cause: None,
        limit_use: None,
        certainty: Certainty::Likely,
        growth: None,
        evidence: vec![format!(
            "a process was at {:.1} % of {} {} before the command failed{rose}",
            100.0 * share.min(1.0),
            limit.source,
            duration_in_words(before)
        )],
        refused_by: Some(limit.source),
    })
}

/// What runs out at a limit of a process's own.
fn resource_of(limit: &Limit) -> Resource {
    Resource::of_own_limit(limit.source.counts()).unwrap_or(Resource::Job)
}

/// A limit of a process's own (`ulimit -v`), where it is the one in force.
fn refusing_limit(recording: &Recording) -> Option<Limit> {
    limit_in_force(recording).filter(|limit| !limit.is_of_memory())
}

/// The limit of a process's own, where the command failed as one does that is refused memory.
fn limit_that_may_refuse(recording: &Recording, ending: &Ending) -> Option<Limit> {
    let failed = match (ending.status, ending.exit_code, ending.signal) {
        (RunStatus::Exited, Some(code), _) => code != 0,
        (RunStatus::Killed, _, Some(signal)) => FAILED_ALLOCATION_SIGNALS.contains(&signal),
        _ => false,
    };
    refusing_limit(recording).filter(|_| failed)
}

/// The largest resident set of a process from this time on.
fn largest_resident(recording: &Recording, from_nanos: u64) -> Option<NearestProcess> {
    let processes = recording.tables.iter().filter_map(|table| {
        let Subject::Process(id) = table.spec.subject else {
            return None;
        };
        let levels = table.series("rss_bytes")?.present();
        // Only changes are written: the level before that time reaches into it.
        let (before, within): (Vec<_>, Vec<_>) = levels.partition(|(time, _)| *time < from_nanos);
        let largest = before.last().copied().into_iter().chain(within);
        let (time_nanos, bytes) = largest.max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some(NearestProcess {
            time_nanos,
            pid: id.pid,
            bytes,
        })
    });
    processes.max_by(|one, other| one.bytes.total_cmp(&other.bytes))
}

/// `torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.`
fn first_line(exception: &UnhandledException) -> String {
    let line = exception.message.lines().next().unwrap_or_default();
    let mut message: String = line.chars().take(EVIDENCE_CHARS).collect();
    if message.len() < line.len() {
        message.push('…');
    }
    let text = match message.is_empty() {
        true => exception.type_name.clone(),
        false => format!("{}: {message}", exception.type_name),
    };
    text.replace(char::is_control, " ")
}

/// The GPU that PyTorch's message names: `GPU 1 has a total capacity of ...`.
fn gpu_in(exception: &UnhandledException) -> Option<u32> {
    let after = exception.message.split("GPU ").skip(1);
    let numbers = after.filter_map(|text| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    numbers.into_iter().next()
}

/// The GPU of a recording that has no other.
fn only_gpu(recording: &Recording) -> Option<u32> {
    let mut indices = recording
        .tables
        .iter()
        .filter_map(|table| match table.spec.subject {
            Subject::Gpu { index } => Some(index),
            _ => None,
        });
    let first = indices.next()?;
    indices.all(|index| index == first).then_some(first)
}

/// The largest value of a column of a GPU's table.
fn gpu_figure(recording: &Recording, index: u32, column: &str) -> Option<u64> {
    let table = recording.table(&Subject::Gpu { index })?;
    let present = table.series(column)?;
    let most = present.present().map(|(_, value)| value).reduce(f64::max)?;
    Some(most as u64)
}

impl RanOut {
    /// The share of the limit that was used at the peak.
    pub fn used_share(&self) -> Option<f64> {
        let limit = self.limit_bytes.filter(|limit| *limit > 0)?;
        Some(self.peak_bytes? as f64 / limit as f64)
    }

    /// When it was over for the job: when memory ran out, or else at the end of the recording.
    pub fn decisive_nanos(&self, ending: &Ending) -> u64 {
        self.time_nanos.unwrap_or_else(|| ending.decisive_nanos())
    }

    /// Whether the growth of a resource led there.
    pub(crate) fn is_led_to_by(&self, resource: &Resource) -> bool {
        match (self.kind, resource) {
            (RanOutKind::GpuAllocation, Resource::Torch { writer, .. }) => {
                let of_process = |pid: u32| writer.ends_with(&format!("-{pid}"));
                self.pid.is_some_and(of_process)
            }
            (RanOutKind::GpuAllocation, other) => *other == self.resource,
            (_, Resource::Job) => true,
            (_, other) => *other == self.resource,
        }
    }

    /// `train.py (PID 4711)`
    pub fn who(&self) -> String {
        match (&self.name, self.pid) {
            (Some(name), Some(pid)) => format!("{name} (PID {pid})"),
            (None, Some(pid)) => format!("PID {pid}"),
            _ => "a process".to_owned(),
        }
    }

    /// What happened, as one sentence without a full stop.
    pub fn what_happened(&self) -> String {
        let who = self.who();
        match (self.kind, self.certainty) {
            (RanOutKind::OomKill, Certainty::Certain) => format!("the kernel killed {who}"),
            (RanOutKind::OomKill, _) => format!("the kernel most likely killed {who}"),
            (RanOutKind::GpuAllocation, _) => format!("an allocation on the GPU failed in {who}"),
            (RanOutKind::HostAllocation, Certainty::Certain) => {
                format!("an allocation failed in {who}")
            }
            (RanOutKind::HostAllocation, _) => {
                format!("an allocation most likely failed in {who}")
            }
        }
    }

    /// The growth that led there: `job memory leaked 330 MiB/min, 380 MiB in 47 seconds, until it ran out`.
    pub fn growth_in_words(&self) -> Option<String> {
        let what = match &self.resource {
            Resource::Host => &Resource::Job,
            other => other,
        };
        let growth = self.growth.as_ref()?;
        Some(format!("{what} {}", growth_until_the_end(growth)))
    }
}

impl fmt::Display for RanOut {
    /// `it ran out of memory after 78 seconds: the kernel killed train.py (PID 4711); limit 900 MiB; peak 899 MiB charged to the cgroup`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = match self.time_nanos {
            Some(nanos) => format!("after {}", duration_in_words(to_secs(nanos))),
            None => "after the recording stopped".to_owned(),
        };
        let what = self.what_happened();
        write!(f, "it ran out of memory {after}: {what}")?;
        if let Some(limit) = self.limit_bytes {
            write!(f, "; limit {}", bytes_in_words(limit as f64))?;
        }
        if let Some(peak) = self.peak_bytes {
            write!(f, "; peak {}", bytes_in_words(peak as f64))?;
        }
        if self.resource.is_of_addresses() {
            write!(f, " of {} in one process", self.resource)?;
        }
        let limit_use = self.limit_use.as_ref();
        // The tree's own peak, which other commands list, may be another.
        if limit_use.is_some() {
            write!(f, " charged to the cgroup")?;
        }
        if let Some(files) = limit_use.and_then(LimitUse::files_in_words) {
            write!(f, ", {files}")?;
        }
        if let Some(cause) = &self.gpu_cause {
            write!(f, "; {}", cause.text)?;
        }
        if let Some(growth) = self.growth_in_words() {
            write!(f, "; {growth}")?;
        }
        Ok(())
    }
}
