//! The GPUs in figures, by their driver's account: what was used on each and how much of it the job held.
//!
//! Peaks are those of the readings: unlike the kernel for main memory, the driver keeps no high-water mark.

use std::collections::BTreeMap;

use nilo_sample::{Event, RecordedTable, Recording, SeriesView, Subject, is_absent};
use schemars::JsonSchema;
use serde::Serialize;

use crate::gpu_sensors::{GpuSensorSummary, summarize_sensors};

/// One GPU.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct GpuSummary {
    /// Its index on the machine, in the driver's order.
    pub index: u32,
    /// What its maker calls it.
    pub name: Option<String>,
    /// Which one it is: `GPU-…`, or `MIG-…` for a part of a divided one.
    pub uuid: Option<String>,
    /// All its memory.
    pub total_bytes: Option<u64>,
    /// What the driver keeps for itself.
    pub reserved_bytes: Option<u64>,
    /// The most that all processes of the machine held together.
    pub peak_used_bytes: Option<u64>,
    /// The mean of that over time.
    pub mean_used_bytes: Option<u64>,
    /// The last reading of that.
    pub last_used_bytes: Option<u64>,
    /// The most that the job's processes held, CUDA contexts included; absent where the driver does not tell.
    pub peak_job_bytes: Option<u64>,
    /// Mean share of the time in which some kernel ran.
    pub mean_utilization: Option<f64>,
    /// The index of the divided GPU (MIG) that this is a part of.
    pub part_of: Option<u32>,
    /// Power, temperature, clocks and throttling; absent where the driver tells none of it.
    pub sensors: Option<GpuSensorSummary>,
}

impl GpuSummary {
    /// Whether the job held memory on it.
    pub fn is_the_jobs(&self) -> bool {
        self.peak_job_bytes.is_some_and(|bytes| bytes > 0)
    }
}

/// Summarizes each GPU of a run that ended at a time, by index.
pub fn summarize_gpus(recording: &Recording, end_nanos: u64) -> Vec<GpuSummary> {
    let mut known = BTreeMap::new();
    for timed in &recording.events {
        if let Event::GpuFound {
            index,
            name,
            uuid,
            total_bytes,
            reserved_bytes,
            part_of,
        } = &timed.event
        {
            let gpu = GpuSummary {
                index: *index,
                name: Some(name.clone()),
                uuid: Some(uuid.clone()),
                total_bytes: *total_bytes,
                reserved_bytes: *reserved_bytes,
                part_of: *part_of,
                ..GpuSummary::default()
            };
            known.insert(*index, gpu);
        }
    }
    let mut found = Vec::new();
    for table in &recording.tables {
        if let Subject::Gpu { index } = table.spec.subject
            && !table.times.is_empty()
        {
            let described = known.get(&index).cloned().unwrap_or(GpuSummary {
                index,
                ..GpuSummary::default()
            });
            found.push(measure(described, table, end_nanos));
        }
    }
    found.sort_by_key(|gpu| gpu.index);
    found
}

fn measure(mut gpu: GpuSummary, table: &RecordedTable, end_nanos: u64) -> GpuSummary {
    let peak = |column: &str| table.series(column)?.max().and_then(|(_, v)| whole(v));
    let last = |column: &str| table.series(column)?.last().and_then(whole);
    let mean = |column: &str| held_mean(table.series(column)?, end_nanos);
    gpu.total_bytes = gpu.total_bytes.or(last("total_bytes"));
    gpu.peak_used_bytes = peak("used_bytes");
    gpu.mean_used_bytes = mean("used_bytes").and_then(whole);
    gpu.last_used_bytes = last("used_bytes");
    // Nothing while nobody was listed, and later not known: that is not nothing.
    gpu.peak_job_bytes = peak("job_bytes").filter(|bytes| *bytes > 0 || !has_unknown_share(table));
    gpu.mean_utilization = mean("utilization");
    gpu.sensors = summarize_sensors(table, end_nanos);
    gpu
}

/// Whether the device was read at some time without the job's share of it.
pub fn has_unknown_share(table: &RecordedTable) -> bool {
    let Some((used, job)) = table.series("used_bytes").zip(table.series("job_bytes")) else {
        return true;
    };
    let mut rows = used.values.iter().zip(job.values);
    rows.any(|(used, job)| !is_absent(*used) && is_absent(*job))
}

fn whole(value: f64) -> Option<u64> {
    (value.is_finite() && value >= 0.0).then_some(value as u64)
}

