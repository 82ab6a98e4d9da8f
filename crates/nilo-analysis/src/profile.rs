//! A memory profile: the level and the statistics of every GPU, of the host and of the watched processes.
//!
//! The JSON form has the shape of what `nilometer.memory.MemoryProfiler` reports: a device has `current_usage` and `statistics`, with the same keys.
//! Means are over time; only changes are recorded, so how often somebody looked is told by the recorder ([`ReadCounts`]).

use std::collections::BTreeMap;

use nilo_sample::{Limit, LimitSource, Recording, SeriesView, Subject, is_absent};
use schemars::JsonSchema;
use serde::Serialize;

use crate::charged::charged_to_own_limit;
use crate::ending::limit_in_force;
use crate::gpu_sensors::GpuSensorSummary;
use crate::gpus::{held_mean, summarize_gpus};
use crate::held_of_limit::held_of_limit;
use nilo_forecast::{LevelTrend, level_trend};

const GIB: f64 = (1u64 << 30) as f64;

/// How often each kind of thing was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// The process tree.
    pub processes: u64,
    /// The host.
    pub host: u64,
    /// Each GPU by its index: one that is lost is not read any more.
    pub gpus: BTreeMap<u32, u64>,
}

/// Levels and statistics of a time of watching.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct Profile {
    /// GPUs by index.
    pub devices: BTreeMap<String, DeviceProfile>,
    /// All GPUs together.
    pub summary: GpuTotals,
    /// The machine's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<DeviceProfile>,
    /// The watched processes against the limit in force: of the limit of a cgroup that is theirs alone, what counts against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<DeviceProfile>,
}

/// One memory.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct DeviceProfile {
    /// The last reading; `null` of a GPU that cannot be read any more.
    pub current_usage: Option<Usage>,
    /// All readings.
    pub statistics: UtilizationStatistics,
    /// On a GPU: power, temperature, clocks and throttling, where the driver tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensors: Option<GpuSensorSummary>,
}

/// A level, in bytes.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct Usage {
    /// Taken.
    pub allocated: u64,
    /// Left.
    pub free: u64,
    /// Both; on a GPU without what the driver keeps for itself. Zero where no limit is known.
    pub total: u64,
    /// Taken of the total.
    pub utilization_percent: f64,
    /// What `total` is: a limit's source, or the GPU's name.
    pub limit: String,
    /// On a GPU: what the watched processes hold, where the driver tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<u64>,
}

/// Percentages of the total over the time of watching.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct UtilizationStatistics {
    /// Mean over time.
    pub avg_utilization: f64,
    /// The highest.
    pub max_utilization: f64,
    /// The lowest.
    pub min_utilization: f64,
    /// The highest level in bytes; of processes the kernel's own mark, where it is higher.
    pub peak_allocated: u64,
    /// How often it was read.
    pub samples_count: u64,
    /// Where the level went; `None` when it was read too seldom.
    pub trend: Option<LevelTrend>,
}

/// All GPUs together.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct GpuTotals {
    /// How many there are.
    pub total_devices: usize,
    /// Their memory, in units of 2^30 bytes.
    pub total_memory_gb: f64,
    /// Taken of it now.
    pub overall_utilization: f64,
}

impl GpuTotals {
    /// Of the bytes used and the bytes in all of each.
    pub fn of(levels: impl IntoIterator<Item = (u64, u64)>) -> GpuTotals {
        let levels = levels.into_iter();
        let add = |(count, used, total): (usize, u64, u64), level: (u64, u64)| {
            (count + 1, used + level.0, total + level.1)
        };
        let (total_devices, used, total) = levels.fold((0, 0, 0), add);
        GpuTotals {
            total_devices,
            total_memory_gb: rounded(total as f64 / GIB),
            overall_utilization: rounded(percent(used as f64, total)),
        }
    }
}

/// Profiles what was recorded up to a time.
pub fn profile(recording: &Recording, end_nanos: u64, looks: &ReadCounts) -> Profile {
    let devices = gpus(recording, end_nanos, &looks.gpus);
    let present = devices
        .values()
        .filter_map(|device| device.current_usage.as_ref());
    let levels = present.map(|usage| (usage.allocated, usage.total));
    Profile {
        summary: GpuTotals::of(levels),
        devices,
        host: host(recording, end_nanos, looks.host),
        processes: processes(recording, end_nanos, looks.processes),
    }
}

