//! What to do about a resource that runs out: what its growth says, and what its files in memory say.

use super::{RanOut, RanOutKind};
use crate::gpu_oom::GpuOomKind;
use crate::tracking::{Resource, ResourceVerdict};
use nilo_forecast::words::recommendations;
use nilo_forecast::{Cause, Growth, GrowthKind};

/// Files in memory filled a limit that ran out from this share of it on.
const MOSTLY: f64 = 0.5;

/// Advice about `/dev/shm` itself.
const SHARED_MEMORY: [&str; 2] = [
    "Delete files in /dev/shm that are no longer needed, or write them to disk",
    "Use fewer DataLoader workers or a smaller prefetch_factor, or give the container a larger /dev/shm (--shm-size)",
];
/// Advice about a limit that files in memory fill.
const TMPFS: [&str; 2] = [
    "Delete files in /dev/shm and other tmpfs that are no longer needed, or write them to disk: they count against the limit",
    "Request more memory next time (`nilo request`)",
];

/// Advice about `RLIMIT_AS`.
const ADDRESS_SPACE: [&str; 2] = [
    "Map less at once: memory that is never touched counts against RLIMIT_AS as well",
    "Raise the limit (`ulimit -v`), or limit memory by a cgroup instead",
];

/// Advice about `RLIMIT_DATA`.
const DATA_SIZE: [&str; 2] = [
    "Allocate less at once: memory that is never touched counts against RLIMIT_DATA as well",
    "Raise the limit (`ulimit -d`), or limit memory by a cgroup instead",
];

/// What to do about a resource, the first thing first.
pub(crate) fn advice(
    verdict: &ResourceVerdict,
    cause: Option<Cause>,
    ran_out: Option<&RanOut>,
) -> Vec<&'static str> {
    if let Some(cause) = ran_out.and_then(|ran_out| ran_out.gpu_cause.as_ref()) {
        return cause.kind.advice().to_vec();
    }
    // Of an allocation that failed for no reason that is known, the rules say to make the step fit.
    let failed = ran_out.is_some_and(|ran_out| ran_out.kind == RanOutKind::GpuAllocation);
    if failed && cause.is_none() {
        return GpuOomKind::FirstStep.advice().to_vec();
    }
    let filled_by_files = ran_out
        .and_then(|ran_out| ran_out.limit_use)
        .is_some_and(|limit_use| {
            let files = limit_use.tmpfs_bytes().unwrap_or(0) as f64;
            files >= MOSTLY * limit_use.peak_bytes as f64
        });
    let of_growth = matches!(cause, Some(Cause::Growth | Cause::Leak)) && verdict.grows_in_tmpfs();
    match verdict.resource {
        Resource::SharedMemory if cause.is_some() => SHARED_MEMORY.to_vec(),
        Resource::AddressSpace => ADDRESS_SPACE.to_vec(),
        Resource::DataSize => DATA_SIZE.to_vec(),
        _ if filled_by_files || of_growth => TMPFS.to_vec(),
        _ => recommendations(cause, verdict.resource.is_gpu()),
    }
}

/// What drove a resource to its end: growth that led there, where there was one, whatever the last forecast looked at.
pub(super) fn cause_of_end(ran_out: &RanOut, predicted: Option<Cause>) -> Option<Cause> {
    match ran_out.growth {
        Some(Growth {
            kind: GrowthKind::Leak,
            ..
        }) => Some(Cause::Leak),
        Some(_) => predicted.or(Some(Cause::Growth)),
        None => predicted,
    }
}
