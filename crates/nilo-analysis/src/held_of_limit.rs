//! What a job held of its limit at its peak: the one figure for every share of a limit.
//!
//! Of a cgroup's limit it is what the kernel charged there (`charged.rs`). The tree's memory counts file pages too, which the kernel can drop
//! or charges to another cgroup, such as libraries that somebody else read first: it may exceed a limit that held.
//! Of a limit of addresses (`ulimit -v`) it is what one process has mapped (`address_limit.rs`).
//! In a cgroup that others are in too, the kernel does not tell whose its pages are: there it is the tree's memory.

use nilo_sample::{LimitSource, RecordedTable, Recording, Subject};

use crate::address_limit::nearest_process;
use crate::charged::charged_levels;
use crate::ending::limit_in_force;
use crate::limit_use::risen_mark_bytes;
use crate::owned_cgroup::is_owned;

/// What of a peak of the tree counts against the limit in force; all of it where no cgroup limits the job.
/// Of a limit of addresses it is what one process had mapped, and nothing where that was not recorded.
pub(crate) fn held_of_limit(recording: &Recording, peak_bytes: f64) -> Option<f64> {
    let Some(limit) = limit_in_force(recording) else {
        return Some(peak_bytes);
    };
    match &limit.source {
        LimitSource::Cgroup { path, .. } => {
            Some(held_of_cgroup(recording, path, limit.bytes, peak_bytes))
        }
        LimitSource::Host => Some(peak_bytes),
        LimitSource::Rlimit { .. } => {
            nearest_process(recording, &limit, 0).map(|nearest| nearest.bytes)
        }
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
    let levels = table
        .filter(|table| is_owned(table))
        .map(|table| charged_levels(table, recording.thinned_nanos));
    let fullest = levels.into_iter().flatten();
    let fullest = fullest.reduce(|most, next| if next.1 > most.1 { next } else { most });
    let held = match fullest {
        // A spike between two readings is in the tree's peak alone, less what was not charged here.
        Some((time_nanos, charged)) => {
            let tree = tree_bytes_at(recording, time_nanos).unwrap_or(0.0);
            charged.max(peak_bytes - (tree - charged).max(0.0))
        }
        None => peak_bytes,
    };
    let marked = table
        .filter(|table| is_owned(table))
        .and_then(marked_without_cache);
    held.max(marked.unwrap_or(0.0)).min(bound)
}

/// What the kernel's mark says at the least was held between two readings: it has page cache in it, of which there was never more than this.
fn marked_without_cache(cgroup: &RecordedTable) -> Option<f64> {
    let files = cgroup.series("file_bytes")?.max()?.1;
    Some(risen_mark_bytes(cgroup)? - files)
}

/// The tree's memory as last sampled at a time.
fn tree_bytes_at(recording: &Recording, time_nanos: u64) -> Option<f64> {
    let levels = recording.table(&Subject::Tree)?.series("memory_bytes")?;
    let mut before = levels.present().take_while(|(time, _)| *time <= time_nanos);
    let first = before.next()?;
    Some(before.last().unwrap_or(first).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::rows::CgroupRow;
    use nilo_sample::{TableSpec, fixture};

    fn held(row: CgroupRow, tree: &[(u64, f64, f64, f64)], peak_bytes: f64) -> f64 {
        let mut recording = fixture::recording();
        recording.tables = vec![
            fixture::table_of(TableSpec::cgroup("/job"), &[(1_000_000, row)]),
            fixture::tree(tree),
        ];
        held_of_cgroup(&recording, "/job", 300, peak_bytes)
    }

    const OWN: CgroupRow = CgroupRow {
        usage_bytes: 205.0,
        peak_bytes: 206.0,
        file_bytes: 196.0,
        shmem_bytes: 190.0,
        owned: 1.0,
        ..CgroupRow::ABSENT
    };

    #[test]
    fn files_in_memory_count_against_the_limit_of_the_jobs_own_cgroup() {
        assert_eq!(held(OWN, &[(0, 10.0, 0.0, 0.0)], 10.0), 199.0);
        let shared = CgroupRow { owned: 0.0, ..OWN };
        let alone = held(shared, &[(0, 10.0, 0.0, 0.0)], 10.0);
        assert_eq!(alone, 10.0, "a neighbour's memory is not the job's");
    }

    #[test]
    fn a_spike_between_two_readings_is_in_the_mark_of_the_kernel() {
        let row = |mark: f64| CgroupRow {
            usage_bytes: 100.0,
            peak_bytes: mark,
            file_bytes: 10.0,
            shmem_bytes: 0.0,
            ..OWN
        };
        let spec = TableSpec::cgroup("/job");
        let of = |rows: &[(u64, CgroupRow)]| {
            let mut recording = fixture::recording();
            recording.tables = vec![
                fixture::table_of(spec.clone(), rows),
                fixture::tree(&[(0, 90.0, 0.0, 0.0)]),
            ];
            held_of_cgroup(&recording, "/job", 300, 90.0)
        };
        assert_eq!(of(&[(0, row(100.0)), (9, row(250.0))]), 240.0);
        assert_eq!(of(&[(0, row(250.0)), (9, row(250.0))]), 90.0, "an old mark");
    }

    #[test]
    fn file_pages_that_are_charged_elsewhere_are_no_share_of_the_limit() {
        let row = CgroupRow {
            usage_bytes: 271.0,
            peak_bytes: 290.0,
            file_bytes: 0.0,
            shmem_bytes: 0.0,
            ..OWN
        };
        let tree = [(0, 282.0, 0.0, 0.0)];
        assert_eq!(held(row, &tree, 282.0), 271.0);
        // A mark of the kernel tells of a spike that no reading of the cgroup has.
        assert_eq!(held(row, &tree, 287.0), 276.0);
        assert_eq!(held(row, &tree, 310.0), 290.0);
    }
}