fn gpus(
    recording: &Recording,
    end_nanos: u64,
    looks: &BTreeMap<u32, u64>,
) -> BTreeMap<String, DeviceProfile> {
    let mut devices = BTreeMap::new();
    for gpu in summarize_gpus(recording, end_nanos) {
        let subject = Subject::Gpu { index: gpu.index };
        let Some(table) = recording.table(&subject) else {
            continue;
        };
        let (Some(level), Some(whole)) = (table.series("used_bytes"), gpu.total_bytes) else {
            continue;
        };
        let total = whole.saturating_sub(gpu.reserved_bytes.unwrap_or(0));
        let own = table.series("job_bytes").and_then(SeriesView::last);
        let looks = looks.get(&gpu.index).copied().unwrap_or(0);
        // What cannot be read any more leaves an empty row.
        let is_lost = level.values.last().is_some_and(|last| is_absent(*last));
        if let Some((mut usage, statistics)) = device(level, total, end_nanos, looks) {
            usage.limit = gpu.name.unwrap_or_default();
            usage.own = own.map(|bytes| bytes as u64);
            let device = DeviceProfile {
                current_usage: (!is_lost).then_some(usage),
                statistics,
                sensors: gpu.sensors,
            };
            devices.insert(gpu.index.to_string(), device);
        }
    }
    devices
}

fn host(recording: &Recording, end_nanos: u64, looks: u64) -> Option<DeviceProfile> {
    let table = recording.table(&Subject::Host)?;
    let total = table.series("total_bytes")?.last()? as u64;
    let available = table.series("available_bytes")?;
    let used: Vec<f64> = available
        .values
        .iter()
        .map(|bytes| match is_absent(*bytes) {
            true => *bytes,
            false => (total as f64 - bytes).max(0.0),
        })
        .collect();
    let level = SeriesView {
        values: &used,
        ..available
    };
    let (mut usage, statistics) = device(level, total, end_nanos, looks)?;
    usage.limit = "host memory".to_owned();
    Some(DeviceProfile::without_sensors(usage, statistics))
}

fn processes(recording: &Recording, end_nanos: u64, looks: u64) -> Option<DeviceProfile> {
    let table = recording.table(&Subject::Tree)?;
    // Resident memory is no share of a limit of addresses.
    let limit = limit_in_force(recording).filter(Limit::is_of_memory);
    let total = limit.as_ref().map_or(0, |limit| limit.bytes);
    let memory = table.series("memory_bytes")?;
    // One figure for every share of a limit: what counts against it.
    let charged = charged_to_own_limit(recording).filter(|levels| !levels.is_empty());
    let (times, mut levels): (Vec<u64>, Vec<f64>) = match charged {
        Some(levels) => levels.into_iter().unzip(),
        None => (memory.times.to_vec(), memory.values.to_vec()),
    };
    let is_hard =
        matches!(&limit, Some(limit) if matches!(limit.source, LimitSource::Cgroup { .. }));
    if is_hard {
        // The tree counts file pages that another cgroup is charged for; absent values stay absent.
        levels
            .iter_mut()
            .filter(|level| **level > total as f64)
            .for_each(|level| *level = total as f64);
    }
    let level = SeriesView {
        times: &times,
        values: &levels,
    };
    let (mut usage, mut statistics) = device(level, total, end_nanos, looks)?;
    usage.limit = limit.map_or_else(
        || "no limit known".to_owned(),
        |limit| limit.source.to_string(),
    );
    // What others took of the machine is not free, whatever the limit says.
    let host = recording.table(&Subject::Host);
    let available = host.and_then(|host| host.series("available_bytes")?.last());
    if let Some(available) = available {
        usage.free = usage.free.min(available as u64);
    }
    let marks = table.series("high_water_bytes");
    let mark = marks.and_then(|marks| marks.max()).map(|(_, mark)| mark);
    let highest = memory.max().map(|(_, highest)| highest);
    if let Some(peak) = mark.into_iter().chain(highest).reduce(f64::max) {
        let held = match is_hard {
            true => held_of_limit(recording, peak).map_or(peak, |held| held.min(total as f64)),
            false => peak,
        };
        statistics.peak_allocated = statistics.peak_allocated.max(held as u64);
    }
    Some(DeviceProfile::without_sensors(usage, statistics))
}

