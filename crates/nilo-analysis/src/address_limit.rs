//! What counts against a limit of addresses (`RLIMIT_AS`, `RLIMIT_DATA`): what one process has mapped, touched or not.
//!
//! Such a limit holds for each process alone, and resident memory says nothing of it: memory that nobody has touched counts as well.
//! `nilo show`, `runs`, `request` and the findings take the share of such a limit from here, through `held_of_limit.rs`.

use nilo_sample::{Limit, LimitCounts, RecordedTable, Recording, Subject};

use crate::peak::told_by_wait;
use crate::process_peaks::resident_peaks;

/// A process may end up to so many samples after the last one: the last tick may be late.
const SAMPLES_MISSED: f64 = 2.0;

/// The process that came nearest to such a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NearestProcess {
    pub(crate) time_nanos: u64,
    pub(crate) pid: u32,
    pub(crate) bytes: f64,
}

/// The most that a process had from a time on; nothing where it was not recorded, or where the limit is one of memory.
///
/// A process above the limit is not held by it: the kernel refuses what would pass it.
pub(crate) fn nearest_process(
    recording: &Recording,
    limit: &Limit,
    from_nanos: u64,
) -> Option<NearestProcess> {
    let counts = limit.source.counts();
    let is_held = |bytes: f64| bytes <= limit.bytes as f64;
    let of_table = |table: &RecordedTable| {
        let (pid, column) = counted_column(&table.spec.subject, counts)?;
        let levels = table.series(column)?.present();
        let levels = levels.filter(|(_, bytes)| is_held(*bytes));
        // Only changes are written: the level before that time reaches into it.
        let (before, within): (Vec<_>, Vec<_>) = levels.partition(|(time, _)| *time < from_nanos);
        let levels = before.last().copied().into_iter().chain(within);
        let (time_nanos, bytes) = levels.max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some(NearestProcess {
            time_nanos,
            pid,
            bytes,
        })
    };
    let processes = recording.tables.iter().filter_map(of_table);
    let nearest = processes.max_by(|one, other| one.bytes.total_cmp(&other.bytes))?;
    if counts != LimitCounts::AddressSpace || from_nanos != 0 {
        return Some(nearest);
    }
    // All that is resident lies in the address space. Where less was read of that, the process may have grown since the last sample;
    // a difference that its growth does not explain is that of another program: addresses were read before this one had begun.
    let resident_bytes = largest_resident(recording, limit);
    let unread = resident_bytes - nearest.bytes;
    let may_have_risen = SAMPLES_MISSED * largest_rise(recording, limit, nearest.pid, 0);
    (unread <= may_have_risen.max(0.0)).then_some(NearestProcess {
        bytes: nearest.bytes.max(resident_bytes),
        ..nearest
    })
}

/// The most that one process below the limit held in memory.
fn largest_resident(recording: &Recording, limit: &Limit) -> f64 {
    let marks = resident_peaks(recording).into_values();
    let marks = marks.map(|peak| peak.bytes).chain(told_by_wait(recording));
    marks
        .filter(|bytes| *bytes <= limit.bytes as f64)
        .fold(0.0, f64::max)
}

/// The most that a process has risen by from one sample to the next, from a time on.
pub(crate) fn largest_rise(recording: &Recording, limit: &Limit, pid: u32, from_nanos: u64) -> f64 {
    let counts = limit.source.counts();
    let of_table = |table: &RecordedTable| {
        let (_, column) =
            counted_column(&table.spec.subject, counts).filter(|counted| counted.0 == pid)?;
        let levels: Vec<_> = table.series(column)?.present().collect();
        let rises = levels.windows(2).filter(|pair| pair[1].0 >= from_nanos);
        rises.map(|pair| pair[1].1 - pair[0].1).reduce(f64::max)
    };
    let tables = recording.tables.iter().filter_map(of_table);
    tables.fold(0.0, f64::max)
}

