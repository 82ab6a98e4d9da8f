//! The peak that counts for a request: memory that the kernel cannot take back when it runs short.
//!
//! Page cache can be dropped, so it is left out; anonymous and shared memory and what was swapped out cannot, so they are in.
//! The job's own cgroup knows all of these, files in `/dev/shm` that no process has mapped included; the process tree knows its part.
//! They are added up from the cgroup's parts and not taken from its usage: usage is read more often than its parts,
//! and less an old figure for the page cache it would count files written since then.

use nilo_sample::{RecordedTable, Recording, Subject, is_absent};

use nilo_analysis::owned_cgroup::owned_cgroup_table;
use nilo_analysis::peak::PeakKind;
use nilo_analysis::summary::MemorySummary;

/// A peak and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UnreclaimablePeak {
    pub(crate) bytes: u64,
    pub(crate) kind: PeakKind,
}

/// The largest of what the summary found, the tree with its swap, and the job's own cgroup without page cache.
pub(crate) fn unreclaimable_peak(
    recording: &Recording,
    memory: &MemorySummary,
) -> Option<UnreclaimablePeak> {
    let summary = memory.peak_bytes.map(|bytes| {
        (
            bytes as f64,
            memory.peak_kind.unwrap_or(PeakKind::SampledRss),
        )
    });
    let tree = recording
        .table(&Subject::Tree)
        .and_then(|table| largest_sum(table, "memory_bytes", &["swap_bytes"]))
        .map(|bytes| (bytes, PeakKind::SampledWithSwap));
    let cgroup = owned_cgroup_table(recording)
        .and_then(|table| {
            unreclaimable_levels(table)?
                .map(|(_, sum)| sum)
                .reduce(f64::max)
        })
        .map(|bytes| (bytes, PeakKind::CgroupUnreclaimable));
    let best = [summary, tree, cgroup]
        .into_iter()
        .flatten()
        .filter(|(bytes, _)| bytes.is_finite() && *bytes > 0.0)
        // The first stays unless another is really larger, so that rounding does not change the kind.
        .reduce(|best, next| if next.0 > best.0 * 1.001 { next } else { best });
    best.map(|(bytes, kind)| UnreclaimablePeak {
        bytes: bytes as u64,
        kind,
    })
}

/// What of the charge of a cgroup the kernel cannot take back, over time.
pub(crate) fn unreclaimable_levels(
    cgroup: &RecordedTable,
) -> Option<impl Iterator<Item = (u64, f64)>> {
    sums(cgroup, "anon_bytes", &["shmem_bytes", "swap_bytes"])
}

fn largest_sum(table: &RecordedTable, first: &str, others: &[&str]) -> Option<f64> {
    let sums = sums(table, first, others)?.map(|(_, sum)| sum);
    sums.reduce(f64::max)
}

/// The sum of columns in each row in which the first was read; the others count as far as they were.
fn sums<'a>(
    table: &'a RecordedTable,
    first: &str,
    others: &[&str],
) -> Option<impl Iterator<Item = (u64, f64)> + use<'a>> {
    let first = table.series(first)?.values;
    let others: Vec<&[f64]> = others
        .iter()
        .filter_map(|name| table.series(name))
        .map(|series| series.values)
        .collect();
    let value = |values: &[f64], row: usize| values.get(row).copied().filter(|v| !is_absent(*v));
    let sum = move |row: usize| {
        let further = others.iter().filter_map(|values| value(values, row));
        let sum = value(first, row)? + further.sum::<f64>();
        sum.is_finite().then_some((table.times[row], sum))
    };
    Some((0..table.times.len()).filter_map(sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::fixture;
    use nilo_sample::rows::{CgroupRow, TreeRow};
    use nilo_sample::{ABSENT, TableSpec};

    fn memory(peak: u64) -> MemorySummary {
        MemorySummary {
            peak_bytes: Some(peak),
            peak_kind: Some(PeakKind::Vmhwm),
            ..MemorySummary::default()
        }
    }

    fn cgroup_row(usage: f64, anon: f64, shmem: f64, swap: f64) -> CgroupRow {
        CgroupRow {
            usage_bytes: usage,
            working_set_bytes: usage,
            anon_bytes: anon,
            file_bytes: 500.0,
            shmem_bytes: shmem,
            swap_bytes: swap,
            owned: 1.0,
            ..CgroupRow::ABSENT
        }
    }

    #[test]
    fn page_cache_is_out_and_shared_memory_and_swap_are_in() {
        let mut table = fixture::table(TableSpec::cgroup("/job"));
        fixture::tick(&mut table, 0, cgroup_row(900.0, 400.0, 100.0, 50.0));
        // Usage that ran ahead of its parts is page cache that was not counted yet.
        fixture::tick(&mut table, 1, cgroup_row(5000.0, 400.0, 100.0, 50.0));
        fixture::tick(&mut table, 2, cgroup_row(9000.0, ABSENT, ABSENT, 0.0));
        let mut recording = fixture::recording();
        recording.tables = vec![table];
        let found = unreclaimable_peak(&recording, &memory(400)).unwrap();
        assert_eq!(
            (found.bytes, found.kind),
            (550, PeakKind::CgroupUnreclaimable)
        );
        let found = unreclaimable_peak(&recording, &memory(600)).unwrap();
        assert_eq!((found.bytes, found.kind), (600, PeakKind::Vmhwm));
    }

    #[test]
    fn swap_of_the_tree_counts_at_the_time_it_was_there() {
        let mut tree = fixture::table(TableSpec::tree());
        fixture::tick(&mut tree, 0, fixture::level(500.0));
        let swapped = TreeRow {
            swap_bytes: 250.0,
            ..fixture::level(300.0)
        };
        fixture::tick(&mut tree, 1, swapped);
        let mut recording = fixture::recording();
        recording.tables = vec![tree];
        let found = unreclaimable_peak(&recording, &memory(500)).unwrap();
        assert_eq!((found.bytes, found.kind), (550, PeakKind::SampledWithSwap));
    }

    #[test]
    fn nothing_measured_has_no_peak() {
        let found = unreclaimable_peak(&fixture::recording(), &MemorySummary::default());
        assert_eq!(found, None);
    }
}
