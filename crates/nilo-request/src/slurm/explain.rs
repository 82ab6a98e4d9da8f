//! Our peak beside Slurm's `MaxRSS`, and why they differ.
//!
//! `MaxRSS` is a sum of resident memory over the processes of a task, looked at every 30 seconds unless a site says otherwise.
//! So it is too large after a fork, because shared pages count once for each process, and too small when a peak falls between two looks.

use nilo_sample::units::{MIB, format_bytes};
use schemars::JsonSchema;
use serde::Serialize;

use crate::slurm::sacct::{SlurmJob, SlurmStep};
use crate::{Completeness, RunFacts};

/// Figures nearer than this are the same; a few MiB are the shell and the recorder in the same step.
const NEAR_RATIO: f64 = 0.1;
const NEAR_BYTES: f64 = 16.0 * MIB as f64;

fn agree(seen: f64, peak: f64) -> bool {
    (seen - peak).abs() <= (NEAR_RATIO * peak).max(NEAR_BYTES)
}

/// A run beside its job in Slurm's account.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct Account {
    /// Run id.
    pub run: String,
    /// The job, and the step that the run was in: `3.0`.
    pub job: String,
    /// Slurm's figure.
    pub max_rss_bytes: Option<u64>,
    /// Ours.
    pub peak_bytes: Option<u64>,
    /// What was asked for on each node.
    pub requested_bytes: Option<u64>,
    /// GPUs that the job was given.
    pub gpus: Option<u32>,
    /// Slurm's figure of the GPU memory of a task.
    pub max_gpu_memory_bytes: Option<u64>,
    /// Our peak on the fullest GPU.
    pub gpu_peak_bytes: Option<u64>,
    /// Everything in sentences.
    pub sentences: Vec<String>,
}

/// Explains each run that has a job in the listing.
///
/// A run finds its job by the number in the path of its cgroup; a single run and a single job belong together in any case.
pub fn compare_with_slurm(runs: &[RunFacts], jobs: &[SlurmJob]) -> Vec<Account> {
    let job_of = |run: &RunFacts| {
        let number = run.slurm.as_ref().map(|place| place.job.as_str());
        let by_number = jobs.iter().find(|job| {
            number.is_some() && (job.raw_id.as_deref() == number || Some(job.id.as_str()) == number)
        });
        match (by_number, runs, jobs) {
            (Some(job), _, _) => Some((job, Pairing::ByNumber)),
            (None, [_], [only]) if number.is_none() => Some((only, Pairing::Alone)),
            _ => None,
        }
    };
    let account = |run| job_of(run).map(|(job, pairing)| explain(run, job, pairing));
    runs.iter().filter_map(account).collect()
}

/// Why a run is taken for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pairing {
    /// The run was recorded in the job's cgroup.
    ByNumber,
    /// There is one of each.
    Alone,
}

fn explain(run: &RunFacts, job: &SlurmJob, pairing: Pairing) -> Account {
    let step = step_of(run, job);
    let max_rss = step.and_then(|step| step.max_rss_bytes);
    let mut sentences = Vec::new();
    if pairing == Pairing::Alone {
        let guess = "The run does not say which job it was; this is the only job in the sacct output; assuming it is this one";
        sentences.push(guess.to_owned());
    }
    sentences.extend(about_max_rss(run, max_rss));
    sentences.extend(about_oom(job));
    sentences.extend(about_request(run, job, max_rss));
    sentences.extend(about_gpus(run, job, step));
    sentences.extend(about_end(job));
    Account {
        run: run.run.clone(),
        job: match step {
            Some(step) => format!("{}.{}", job.id, step.id),
            None => job.id.clone(),
        },
        max_rss_bytes: max_rss,
        peak_bytes: run.peak_bytes,
        requested_bytes: job.requested_bytes,
        gpus: job.gpus,
        max_gpu_memory_bytes: step.and_then(|step| step.max_gpu_memory_bytes),
        gpu_peak_bytes: run.gpus.iter().map(|gpu| gpu.peak_bytes).max(),
        sentences,
    }
}

/// The step that the run was in, else the one with most memory.
fn step_of<'a>(run: &RunFacts, job: &'a SlurmJob) -> Option<&'a SlurmStep> {
    let wanted = run.slurm.as_ref().and_then(|place| place.step.as_deref());
    let named = job
        .steps
        .iter()
        .find(|step| Some(step.id.as_str()) == wanted);
    named.or_else(|| job.steps.iter().max_by_key(|step| step.max_rss_bytes))
}