/// The column of a process's table in which this is recorded: the mark of the kernel once a second, and samples.
fn counted_column(subject: &Subject, counts: LimitCounts) -> Option<(u32, &'static str)> {
    match (subject, counts) {
        (Subject::Process(id), LimitCounts::AddressSpace) => Some((id.pid, "virtual_bytes")),
        (Subject::ProcessDetail(id), LimitCounts::AddressSpace) => {
            Some((id.pid, "peak_virtual_bytes"))
        }
        (Subject::ProcessDetail(id), LimitCounts::DataSize) => Some((id.pid, "data_bytes")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::rows::{ProcessDetailRow, ProcessRow};
    use nilo_sample::{ABSENT, LimitSource, ProcessId, TableSpec, fixture};

    fn limit(resource: &str, bytes: u64) -> Limit {
        Limit {
            bytes,
            source: LimitSource::Rlimit {
                resource: resource.to_owned(),
            },
        }
    }

    fn recording() -> Recording {
        let id = |pid| ProcessId {
            pid,
            start_ticks: 1,
        };
        let row = |virtual_bytes| ProcessRow {
            rss_bytes: 5.0,
            virtual_bytes,
            ..ProcessRow::ABSENT
        };
        let mark = ProcessDetailRow {
            peak_virtual_bytes: 97.0,
            data_bytes: 60.0,
            ..ProcessDetailRow::ABSENT
        };
        let mut recording = fixture::recording();
        recording.tables = vec![
            fixture::table_of(TableSpec::process(id(7)), &[(1, row(90.0)), (2, row(80.0))]),
            fixture::table_of(TableSpec::process_detail(id(7)), &[(1, mark)]),
            fixture::table_of(TableSpec::process(id(8)), &[(1, row(150.0))]),
        ];
        recording
    }

    #[test]
    fn the_mark_of_the_kernel_counts_and_processes_above_the_limit_are_not_held_by_it() {
        let nearest = nearest_process(&recording(), &limit("as", 100), 0).unwrap();
        assert_eq!((nearest.pid, nearest.bytes), (7, 97.0));
        let data = nearest_process(&recording(), &limit("data", 100), 0).unwrap();
        assert_eq!(data.bytes, 60.0);
    }

    #[test]
    fn addresses_that_were_read_before_the_program_began_are_no_share() {
        let mut recording = recording();
        let told = |bytes| fixture::tree(&[(1, 5.0, ABSENT, 0.0), (3, ABSENT, bytes, ABSENT)]);
        recording.tables.push(told(96.0));
        assert!(nearest_process(&recording, &limit("as", 100), 0).is_some());
        // What the kernel tells of the process that ended is more than all that was read of its addresses.
        *recording.tables.last_mut().unwrap() = told(98.0);
        assert_eq!(nearest_process(&recording, &limit("as", 100), 0), None);
    }

    #[test]
    fn what_a_process_rose_by_after_its_last_sample_counts_as_far_as_it_is_resident() {
        let mut recording = recording();
        let row = |virtual_bytes| ProcessRow {
            rss_bytes: 5.0,
            virtual_bytes,
            ..ProcessRow::ABSENT
        };
        let id = ProcessId {
            pid: 7,
            start_ticks: 1,
        };
        let told = |bytes| fixture::tree(&[(1, 5.0, ABSENT, 0.0), (9, ABSENT, bytes, ABSENT)]);
        let rising = [(1, row(80.0)), (2, row(82.0)), (3, row(94.0))];
        recording.tables = vec![
            fixture::table_of(TableSpec::process(id), &rising),
            told(98.0),
        ];
        let nearest = nearest_process(&recording, &limit("as", 100), 0).unwrap();
        assert_eq!((nearest.pid, nearest.bytes), (7, 98.0));
        // More than its growth explains.
        let steady = [(1, row(20.0)), (2, row(22.0))];
        recording.tables[0] = fixture::table_of(TableSpec::process(id), &steady);
        assert_eq!(nearest_process(&recording, &limit("as", 100), 0), None);
    }

    #[test]
    fn what_was_not_recorded_has_no_share() {
        let mut older = recording();
        older.tables.retain(|table| {
            let is_detail = matches!(table.spec.subject, Subject::ProcessDetail(_));
            !is_detail
        });
        assert_eq!(nearest_process(&older, &limit("data", 100), 0), None);
        let host = Limit {
            bytes: 100,
            source: LimitSource::Host,
        };
        assert_eq!(nearest_process(&recording(), &host, 0), None);
    }
}