impl DeviceProfile {
    fn without_sensors(usage: Usage, statistics: UtilizationStatistics) -> DeviceProfile {
        DeviceProfile {
            current_usage: Some(usage),
            statistics,
            sensors: None,
        }
    }
}

fn device(
    level: SeriesView<'_>,
    total: u64,
    end_nanos: u64,
    looks: u64,
) -> Option<(Usage, UtilizationStatistics)> {
    let last = level.last()?;
    let (_, highest) = level.max()?;
    let lowest = level
        .present()
        .map(|(_, value)| value)
        .fold(highest, f64::min);
    let mean = held_mean(level, end_nanos)?;
    let share = |bytes: f64| rounded(percent(bytes, total));
    let times: Vec<f64> = level.times.iter().map(|nanos| *nanos as f64).collect();
    Some((
        Usage {
            allocated: last as u64,
            free: total.saturating_sub(last as u64),
            total,
            utilization_percent: share(last),
            limit: String::new(),
            own: None,
        },
        UtilizationStatistics {
            avg_utilization: share(mean),
            max_utilization: share(highest),
            min_utilization: share(lowest),
            peak_allocated: highest as u64,
            samples_count: looks,
            trend: level_trend(&times, level.values, end_nanos as f64, looks),
        },
    ))
}

fn percent(bytes: f64, total: u64) -> f64 {
    match total {
        0 => 0.0,
        total => 100.0 * bytes / total as f64,
    }
}

