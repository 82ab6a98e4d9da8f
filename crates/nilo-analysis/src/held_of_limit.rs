//! What a job held of its cgroup's limit at its peak.
//!
//! A tree's memory counts file pages that are charged to another cgroup, such as libraries that somebody else read first: it may exceed a limit that held.
//! So a share of a cgroup's limit rests on what the kernel counted there.

use nilo_sample::{Limit, LimitSource, Recording, Subject};

use crate::ending::limit_in_force;
use crate::owned_cgroup::is_owned;

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
    // In a cgroup of its own the job is charged for more than its processes map: files in /dev/shm, kernel memory.
    let charged = table
        .filter(|table| is_owned(table))
        .and_then(|table| Some(table.series("working_set_bytes")?.max()?.1));
    peak_bytes.max(charged.unwrap_or(0.0)).min(bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::rows::CgroupRow;
    use nilo_sample::{TableSpec, fixture};

    #[test]
    fn files_in_memory_count_against_the_limit_of_the_jobs_own_cgroup() {
        let held = |owned: f64| {
            let path = "/job";
            let row = CgroupRow {
                usage_bytes: 205.0,
                working_set_bytes: 199.0,
                peak_bytes: 206.0,
                limit_bytes: 209.0,
                owned,
                ..CgroupRow::ABSENT
            };
            let mut recording = fixture::recording();
            let spec = TableSpec::cgroup(path);
            recording.tables = vec![fixture::table_of(spec, &[(0, row)])];
            held_of_cgroup(&recording, path, 209, 10.0)
        };
        assert_eq!(held(1.0), 199.0);
        assert_eq!(held(0.0), 10.0, "a neighbour's memory is not the job's");
    }
}
