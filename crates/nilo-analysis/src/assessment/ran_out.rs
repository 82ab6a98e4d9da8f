//! What ran out of memory before the recording ended: nobody has to forecast that.

use std::fmt;

use nilo_sample::units::to_secs;
use nilo_sample::words::{bytes_in_words, duration_in_words};
use nilo_sample::{
    Certainty, Ending, Event, LimitSource, Recording, RunStatus, Subject, UnhandledException,
};
use serde::Serialize;

use crate::ending::limit_in_force;
use crate::exceptions::ending_exception;
use crate::lookout::Resource;
use crate::summary::peak_memory_bytes;

/// A resource that ran out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RanOut {
    /// Which.
    pub resource: Resource,
    /// How that showed.
    pub kind: RanOutKind,
    /// When, in nanoseconds since the run began.
    pub time_nanos: u64,
    /// Who was killed or failed, such as `train.py (PID 4711)`.
    pub who: Option<String>,
    /// The limit that was reached.
    pub limit_bytes: Option<u64>,
    /// The most that was held.
    pub peak_bytes: Option<u64>,
    /// Whether something else may be the cause.
    pub is_certain: bool,
}

/// How running out of memory showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RanOutKind {
    /// The kernel killed a process.
    OomKill,
    /// An allocation on a GPU failed, and nobody caught the exception.
    GpuAllocation,
    /// The system refused memory, and nobody caught the exception.
    HostAllocation,
}

/// What the run ended of, where that is memory.
pub fn ran_out(recording: &Recording, ending: &Ending) -> Option<RanOut> {
    of_kill(recording, ending).or_else(|| of_exception(recording, ending))
}

fn of_kill(recording: &Recording, ending: &Ending) -> Option<RanOut> {
    let oom = ending
        .oom
        .as_ref()
        .filter(|_| ending.status == RunStatus::OomKilled)?;
    let is_hosts = matches!(&oom.limit, Some(limit) if limit.source == LimitSource::Host);
    let own = own_cgroup(recording);
    let resource = match &own {
        Some((path, _)) => Resource::Cgroup { path: path.clone() },
        // The machine's view of the job is the machine's line where nothing else limits it.
        None if is_hosts => Resource::Host,
        None => Resource::Job,
    };
    Some(RanOut {
        resource,
        kind: RanOutKind::OomKill,
        time_nanos: oom.time_nanos.unwrap_or(ending.time_nanos),
        who: match (&oom.victim_name, oom.victim_pid) {
            (Some(name), Some(pid)) => Some(format!("{name} (PID {pid})")),
            (None, Some(pid)) => Some(format!("PID {pid}")),
            _ => None,
        },
        limit_bytes: match own {
            Some((_, limit)) => Some(limit),
            None => oom.limit.as_ref().map(|limit| limit.bytes),
        },
        peak_bytes: peak_memory_bytes(recording),
        is_certain: oom.certainty == Certainty::Certain,
    })
}

/// Of several jobs: the cgroup that the kill was counted in, where it has a limit that the others do not share.
fn own_cgroup(recording: &Recording) -> Option<(String, u64)> {
    if recording.description.root_pids.len() < 2 {
        return None;
    }
    let shared = limit_in_force(recording).map(|limit| limit.source);
    recording.events.iter().find_map(|timed| {
        let Event::OomKill { cgroup, .. } = &timed.event else {
            return None;
        };
        let path = cgroup.clone()?;
        let is_shared =
            matches!(&shared, Some(LimitSource::Cgroup { path: shared, .. }) if *shared == path);
        let table = recording.table(&Subject::Cgroup { path: path.clone() })?;
        let limit = table.series("limit_bytes")?.last()?;
        (!is_shared).then_some((path, limit as u64))
    })
}

fn of_exception(recording: &Recording, ending: &Ending) -> Option<RanOut> {
    let (time_nanos, exception) = ending_exception(recording, ending)?;
    let who = Some(format!("PID {}", exception.pid));
    if exception.is_gpu_out_of_memory() {
        let index = gpu_in(exception);
        return Some(RanOut {
            resource: Resource::Gpu { index },
            kind: RanOutKind::GpuAllocation,
            time_nanos,
            who,
            limit_bytes: gpu_figure(recording, index, "total_bytes"),
            peak_bytes: gpu_figure(recording, index, "used_bytes"),
            is_certain: true,
        });
    }
    (exception.type_name == "MemoryError" || exception.type_name.ends_with("ArrayMemoryError"))
        .then(|| RanOut {
            resource: Resource::Job,
            kind: RanOutKind::HostAllocation,
            time_nanos,
            who,
            limit_bytes: None,
            peak_bytes: peak_memory_bytes(recording),
            is_certain: true,
        })
}

/// The GPU that PyTorch's message names: `GPU 1 has a total capacity of ...`; the first where none is named.
fn gpu_in(exception: &UnhandledException) -> u32 {
    let after = exception.message.split("GPU ").skip(1);
    let numbers = after.filter_map(|text| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    numbers.into_iter().next().unwrap_or(0)
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
}

impl fmt::Display for RanOut {
    /// `it ran out of memory after 78 seconds: the kernel killed train.py (PID 4711); limit 900 MiB, peak 899 MiB`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = duration_in_words(to_secs(self.time_nanos));
        let who = self.who.as_deref().unwrap_or("a process");
        let sure = if self.is_certain { "" } else { "most likely " };
        write!(f, "it ran out of memory after {after}: ")?;
        match self.kind {
            RanOutKind::OomKill => write!(f, "the kernel {sure}killed {who}")?,
            RanOutKind::GpuAllocation => write!(f, "an allocation on the GPU failed in {who}")?,
            RanOutKind::HostAllocation => write!(f, "an allocation failed in {who}")?,
        }
        if let Some(limit) = self.limit_bytes {
            write!(f, "; limit {}", bytes_in_words(limit as f64))?;
        }
        if let Some(peak) = self.peak_bytes {
            write!(f, "; peak {}", bytes_in_words(peak as f64))?;
        }
        Ok(())
    }
}