/// Two places, as the Python package rounds.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::fixture::{level, recording, table, tick};
    use nilo_sample::rows::{CgroupRow, GpuRow, HostRow, TreeRow};
    use nilo_sample::{Event, Limit, TableSpec, TimedEvent};

    fn looks() -> ReadCounts {
        ReadCounts {
            processes: 40,
            host: 20,
            gpus: BTreeMap::from([(1, 10)]),
        }
    }

    #[test]
    fn a_gpu_is_measured_without_what_its_driver_keeps() {
        let mut rows = table(TableSpec::gpu(1));
        for (time, used_bytes, job_bytes) in [(0, 10.0, 5.0), (100, 50.0, 40.0)] {
            let row = GpuRow {
                used_bytes,
                total_bytes: 100.0,
                job_bytes,
                utilization: 0.0,
                temperature_celsius: 54.0,
                ..GpuRow::ABSENT
            };
            tick(&mut rows, time, row);
        }
        let mut run = recording();
        run.tables = vec![rows];
        run.events = vec![TimedEvent {
            time_nanos: 0,
            event: Event::GpuFound {
                index: 1,
                name: "H200".to_owned(),
                uuid: "GPU-1".to_owned(),
                total_bytes: Some(100),
                reserved_bytes: Some(20),
                part_of: None,
            },
        }];
        let profile = profile(&run, 200, &looks());
        let gpu = &profile.devices["1"];
        let usage = Usage {
            allocated: 50,
            free: 30,
            total: 80,
            utilization_percent: 62.5,
            limit: "H200".to_owned(),
            own: Some(40),
        };
        let statistics = UtilizationStatistics {
            avg_utilization: 37.5,
            max_utilization: 62.5,
            min_utilization: 12.5,
            peak_allocated: 50,
            samples_count: 10,
            trend: Some(LevelTrend::Stable),
        };
        assert_eq!(
            (gpu.current_usage.as_ref(), &gpu.statistics),
            (Some(&usage), &statistics)
        );
        let sensors = gpu.sensors.as_ref().unwrap();
        assert_eq!(sensors.temperature_celsius, Some(54.0));
        assert_eq!(profile.summary.total_devices, 1);
        assert_eq!(profile.summary.overall_utilization, 62.5);
        assert_eq!((profile.host, profile.processes), (None, None));
    }

    #[test]
    fn processes_are_held_against_the_limit_and_what_the_machine_has_left() {
        let mut tree = table(TableSpec::tree());
        tick(&mut tree, 0, level(100.0));
        let high = TreeRow {
            high_water_bytes: 300.0,
            ..level(200.0)
        };
        tick(&mut tree, 100, high);
        let mut host = table(TableSpec::host());
        let row = HostRow {
            total_bytes: 1000.0,
            available_bytes: 150.0,
            ..HostRow::ABSENT
        };
        tick(&mut host, 0, row);
        let mut run = recording();
        run.tables = vec![tree, host];
        run.description.limit = Some(Limit {
            bytes: 400,
            source: LimitSource::Host,
        });
        let profile = profile(&run, 200, &looks());
        let job = profile.processes.unwrap();
        assert_eq!(job.current_usage.as_ref().unwrap().free, 150);
        assert_eq!(
            job.current_usage.as_ref().unwrap().utilization_percent,
            50.0
        );
        assert_eq!(job.statistics.peak_allocated, 300);
        assert_eq!(job.statistics.samples_count, 40);
        let host = profile.host.unwrap();
        assert_eq!(host.current_usage.as_ref().unwrap().allocated, 850);
        assert_eq!(host.statistics.samples_count, 20);
        assert_eq!(profile.summary, GpuTotals::default());
    }

    /// The tree counts library pages that another cgroup is charged for.
    #[test]
    fn processes_in_a_cgroup_of_their_own_are_held_against_it_as_everywhere() {
        let mut tree = table(TableSpec::tree());
        let mut cgroup = table(TableSpec::cgroup("/job"));
        for (time, memory, usage) in [(0, 100.0, 90.0), (100, 410.0, 396.0)] {
            tick(&mut tree, time, level(memory));
            let row = CgroupRow {
                usage_bytes: usage,
                anon_bytes: usage - 10.0,
                file_bytes: 10.0,
                shmem_bytes: 0.0,
                owned: 1.0,
                ..CgroupRow::ABSENT
            };
            tick(&mut cgroup, time, row);
        }
        let mut run = recording();
        run.tables = vec![tree, cgroup];
        run.description.limit = Some(Limit {
            bytes: 400,
            source: LimitSource::Cgroup {
                path: "/job".to_owned(),
                version: 1,
            },
        });
        let job = profile(&run, 200, &looks()).processes.unwrap();
        let usage = job.current_usage.unwrap();
        assert_eq!((usage.allocated, usage.utilization_percent), (386, 96.5));
        assert_eq!(job.statistics.peak_allocated, 386);
        // In a cgroup that others are in too it is the tree's memory, of which no more than the limit counts against it.
        let owned = run.tables[1].spec.column("owned").unwrap();
        run.tables[1].columns[owned].fill(0.0);
        let job = profile(&run, 200, &looks()).processes.unwrap();
        assert_eq!(
            job.current_usage.as_ref().unwrap().utilization_percent,
            100.0
        );
        assert!(job.statistics.peak_allocated <= 400);
    }

    #[test]
    fn a_recording_without_readings_has_an_empty_profile() {
        assert_eq!(profile(&recording(), 0, &looks()), Profile::default());
    }

    #[test]
    fn a_gpu_that_is_lost_has_no_level_now_and_is_in_no_sum() {
        let mut run = recording();
        for index in [0, 1] {
            let mut rows = table(TableSpec::gpu(index));
            let row = GpuRow {
                used_bytes: 50.0,
                total_bytes: 100.0,
                ..GpuRow::ABSENT
            };
            tick(&mut rows, 0, row);
            if index == 1 {
                tick(&mut rows, 100, GpuRow::ABSENT);
            }
            run.tables.push(rows);
        }
        let looks = ReadCounts {
            gpus: BTreeMap::from([(0, 9), (1, 4)]),
            ..ReadCounts::default()
        };
        let profile = profile(&run, 200, &looks);
        let lost = &profile.devices["1"];
        assert_eq!(lost.current_usage, None);
        assert_eq!(
            (
                lost.statistics.samples_count,
                lost.statistics.peak_allocated
            ),
            (4, 50)
        );
        assert!(profile.devices["0"].current_usage.is_some());
        assert_eq!(profile.devices["0"].statistics.samples_count, 9);
        assert_eq!(profile.summary.total_devices, 1);
    }
}