/// The mean of a level of which only changes are written: each value holds until the next row, the last until the end.
/// Stretches in which nothing was measured do not count.
pub(crate) fn held_mean(level: SeriesView<'_>, end_nanos: u64) -> Option<f64> {
    let ends = level.times.iter().copied().skip(1);
    let ends = ends.chain([end_nanos.max(level.times.last().copied()?)]);
    let (mut weighted, mut total, mut last) = (0.0, 0.0, None);
    for ((begin, value), end) in level.times.iter().zip(level.values).zip(ends) {
        if is_absent(*value) || !value.is_finite() {
            continue;
        }
        let span = end.saturating_sub(*begin) as f64;
        weighted += span * value;
        total += span;
        last = Some(*value);
    }
    if total > 0.0 {
        Some(weighted / total)
    } else {
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::fixture;
    use nilo_sample::rows::GpuRow;
    use nilo_sample::{ABSENT, TableSpec, TimedEvent};

    fn found(index: u32, name: &str) -> TimedEvent {
        TimedEvent {
            time_nanos: 0,
            event: Event::GpuFound {
                index,
                name: name.to_owned(),
                uuid: format!("GPU-{index}"),
                total_bytes: Some(100),
                reserved_bytes: Some(4),
                part_of: None,
            },
        }
    }

    /// Of a GPU with 100 bytes.
    fn row(used_bytes: f64, job_bytes: f64, utilization: f64) -> GpuRow {
        GpuRow {
            used_bytes,
            total_bytes: 100.0,
            job_bytes,
            utilization,
            ..GpuRow::ABSENT
        }
    }

    #[test]
    fn levels_hold_until_the_next_row_and_the_last_until_the_end() {
        let mut table = fixture::table(TableSpec::gpu(1));
        fixture::tick(&mut table, 0, row(10.0, 0.0, 0.0));
        fixture::tick(&mut table, 100, row(90.0, 80.0, 1.0));
        fixture::tick(&mut table, 200, row(50.0, 40.0, 0.5));
        let mut recording = fixture::recording();
        recording.tables = vec![table];
        recording.events = vec![found(0, "unused"), found(1, "H200")];
        let gpus = summarize_gpus(&recording, 400);
        assert_eq!(
            gpus,
            [GpuSummary {
                index: 1,
                name: Some("H200".to_owned()),
                uuid: Some("GPU-1".to_owned()),
                total_bytes: Some(100),
                reserved_bytes: Some(4),
                peak_used_bytes: Some(90),
                mean_used_bytes: Some(50),
                last_used_bytes: Some(50),
                peak_job_bytes: Some(80),
                mean_utilization: Some(0.5),
                part_of: None,
                sensors: None,
            }]
        );
    }

    #[test]
    fn a_stretch_without_readings_counts_for_nothing() {
        let mut table = fixture::table(TableSpec::gpu(0));
        fixture::tick(&mut table, 0, row(10.0, ABSENT, ABSENT));
        fixture::tick(&mut table, 100, GpuRow::ABSENT);
        fixture::tick(&mut table, 900, row(30.0, ABSENT, ABSENT));
        let mut recording = fixture::recording();
        recording.tables = vec![table, fixture::table(TableSpec::gpu(7))];
        let gpus = summarize_gpus(&recording, 1000);
        assert_eq!(gpus.len(), 1);
        assert_eq!(gpus[0].mean_used_bytes, Some(20));
        assert_eq!((gpus[0].total_bytes, &gpus[0].name), (Some(100), &None));
        assert_eq!(
            (gpus[0].peak_job_bytes, gpus[0].is_the_jobs()),
            (None, false)
        );
    }

    #[test]
    fn a_share_that_was_nothing_and_then_unknown_is_unknown() {
        let mut table = fixture::table(TableSpec::gpu(0));
        fixture::tick(&mut table, 0, row(10.0, 0.0, ABSENT));
        let mut recording = fixture::recording();
        recording.tables = vec![table];
        assert_eq!(summarize_gpus(&recording, 9)[0].peak_job_bytes, Some(0));
        fixture::tick(&mut recording.tables[0], 5, row(30.0, ABSENT, ABSENT));
        assert_eq!(summarize_gpus(&recording, 9)[0].peak_job_bytes, None);
        fixture::tick(&mut recording.tables[0], 7, row(30.0, 20.0, ABSENT));
        assert_eq!(summarize_gpus(&recording, 9)[0].peak_job_bytes, Some(20));
    }

    #[test]
    fn one_row_at_the_very_end_is_its_own_mean() {
        let mut table = fixture::table(TableSpec::gpu(0));
        fixture::tick(&mut table, 50, row(10.0, f64::NAN, f64::INFINITY));
        let mut recording = fixture::recording();
        recording.tables = vec![table];
        let gpus = summarize_gpus(&recording, 50);
        assert_eq!(gpus[0].mean_used_bytes, Some(10));
        assert_eq!(
            (gpus[0].peak_job_bytes, gpus[0].mean_utilization),
            (None, None)
        );
    }
}
