//! What filled a cgroup's limit when it was fullest: the job's processes are not all that is charged to it.
//!
//! Files in `/dev/shm` and other tmpfs count against the limit and are mapped by nobody once they are written.

use nilo_sample::words::bytes_in_words;
use nilo_sample::{Limit, LimitSource, RecordedTable, Recording, Subject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ending::limit_in_force;
use crate::shared_mappings::without_file_at;

/// Files in memory are worth a word from this share of all that is charged on.
const NOTABLE_SHARE: f64 = 0.05;
/// Parts that add up to less than this share of the peak were read at another time, and do not tell what filled the limit.
const TOLD_SHARE: f64 = 0.9;

/// What was charged to a cgroup when it was fullest, by whoever is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct LimitUse {
    /// The most that was charged at once: the kernel's mark where it rose during the run, or else the largest sample.
    pub peak_bytes: u64,
    /// Anonymous memory of processes in the sample with the most of all parts; absent where that is far below the peak.
    pub anon_bytes: Option<u64>,
    /// Shared memory in that sample: files in `/dev/shm` and other tmpfs, and what processes map without one.
    pub shmem_bytes: Option<u64>,
    /// The part of it that processes map and no file in `/dev/shm` explains; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_mapping_bytes: Option<u64>,
    /// Cached pages of other files in that sample, which the kernel drops before it kills.
    pub page_cache_bytes: Option<u64>,
}

impl LimitUse {
    /// Of the cgroup that sets the limit in force; nothing where no cgroup does.
    pub(crate) fn of_limit(recording: &Recording) -> Option<LimitUse> {
        match limit_in_force(recording)? {
            Limit {
                source: LimitSource::Cgroup { path, .. },
                ..
            } => LimitUse::of_cgroup(recording, &path),
            _ => None,
        }
    }

    /// Of a cgroup by its path.
    pub(crate) fn of_cgroup(recording: &Recording, path: &str) -> Option<LimitUse> {
        let path = path.to_owned();
        let table = recording.table(&Subject::Cgroup { path })?;
        let peak_bytes = most_charged_bytes(table)?;
        let value = |column: &str, row: usize| {
            let value = table.series(column)?.values.get(row).copied()?;
            (value.is_finite() && value >= 0.0).then_some(value)
        };
        // Not the row of the highest usage: it is read before its parts, and a kill may fall between the two.
        let filled = |row: &usize| value("anon_bytes", *row).zip(value("file_bytes", *row));
        let sums = (0..table.times.len()).filter_map(|row| Some((row, filled(&row)?)));
        let sums = sums.map(|(row, (anon, files))| (row, anon + files));
        let fullest = sums.reduce(|most, next| if next.1 > most.1 { next } else { most });
        let row = fullest.filter(|(_, sum)| *sum >= TOLD_SHARE * peak_bytes);
        let at = |column: &str| value(column, row?.0).map(|value| value as u64);
        let shmem_bytes = at("shmem_bytes");
        let files = at("file_bytes");
        Some(LimitUse {
            peak_bytes: peak_bytes as u64,
            anon_bytes: at("anon_bytes"),
            shmem_bytes,
            shared_mapping_bytes: row
                .and_then(|(row, _)| without_file_at(recording, table, row))
                .map(|bytes| bytes as u64),
            page_cache_bytes: files.map(|files| files.saturating_sub(shmem_bytes.unwrap_or(0))),
        })
    }

    /// The same where the limit ran out: all of it was charged then, and neither a sample nor the memory of a process tells that.
    /// A limit that was far from full by all that was seen is not what ran out.
    pub(crate) fn when_it_ran_out(
        self,
        limit_bytes: Option<u64>,
        held_bytes: Option<u64>,
    ) -> LimitUse {
        let seen = self.peak_bytes.max(held_bytes.unwrap_or(0));
        let limit = limit_bytes.filter(|limit| seen as f64 >= TOLD_SHARE * *limit as f64);
        LimitUse {
            peak_bytes: limit.unwrap_or(self.peak_bytes),
            ..self
        }
    }

    /// Files in memory: shared memory less what processes map without one.
    pub(crate) fn tmpfs_bytes(&self) -> Option<u64> {
        let mapped = self.shared_mapping_bytes.unwrap_or(0);
        Some(self.shmem_bytes?.saturating_sub(mapped))
    }

