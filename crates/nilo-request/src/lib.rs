//! From recorded runs of a job to the memory that the next one should ask for.
//!
//! [`facts_of`] reads one run: its peak of memory that cannot be taken back, and whether the run saw its job's end.
//! [`request`] weighs several: `headroom.rs` has the rule for whole runs, `memory.rs` what unfinished ones add,
//! `fingerprint.rs` which runs belong together. Each run is one node, as Slurm's `--mem` is for each node.

mod duration;
mod facts;
mod fingerprint;
#[cfg(test)]
mod fixture;
mod gpu;
mod growth;
mod headroom;
mod memory;
mod present;
mod rounding;
pub mod slurm;
mod tolerance;
mod unreclaimable;
mod usual_level;
mod writing;

use nilo_sample::units::format_bytes;
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

pub use duration::TimeRequest;
pub use facts::{Completeness, RefusingLimit, RunFacts, facts_of};
pub use fingerprint::fingerprint;
pub use gpu::{GpuFacts, GpuRequest};
pub use growth::UnfinishedGrowth;
pub use headroom::Confidence;
pub use memory::MemoryRequest;
pub use present::{LimitFit, PresentLimit};
pub use writing::{KubernetesRequest, SlurmRequest};

/// The value of [`Request::schema`].
pub const REQUEST_SCHEMA: &str = "nilo.request/1";

/// What is known of the runs to come.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlannedRun {
    /// How long they will take.
    pub planned_secs: Option<f64>,
    /// CPUs on a node, for `--mem-per-cpu`.
    pub cpus: Option<u32>,
    /// GPUs on a node, for `--mem-per-gpu`; otherwise those that the runs used.
    pub gpus: Option<u32>,
    /// Take runs of different jobs as one.
    pub mix: bool,
}

/// What to ask for.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Request {
    /// `nilo.request/1`.
    #[schemars(extend("const" = REQUEST_SCHEMA))]
    pub schema: &'static str,
    /// What it rests on, in the order given.
    pub runs: Vec<RunFacts>,
    /// Memory of a node.
    pub memory: MemoryRequest,
    /// Memory of a GPU; absent where no run used one.
    pub gpu: Option<GpuRequest>,
    /// The time limit.
    pub time: Option<TimeRequest>,
    /// The same for Slurm.
    pub slurm: SlurmRequest,
    /// The same for Kubernetes.
    pub kubernetes: KubernetesRequest,
    /// What is asked for at present.
    pub present_limit: Option<PresentLimit>,
    /// What a person should know, one sentence each.
    pub notes: Vec<String>,
}

/// Why nothing can be asked for.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RequestError {
    /// No run has a sample of memory.
    #[error("no memory was recorded in {}", several(*runs))]
    NothingMeasured {
        /// How many were looked at.
        runs: usize,
    },
    /// The runs are of several jobs.
    #[error("these are runs of {} different jobs: {}", jobs.len(), list(jobs))]
    DifferentJobs {
        /// The jobs, each with its runs.
        jobs: Vec<RunGroup>,
    },
}

/// Runs that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunGroup {
    /// What they have in common.
    pub fingerprint: String,
    /// Their ids.
    pub runs: Vec<String>,
}

fn several(runs: usize) -> String {
    match runs {
        1 => "this run".to_owned(),
        runs => format!("any of the {runs} runs"),
    }
}

fn list(jobs: &[RunGroup]) -> String {
    const MOST_CHARS: usize = 80;
    let short = |job: &RunGroup| {
        let command: String = job.fingerprint.chars().take(MOST_CHARS).collect();
        let runs = job.runs.len();
        format!("`{}` ({runs})", command.replace(char::is_control, " "))
    };
    jobs.iter().map(short).collect::<Vec<_>>().join(", ")
}

/// Groups runs by job, in the order in which the jobs first appear.
pub fn jobs_of(runs: &[RunFacts]) -> Vec<RunGroup> {
    let mut jobs: Vec<RunGroup> = Vec::new();
    for run in runs {
        match jobs.iter_mut().find(|job| job.fingerprint == run.job) {
            Some(job) => job.runs.push(run.run.clone()),
            None => jobs.push(RunGroup {
                fingerprint: run.job.clone(),
                runs: vec![run.run.clone()],
            }),
        }
    }
    jobs
}

/// What the runs of a job call for.
pub fn request(runs: Vec<RunFacts>, plan: &PlannedRun) -> Result<Request, RequestError> {
    let jobs = jobs_of(&runs);
    let mut notes = Vec::new();
    if jobs.len() > 1 {
        if !plan.mix {
            return Err(RequestError::DifferentJobs { jobs });
        }
        notes.push(format!(
            "runs of {} different jobs are taken as one: this is enough for the largest of them",
            jobs.len()
        ));
    }
    let Some(memory) = memory::request_memory(&runs, plan, &mut notes) else {
        return Err(RequestError::NothingMeasured { runs: runs.len() });
    };
    let unmeasured = runs.iter().filter(|run| run.peak_bytes.is_none()).count();
    if unmeasured > 0 {
        notes.push(format!(
            "{unmeasured} runs have no memory recorded and do not count"
        ));
    }
    notes.extend(about_own_limit(&runs));
    notes.extend(about_page_cache(&runs, memory.bytes));
    let gpu = gpu::request_gpu(&runs, &mut notes);
    let time = duration::request_time(&runs, plan.planned_secs);
    let gpus = plan.gpus.or(gpu.as_ref().map(|gpu| gpu.devices));
    Ok(Request {
        schema: REQUEST_SCHEMA,
        slurm: SlurmRequest::new(memory.bytes, plan.cpus, gpus, time.as_ref()),
        kubernetes: KubernetesRequest::new(memory.bytes, &runs),
        present_limit: present::present_limit(&runs, memory.bytes),
        memory,
        gpu,
        time,
        runs,
        notes,
    })
}

/// A run that was refused memory at a limit that no request raises.
fn about_own_limit(runs: &[RunFacts]) -> Option<String> {
    let refused = runs.iter().rev();
    let (run, limit) = refused
        .filter_map(|run| Some((run, run.refused_by.as_ref()?)))
        .next()?;
    let option = match limit.name.as_str() {
        "RLIMIT_DATA" => "-d",
        _ => "-v",
    };
    Some(format!(
        "{} was refused memory at {} of {}: --mem does not raise that limit, `ulimit {option}` does",
        run.label,
        limit.name,
        format_bytes(limit.bytes as f64)
    ))
}

/// Files that were kept in memory and would not fit beside the job any more.
fn about_page_cache(runs: &[RunFacts], asked_for: u64) -> Option<String> {
    let cache = |run: &RunFacts| {
        let room = asked_for.saturating_sub(run.peak_bytes?);
        run.page_cache_peak_bytes.filter(|cache| *cache > room)
    };
    let cache = runs.iter().filter_map(cache).max()?;
    Some(format!(
        "up to {} of files were kept in memory beside the job; with this limit some of them are read from disk again",
        format_bytes(cache as f64)
    ))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