fn about_max_rss(run: &RunFacts, max_rss: Option<u64>) -> Option<String> {
    let peak = run.peak_bytes? as f64;
    let Some(max_rss) = max_rss else {
        return Some(format!(
            "Slurm has no MaxRSS: the step ended before the first sample, or memory accounting is disabled; the peak was {}",
            format_bytes(peak)
        ));
    };
    let seen = max_rss as f64;
    let near = |figure: f64| (seen / figure - 1.0).abs() < 1.5 * NEAR_RATIO;
    let begin = format!(
        "MaxRSS is {} and the peak was {}",
        format_bytes(seen),
        format_bytes(peak)
    );
    if agree(seen, peak) {
        return Some(format!("{begin}: they agree"));
    }
    if seen < peak {
        return Some(match run.completeness {
            Completeness::OomKilled => format!(
                "{begin}: Slurm samples every 30 s by default, and the job was killed before the sample that would have caught the peak"
            ),
            _ => format!(
                "{begin}: Slurm samples every 30 s by default and missed the peak, which was shorter"
            ),
        });
    }
    let processes = run.most_processes;
    Some(match (run.rss_sum_peak_bytes, run.page_cache_peak_bytes) {
        (Some(sum), _) if processes > 1 && near(sum as f64) => format!(
            "{begin}: Slurm adds up the resident memory of all {processes} processes, and pages that they share, as after a fork, count once for each"
        ),
        (_, Some(cache)) if near(peak + cache as f64) => format!(
            "{begin}: Slurm's figure has page cache in it, {} of files that the kernel can drop at any time",
            format_bytes(cache as f64)
        ),
        _ if processes > 1 => format!(
            "{begin}: Slurm adds up resident memory over the processes of the step, so shared pages count several times, and the step may hold more than the recorded command"
        ),
        _ => format!("{begin}: the step holds more than the recorded command"),
    })
}

fn about_oom(job: &SlurmJob) -> Option<String> {
    let step = job.steps.iter().find(|step| step.ran_out_of_memory());
    let itself = job.state == "OUT_OF_MEMORY";
    let exit = |exit: Option<(u32, u32)>| match exit {
        Some((code, signal)) => format!(" {code}:{signal}"),
        None => String::new(),
    };
    match step {
        Some(step) => Some(format!(
            "Slurm counted an OOM kill in step {}.{} ({}{}){}: MaxRSS is from before the kill and too low",
            job.id,
            step.id,
            step.state,
            exit(step.exit),
            match itself {
                true => String::new(),
                false => format!(
                    ", although the job itself shows {}{}",
                    job.state,
                    exit(job.exit)
                ),
            }
        )),
        None if itself => Some(format!("Slurm counted an OOM kill in job {}", job.id)),
        None => None,
    }
}

fn about_request(run: &RunFacts, job: &SlurmJob, max_rss: Option<u64>) -> Option<String> {
    let requested = job.requested_bytes.filter(|bytes| *bytes > 0)? as f64;
    let peak = run.peak_bytes? as f64;
    let percent = |bytes: f64| format!("{:.0} %", 100.0 * bytes / requested);
    let by_slurm = max_rss
        .map(|bytes| bytes as f64)
        .filter(|seen| !agree(*seen, peak))
        .map_or(String::new(), |seen| {
            format!("; by MaxRSS it would be {}", percent(seen))
        });
    Some(format!(
        "{} were requested per node, and {} of that was used{by_slurm}",
        format_bytes(requested),
        percent(peak)
    ))
}

/// Slurm asks the driver every 30 seconds too, and adds up the GPUs of a task.
fn about_gpus(run: &RunFacts, job: &SlurmJob, step: Option<&SlurmStep>) -> Vec<String> {
    let mut sentences = Vec::new();
    let used = run.gpus.iter().filter(|gpu| gpu.peak_bytes > 0).count();
    let peak = run.gpus.iter().map(|gpu| gpu.peak_bytes).sum::<u64>() as f64;
    if let Some(given) = job.gpus.filter(|given| *given > 0) {
        // Each run is one node.
        let here = given.div_ceil(job.nodes.unwrap_or(1).max(1)) as usize;
        if !run.gpus.is_empty() && used < here {
            sentences.push(format!(
                "{here} GPUs were allocated per node, and the job used {used} of them"
            ));
        }
        if step.is_some_and(|step| step.max_gpu_memory_bytes.is_none()) {
            sentences.push("Slurm has no GPU memory of it (gres/gpumem in TRESUsageInMax): it is not enabled, or the driver does not report it".to_owned());
        }
    }
    let Some(seen) = step.and_then(|step| step.max_gpu_memory_bytes) else {
        return sentences;
    };
    let seen = seen as f64;
    let utilization = step
        .and_then(|step| step.max_gpu_utilization_percent)
        .map_or(String::new(), |percent| {
            format!(" and a utilization of {percent} % at most")
        });
    if run.gpus.is_empty() {
        sentences.push(format!(
            "Slurm saw {} of GPU memory{utilization}; the run recorded none",
            format_bytes(seen)
        ));
        return sentences;
    }
    let begin = format!(
        "Slurm saw {} of GPU memory{utilization}, and the peak was {}",
        format_bytes(seen),
        format_bytes(peak)
    );
    sentences.push(match (agree(seen, peak), seen < peak) {
        (true, _) => format!("{begin}: they agree"),
        (false, true) => format!(
            "{begin}: Slurm asks the driver every 30 s by default and misses what comes between"
        ),
        (false, false) => {
            format!("{begin}: the step holds more on its GPUs than the recorded command")
        }
    });
    sentences
}

fn about_end(job: &SlurmJob) -> Option<String> {
    let why = match job.state.as_str() {
        "TIMEOUT" => "hit its time limit",
        "CANCELLED" => "was cancelled",
        "PREEMPTED" => "was preempted",
        "NODE_FAIL" => "lost its node",
        "RUNNING" => "is still running",
        _ => return None,
    };
    Some(format!(
        "job {} {why}: a complete run may need more than its peak",
        job.id
    ))
}
