//! Memory that grows without end.

use nilo_sample::units::format_bytes;
use nilo_sample::words::duration_in_words;

use super::figures::seconds;
use super::{Found, collector, found, torch};
use crate::facts::{Facts, HostFacts};
use crate::recommendation::AdviceConfidence::{High, Low, Medium};

/// The job's own memory, as `nilo leak` names it.
const JOB: &str = "job memory";

pub(super) fn stop_the_leak(facts: &Facts) -> Option<Found> {
    let host = &facts.host;
    let rate = host.leak_bytes_per_second.filter(|rate| *rate > 0.0)?;
    if collector::explains_growth(facts) || torch::keeps_tensors(facts) {
        return None;
    }
    let is_early = host.leak_may_be_loading == Some(true);
    let ended = &facts.out_of_memory;
    let growth = ended.growth.clone().unwrap_or_else(|| {
        let what = host.leak_resource.as_deref().filter(|name| *name != JOB);
        let what = what.unwrap_or("memory");
        format!("{what} grows by {} a minute", format_bytes(60.0 * rate))
    });
    // What has run out is not predicted, nor is a time in which there is no confidence.
    let is_unsure = host.leak_limit_bytes.is_some() && host.leak_limit_seconds.is_none();
    let full = match ended.growth.is_some() || ended.on_gpu == Some(false) {
        true => ended.happened.clone(),
        false if is_unsure => None,
        false => forecast(host).or_else(|| time_after_peak(host, rate)),
    };
    let confidence = match host.leak_established {
        _ if is_early => Low,
        Some(false) => Medium,
        _ => High,
    };
    Some(
        remedy(host.leak_in_shared_memory == Some(true))
            .because(growth)
            .because_if(full)
            .because_if(is_early.then(|| "this early, it may still be loading".to_owned()))
            .with(confidence),
    )
}

fn remedy(is_in_shared_memory: bool) -> Found {
    match is_in_shared_memory {
        true => found(
            "Free shared memory: close shared mappings, and delete files in /dev/shm and other tmpfs that are no longer needed",
            "`nilo leak` names the process; mmap.close(), SharedMemory.close() and unlink(), or write to disk",
        ),
        false => found(
            "Look for objects retained across steps: losses with their graph, lists of outputs, unbounded caches",
            "`nilo leak` names the process; loss.item() instead of loss in lists, functools.lru_cache(maxsize=...)",
        ),
    }
}

fn forecast(host: &HostFacts) -> Option<String> {
    let limit = host.leak_limit_bytes.or(host.limit_bytes)?;
    let (secs, confidence) = (host.leak_limit_seconds?, host.leak_limit_confidence?);
    Some(format!(
        "at this rate the limit of {} is reached in {}, with a confidence of {confidence:.2}",
        format_bytes(limit),
        duration_in_words(secs),
    ))
}

/// Of the job's memory alone: the limit is that of the job.
fn time_after_peak(host: &HostFacts, rate: f64) -> Option<String> {
    let is_of_job = host.leak_resource.as_deref().is_none_or(|name| name == JOB);
    let (limit, peak) = (host.limit_bytes.filter(|_| is_of_job)?, host.peak_bytes?);
    // Others may use the limit as well.
    let used = host.limit_used_bytes.unwrap_or(peak).max(peak);
    let left = limit - used;
    (left > 0.0).then(|| {
        format!(
            "at this rate the limit of {} is reached {} after the peak of {}",
            format_bytes(limit),
            seconds(left / rate),
            format_bytes(used)
        )
    })
}
