//! Is memory still growing at the end of a run? Then its peak says nothing about a longer one.

use nilo_sample::units::{MIB, NANOS_PER_SEC};
use nilo_sample::{Recording, Subject};
use schemars::JsonSchema;
use serde::Serialize;

use crate::unreclaimable::unreclaimable_levels;
use nilo_analysis::owned_cgroup::owned_cgroup_table;
use nilo_forecast::{Forecaster, Reading};

/// Growth that had not ended when the run did.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct UnfinishedGrowth {
    /// How fast.
    pub bytes_per_sec: f64,
}

/// Growth below this share of the peak, or below this many bytes, is noise.
const LEAST_RATIO: f64 = 0.01;
const LEAST_BYTES: f64 = 16.0 * MIB as f64;

/// The growth at the end of a recording: of the processes' memory, or of what is charged to the job's own cgroup where that grows faster.
/// Files in `/dev/shm` are in the second alone, as no process needs to hold them.
pub(crate) fn growth_of(
    recording: &Recording,
    limit_bytes: Option<u64>,
) -> Option<UnfinishedGrowth> {
    let of_tree = || {
        let level = recording.table(&Subject::Tree)?.series("memory_bytes")?;
        still_growing(level.present(), limit_bytes)
    };
    let of_cgroup = || {
        let levels = unreclaimable_levels(owned_cgroup_table(recording)?)?;
        still_growing(
            repeated(levels, recording.last_time_nanos()).into_iter(),
            limit_bytes,
        )
    };
    let both = of_tree().into_iter().chain(of_cgroup());
    both.max_by(|one, other| one.bytes_per_sec.total_cmp(&other.bytes_per_sec))
}

/// A level of which only changes are written, told every second to the end: one that stands still has ended its growth.
fn repeated(changes: impl Iterator<Item = (u64, f64)>, end_nanos: u64) -> Vec<(u64, f64)> {
    let mut levels: Vec<(u64, f64)> = Vec::new();
    let stand = |levels: &mut Vec<(u64, f64)>, until_nanos: u64| {
        while let Some((time, level)) = levels.last().copied()
            && time + NANOS_PER_SEC < until_nanos
        {
            levels.push((time + NANOS_PER_SEC, level));
        }
    };
    for change in changes {
        stand(&mut levels, change.0);
        levels.push(change);
    }
    stand(&mut levels, end_nanos);
    levels
}

/// The growth that the leak finder sees at the end of a level over time, whether it is sure of a leak or not.
/// What stands still at its limit has not ended.
fn still_growing(
    level: impl Iterator<Item = (u64, f64)>,
    limit_bytes: Option<u64>,
) -> Option<UnfinishedGrowth> {
    let mut forecaster = Forecaster::new();
    let mut peak = 0.0;
    for (time_nanos, used_bytes) in level {
        peak = used_bytes.max(peak);
        forecaster.observe(&Reading {
            time_nanos,
            used_bytes,
            limit_bytes: limit_bytes.map(|bytes| bytes as f64),
            ..Reading::default()
        });
    }
    let growth = forecaster.growth((LEAST_RATIO * peak).max(LEAST_BYTES))?;
    Some(UnfinishedGrowth {
        bytes_per_sec: growth.bytes_per_sec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::rows::CgroupRow;
    use nilo_sample::{TableSpec, fixture};
    use proptest::prelude::*;

    fn growth(level: impl Fn(f64) -> f64) -> Option<UnfinishedGrowth> {
        let points = (0..600u32).map(|tick| {
            let time_nanos = u64::from(tick) * NANOS_PER_SEC;
            (time_nanos, level(f64::from(tick)) * 1e9)
        });
        still_growing(points, None)
    }

    /// A job of a steady 1 GB in a cgroup of its own, with files in tmpfs of so many GB over seconds; only changes are written of the cgroup.
    fn growth_in_tmpfs(files: impl Fn(f64) -> f64, owned: f64) -> Option<UnfinishedGrowth> {
        let mut tree = fixture::table(TableSpec::tree());
        let mut cgroup = fixture::table(TableSpec::cgroup("/job"));
        let mut before = f64::NAN;
        for tick in 0..600u32 {
            let time_nanos = u64::from(tick) * NANOS_PER_SEC;
            fixture::tick(&mut tree, time_nanos, fixture::level(1e9));
            let shmem_bytes = files(f64::from(tick)) * 1e9;
            if shmem_bytes.to_bits() != before.to_bits() {
                let row = CgroupRow {
                    anon_bytes: 1e9,
                    shmem_bytes,
                    owned,
                    ..CgroupRow::ABSENT
                };
                fixture::tick(&mut cgroup, time_nanos, row);
            }
            before = shmem_bytes;
        }
        let mut recording = fixture::recording();
        recording.tables = vec![tree, cgroup];
        growth_of(&recording, None)
    }

    #[test]
    fn files_in_tmpfs_that_grow_are_growth_of_the_job_that_is_charged_for_them() {
        let found = growth_in_tmpfs(|t| 0.002 * t, 1.0).unwrap();
        assert!((found.bytes_per_sec / 2e6 - 1.0).abs() < 0.05, "{found:?}");
        let of_others = growth_in_tmpfs(|t| 0.002 * t, 0.0);
        assert_eq!(of_others, None, "a neighbour's files are not the job's");
        let ended = growth_in_tmpfs(|t| 0.002 * t.min(200.0), 1.0);
        assert_eq!(ended, None, "they stopped growing long before the end");
    }

    #[test]
    fn a_leak_is_growth_with_its_speed() {
        let found = growth(|t| 1.0 + 0.002 * t).unwrap();
        assert!((found.bytes_per_sec / 2e6 - 1.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn a_leak_under_a_sawtooth_is_growth() {
        let found = growth(|t| 1.0 + 0.002 * t + (t % 7.0) / 4.0).unwrap();
        assert!((found.bytes_per_sec / 2e6 - 1.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn plateaus_steps_sawteeth_and_warm_ups_are_not() {
        assert_eq!(growth(|_| 3.0), None);
        assert_eq!(growth(|t| t % 30.0), None);
        assert_eq!(growth(|t| (t / 100.0).min(1.0)), None);
        assert_eq!(growth(|t| if t < 400.0 { 1.0 } else { 2.0 }), None);
        assert_eq!(growth(|t| 1.0 - (-t / 60.0).exp()), None);
    }

    #[test]
    fn a_few_samples_or_a_few_bytes_are_no_trend() {
        let points = (0..20u32).map(|tick| (u64::from(tick), f64::from(tick) * 1e9));
        assert_eq!(still_growing(points, None), None);
        assert_eq!(growth(|t| 1.0 + 1e-6 * t), None);
    }

    proptest! {
        #[test]
        fn a_constant_with_noise_never_grows(seed in 0u64..1000) {
            let noise = |t: f64| ((t as u64 * 7919 + seed * 104_729) % 101) as f64 / 101.0;
            prop_assert_eq!(growth(|t| 10.0 + 0.5 * noise(t)), None);
        }
    }
}