    /// `190 MiB of it in /dev/shm and other tmpfs`, `190 MiB of it shared memory that processes map (no file)`, or both; nothing where that is little.
    pub fn files_in_words(&self) -> Option<String> {
        let is_notable =
            |bytes: &u64| *bytes as f64 >= NOTABLE_SHARE * self.peak_bytes as f64 && *bytes > 0;
        let files = self.tmpfs_bytes().filter(is_notable).map(|bytes| {
            let bytes = bytes_in_words(bytes as f64);
            format!("{bytes} of it in /dev/shm and other tmpfs")
        });
        let mapped = self.shared_mapping_bytes.filter(is_notable).map(|bytes| {
            let bytes = bytes_in_words(bytes as f64);
            format!("{bytes} of it shared memory that processes map (no file)")
        });
        let told: Vec<String> = files.into_iter().chain(mapped).collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

/// The most that was charged to a cgroup at once. A mark from before the run says nothing about it.
pub(crate) fn most_charged_bytes(cgroup: &RecordedTable) -> Option<f64> {
    let (_, usage) = cgroup.series("usage_bytes")?.max()?;
    Some(risen_mark_bytes(cgroup).map_or(usage, |mark| mark.max(usage)))
}

/// The most that was ever charged to a cgroup, before the run as well.
pub(crate) fn most_marked_bytes(cgroup: &RecordedTable) -> Option<f64> {
    let most = |column: &str| Some(cgroup.series(column)?.max()?.1);
    let each = [most("usage_bytes"), most("peak_bytes")];
    each.into_iter().flatten().reduce(f64::max)
}

/// The kernel's mark of a cgroup, where it rose during the run. It is read less often than usage, which it is never below.
pub(crate) fn risen_mark_bytes(cgroup: &RecordedTable) -> Option<f64> {
    let marks = cgroup.series("peak_bytes")?;
    let (_, first) = marks.present().next()?;
    let (_, highest) = marks.max()?;
    let usage = cgroup.series("usage_bytes").and_then(|usage| usage.max());
    let highest = usage.map_or(highest, |(_, usage)| usage.max(highest));
    (highest > first).then_some(highest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::rows::{CgroupRow, HostRow};
    use nilo_sample::{ABSENT, TableSpec, fixture};

    const MIB: f64 = 1048576.0;

    fn row(usage: f64, mark: f64, shmem: f64) -> CgroupRow {
        CgroupRow {
            usage_bytes: usage * MIB,
            working_set_bytes: (usage - 1.0) * MIB,
            peak_bytes: mark * MIB,
            limit_bytes: 200.0 * MIB,
            anon_bytes: 9.0 * MIB,
            file_bytes: (shmem + 2.0) * MIB,
            shmem_bytes: shmem * MIB,
            owned: 0.0,
            ..CgroupRow::ABSENT
        }
    }

    fn of(rows: &[(u64, CgroupRow)]) -> LimitUse {
        let mut recording = fixture::recording();
        recording.tables = vec![fixture::table_of(TableSpec::cgroup("/job"), rows)];
        LimitUse::of_cgroup(&recording, "/job").unwrap()
    }

    #[test]
    fn files_in_memory_are_told_from_the_fullest_sample() {
        let told = of(&[
            (0, row(20.0, 20.0, 9.0)),
            (1, row(195.0, 200.0, 180.0)),
            (2, row(12.0, 200.0, 0.0)),
        ]);
        assert_eq!(told.peak_bytes, 200 << 20);
        assert_eq!(told.shmem_bytes, Some(180 << 20));
        assert_eq!(told.page_cache_bytes, Some(2 << 20));
        let words = told.files_in_words();
        let expected = "180 MiB of it in /dev/shm and other tmpfs";
        assert_eq!(words.as_deref(), Some(expected));
        assert_eq!(of(&[(0, row(50.0, 50.0, 0.0))]).files_in_words(), None);
    }

    #[test]
    fn shared_memory_without_a_file_is_told_apart_from_files() {
        let mut recording = fixture::recording();
        let dev_shm = |used: f64| HostRow {
            shm_used_bytes: used * MIB,
            ..HostRow::ABSENT
        };
        let mut told = |used: f64, tree: f64| {
            recording.tables = vec![
                fixture::table_of(
                    TableSpec::cgroup("/job"),
                    &[
                        (0, row(20.0, 20.0, 1.0)),
                        (2_000_000, row(195.0, 200.0, 180.0)),
                    ],
                ),
                fixture::table_of(
                    TableSpec::host(),
                    &[(0, dev_shm(1.0)), (2_000_000, dev_shm(used))],
                ),
                fixture::tree(&[(0, 20.0 * MIB, 0.0, 0.0), (2, tree * MIB, 0.0, 0.0)]),
            ];
            let told = LimitUse::of_cgroup(&recording, "/job").unwrap();
            (
                told.shared_mapping_bytes.unwrap() >> 20,
                told.files_in_words().unwrap(),
            )
        };
        let mapped = "180 MiB of it shared memory that processes map (no file)";
        let file = "180 MiB of it in /dev/shm and other tmpfs";
        assert_eq!(told(0.0, 199.0), (180, mapped.to_owned()));
        assert_eq!(told(180.0, 199.0), (0, file.to_owned()));
        assert_eq!(told(0.0, 19.0), (0, file.to_owned()), "nobody maps it");
    }

    #[test]
    fn parts_that_were_read_after_the_kill_are_left_out() {
        let killed = |usage: f64, anon: f64| CgroupRow {
            anon_bytes: anon * MIB,
            ..row(usage, 200.0, 0.0)
        };
        // Usage was read before the kill, and what it consists of behind it.
        let told = of(&[(0, killed(190.0, 186.0)), (1, killed(200.0, 7.5))]);
        assert_eq!(told.anon_bytes, Some(186 << 20));
        let told = of(&[(0, killed(90.0, 86.0)), (1, killed(200.0, 7.5))]);
        assert_eq!((told.anon_bytes, told.page_cache_bytes), (None, None));
        assert_eq!(told.peak_bytes, 200 << 20);
    }

    #[test]
    fn a_mark_is_never_below_a_sample_and_an_old_one_says_nothing() {
        let told = of(&[(0, row(20.0, 30.0, 0.0)), (1, row(60.0, 50.0, 0.0))]);
        assert_eq!(told.peak_bytes, 60 << 20);
        let told = of(&[(0, row(20.0, 150.0, 0.0)), (1, row(60.0, 150.0, 0.0))]);
        assert_eq!(told.peak_bytes, 60 << 20);
        let without_marks = CgroupRow {
            peak_bytes: ABSENT,
            ..row(60.0, 0.0, 0.0)
        };
        assert_eq!(of(&[(0, without_marks)]).peak_bytes, 60 << 20);
    }
}
