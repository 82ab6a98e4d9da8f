//! The level below which memory stays 95 % of the time: what a Kubernetes request is for.

use nilo_sample::{RecordedTable, Recording, Subject};

use nilo_analysis::charged::were_parts_read;
use nilo_analysis::owned_cgroup::owned_cgroup_table;

/// The share of time that the level covers.
const SHARE: f64 = 0.95;

/// The working set of the job's own cgroup where it was read, else the tree's memory.
pub(crate) fn usual_level_bytes(recording: &Recording, end_nanos: u64) -> Option<u64> {
    let of_tree = || {
        let series = recording.table(&Subject::Tree)?.series("memory_bytes")?;
        level_over_time(series.present(), end_nanos)
    };
    owned_cgroup_table(recording)
        .and_then(|table| level_over_time(working_sets(table)?, end_nanos))
        .or_else(of_tree)
        .map(|bytes| bytes as u64)
}

/// The working set in those rows in which it was read: between them usage moves, and the page cache in it is an old figure.
fn working_sets(table: &RecordedTable) -> Option<impl Iterator<Item = (u64, f64)>> {
    let was_read = were_parts_read(table);
    let sets = table.series("working_set_bytes")?;
    let rows = sets.times.iter().zip(sets.values).enumerate();
    let read = rows.filter(move |(row, _)| was_read(*row));
    Some(read.map(|(_, (time, value))| (*time, *value)))
}

/// The quantile of a level that holds from each reading to the next, the last one to the end.
fn level_over_time(points: impl Iterator<Item = (u64, f64)>, end_nanos: u64) -> Option<f64> {
    let points: Vec<(u64, f64)> = points
        .filter(|(_, value)| value.is_finite() && *value >= 0.0)
        .collect();
    let mut spans: Vec<(f64, u64)> = Vec::with_capacity(points.len());
    for (place, (time, value)) in points.iter().enumerate() {
        let until = points.get(place + 1).map_or(end_nanos, |next| next.0);
        spans.push((*value, until.saturating_sub(*time)));
    }
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = spans.iter().map(|(_, span)| *span as f64).sum();
    let mut passed = 0.0;
    for (value, span) in &spans {
        passed += *span as f64;
        if passed >= SHARE * total {
            return Some(*value);
        }
    }
    spans.last().map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::fixture;
    use nilo_sample::rows::CgroupRow;
    use nilo_sample::{TableSpec, TypedRow};

    fn level(points: &[(u64, f64)], end: u64) -> Option<f64> {
        level_over_time(points.iter().copied(), end)
    }

    #[test]
    fn a_working_set_counts_where_it_was_read() {
        let mut table = fixture::table(TableSpec::cgroup("/job"));
        for (time, working_set_bytes, file_bytes) in
            [(0, 10.0, 1.0), (1, 500.0, 1.0), (900, 20.0, 600.0)]
        {
            let row = CgroupRow {
                working_set_bytes,
                file_bytes,
                ..CgroupRow::by_name(|_| 0.0)
            };
            fixture::tick(&mut table, time, row);
        }
        let sets: Vec<(u64, f64)> = working_sets(&table).unwrap().collect();
        assert_eq!(sets, [(0, 10.0), (900, 20.0)]);
    }

    #[test]
    fn a_short_spike_is_left_out_and_a_long_plateau_is_not() {
        assert_eq!(
            level(&[(0, 10.0), (500, 90.0), (510, 10.0)], 1000),
            Some(10.0)
        );
        assert_eq!(
            level(&[(0, 10.0), (500, 90.0), (600, 10.0)], 1000),
            Some(90.0)
        );
    }

    #[test]
    fn a_level_that_never_changed_has_one_reading() {
        assert_eq!(level(&[(3, 7.0)], 1000), Some(7.0));
        assert_eq!(level(&[(3, 7.0)], 0), Some(7.0));
        assert_eq!(level(&[], 1000), None);
    }
}
