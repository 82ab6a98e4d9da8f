//! What a job held of its cgroup's limit at its peak.
//!
//! A tree's memory counts file pages that are charged to another cgroup, such as libraries that somebody else read first: it may exceed a limit that held.
//! So a share of a cgroup's limit rests on what the kernel counted there.

use nilo_sample::{Limit, LimitSource, Recording, Subject};

use crate::ending::limit_in_force;

/// What of a peak of the tree counts against the limit in force; all of it where no cgroup limits the job.
pub(crate) fn held_of_limit(recording: &Recording, peak_bytes: f64) -> f64 {
    match limit_in_force(recording) {
        Some(Limit {
            bytes,
            source: LimitSource::Cgroup { path, .. },
        }) => held_of_cgroup(recording, &path, bytes, peak_bytes),
        _ => peak_bytes,
    }
}

/// The same for the limit of a cgroup by its path.
pub(crate) fn held_of_cgroup(
    recording: &Recording,
    path: &str,
    limit_bytes: u64,
    peak_bytes: f64,
) -> f64 {
    let table = recording.table(&Subject::Cgroup {
        path: path.to_owned(),
    });
    // The kernel's own mark, which is read less often than usage, bounds what anybody in the cgroup held.
    // Kernels without one still let nothing be charged above the limit.
    let most = |column| Some(table?.series(column)?.max()?.1);
    let bound = match most("peak_bytes") {
        Some(mark) => most("usage_bytes").map_or(mark, |usage| usage.max(mark)),
        None => limit_bytes as f64,
    };
    peak_bytes.min(bound)
}
