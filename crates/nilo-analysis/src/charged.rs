//! What counts against a cgroup's limit: all that the kernel charges to it less page cache, which it drops before it kills.
//!
//! This is the figure behind every share of such a limit: `nilo show`, `runs`, `request` and the plot take it from here,
//! and the readings of `nilo oom` are the same sum. Files in tmpfs are charged, in nobody's pages, and cannot be dropped.

use nilo_sample::{LimitSource, RecordedTable, Recording, Subject};

use crate::ending::limit_in_force;
use crate::owned_cgroup::is_owned;

/// Columns that the kernel tells together, once a second and when usage moves. Usage is read on every tick:
/// less an old figure for page cache, it would count files that were read since then.
const READ_TOGETHER: [&str; 3] = ["anon_bytes", "file_bytes", "shmem_bytes"];

/// Whether the parts of a cgroup's usage were read for a row of its table, as far as that can be seen: one of them changed.
pub fn were_parts_read(cgroup: &RecordedTable) -> impl Fn(usize) -> bool + use<'_> {
    let parts: Vec<&[f64]> = READ_TOGETHER
        .iter()
        .filter_map(|name| cgroup.series(name))
        .map(|series| series.values)
        .collect();
    move |row: usize| {
        let changed = |values: &&[f64]| values[row].to_bits() != values[row - 1].to_bits();
        row == 0 || parts.iter().any(changed)
    }
}

/// What counted against the limit in force over time, where a cgroup sets it; by whoever is in that cgroup.
pub fn charged_to_limit(recording: &Recording) -> Option<Vec<(u64, f64)>> {
    let cgroup = limiting_cgroup(recording)?;
    Some(charged_levels(cgroup, recording.thinned_nanos))
}

/// The same where that cgroup holds nobody but the job.
pub(crate) fn charged_to_own_limit(recording: &Recording) -> Option<Vec<(u64, f64)>> {
    let cgroup = limiting_cgroup(recording).filter(|cgroup| is_owned(cgroup))?;
    Some(charged_levels(cgroup, recording.thinned_nanos))
}

fn limiting_cgroup(recording: &Recording) -> Option<&RecordedTable> {
    match limit_in_force(recording)?.source {
        LimitSource::Cgroup { path, .. } => recording.table(&Subject::Cgroup { path }),
        LimitSource::Host | LimitSource::Rlimit { .. } => None,
    }
}

/// The levels of a cgroup, at each time that its parts were read.
///
/// Points of a thinned recording are put together from a stretch of time: there the most page cache of that stretch is left out.
pub(crate) fn charged_levels(cgroup: &RecordedTable, thinned_nanos: u64) -> Vec<(u64, f64)> {
    let Some(usage) = cgroup.series("usage_bytes") else {
        return Vec::new();
    };
    let value = |column: &str, row: usize| {
        let value = cgroup.series(column)?.values.get(row).copied()?;
        value.is_finite().then_some(value)
    };
    let was_read = were_parts_read(cgroup);
    let caches: Vec<(u64, f64, f64)> = (0..usage.times.len())
        .filter(|row| was_read(*row))
        .filter_map(|row| {
            let usage_bytes = value("usage_bytes", row)?;
            let files = value("file_bytes", row).unwrap_or(0.0);
            let cache = (files - value("shmem_bytes", row).unwrap_or(0.0)).max(0.0);
            Some((usage.times[row], usage_bytes, cache))
        })
        .collect();
    let mut first = 0;
    let levels = caches.iter().enumerate().map(|(row, (time, usage, _))| {
        while time.saturating_sub(caches[first].0) > thinned_nanos {
            first += 1;
        }
        let after = caches[row..].iter();
        let after = after.take_while(|(later, ..)| later.saturating_sub(*time) <= thinned_nanos);
        let near = caches[first..row].iter().chain(after);
        let cache = near.map(|(_, _, cache)| *cache).fold(0.0, f64::max);
        (*time, (usage - cache).max(0.0))
    });
    levels.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::rows::CgroupRow;
    use nilo_sample::{TableSpec, fixture};

    fn row(usage: f64, anon: f64, file: f64, shmem: f64) -> CgroupRow {
        CgroupRow {
            usage_bytes: usage,
            anon_bytes: anon,
            file_bytes: file,
            shmem_bytes: shmem,
            ..CgroupRow::ABSENT
        }
    }

    #[test]
    fn files_in_memory_count_and_page_cache_does_not() {
        let rows = [
            (0, row(110.0, 10.0, 100.0, 80.0)),
            // Usage moved, and what it is was not read yet.
            (1, row(400.0, 10.0, 100.0, 80.0)),
            (2, row(410.0, 12.0, 390.0, 80.0)),
        ];
        let table = fixture::table_of(TableSpec::cgroup("/job"), &rows);
        assert_eq!(charged_levels(&table, 0), [(0, 90.0), (2, 100.0)]);
    }

    #[test]
    fn points_of_a_thinned_recording_are_judged_by_their_stretch() {
        // The highest usage and the most page cache of a stretch stand in rows of their own.
        let rows = [
            (0, row(500.0, 10.0, 0.0, 0.0)),
            (1, row(20.0, 11.0, 480.0, 0.0)),
            (9, row(30.0, 12.0, 0.0, 0.0)),
        ];
        let table = fixture::table_of(TableSpec::cgroup("/job"), &rows);
        assert_eq!(charged_levels(&table, 2), [(0, 20.0), (1, 0.0), (9, 30.0)]);
    }
}
