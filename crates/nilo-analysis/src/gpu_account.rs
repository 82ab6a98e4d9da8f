//! What the memory of a GPU is made of at the job's peak there: PyTorch's tensors, its cache, the rest of the job, everybody else.
//!
//! The driver and PyTorch are read at different times. A moment counts only if PyTorch's figure is known there: a row of that very time, or rows around it that agree on what is reserved.
//! Of these moments it is the one with the most memory of the job. Parts are differences of whole numbers, so they add up to what the driver calls used.

use std::collections::{BTreeMap, HashMap};

use nilo_sample::units::to_secs;
use nilo_sample::{Event, RecordedTable, Recording, Subject};
use schemars::JsonSchema;
use serde::Serialize;

use crate::gpus::GpuSummary;
use crate::torch_places::only_gpu;

/// The memory of one GPU at one moment, in parts that add up to `used_bytes`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct GpuAccount {
    /// The driver's index of the GPU.
    pub index: u32,
    /// The moment, in seconds since the start: the job's peak on this GPU, or the highest level at which PyTorch's figures are known.
    pub secs: f64,
    /// What the driver calls used: all processes together, without what the driver keeps for itself.
    pub used_bytes: u64,
    /// Held by tensors, in all processes of the job.
    pub torch_allocated_bytes: u64,
    /// Kept by PyTorch's allocator and not in tensors.
    pub torch_cached_bytes: u64,
    /// What the job's processes hold besides: CUDA contexts, libraries, NCCL, programs without PyTorch. Absent where the driver does not tell the job's share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_rest_bytes: Option<u64>,
    /// Other processes, and what the driver counts to no process. Absent where the driver does not tell the job's share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_bytes: Option<u64>,
    /// Everything that PyTorch does not count, where the driver does not tell the job's share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unexplained_bytes: Option<u64>,
}

/// Accounts for the memory of each GPU of which that is certain.
pub(crate) fn account_for_gpus(recording: &Recording, gpus: &[GpuSummary]) -> Vec<GpuAccount> {
    let Some((index, torch)) = only_gpu(recording, gpus) else {
        return Vec::new();
    };
    let ends = ends_of_processes(recording);
    let levels: Vec<TorchLevels> = torch
        .into_iter()
        .map(|table| TorchLevels::of(table, &ends))
        .collect();
    let gpu = recording.table(&Subject::Gpu { index });
    gpu.and_then(|gpu| account(index, gpu, &levels))
        .into_iter()
        .collect()
}

/// What the driver says of a GPU, from one row to the next.
#[derive(Clone, Copy)]
struct DriverLevel {
    used: u64,
    job: Option<u64>,
}

fn account(index: u32, gpu: &RecordedTable, torch: &[TorchLevels]) -> Option<GpuAccount> {
    let (used, job) = (gpu.series("used_bytes")?, gpu.series("job_bytes")?);
    let rows = gpu.times.iter().zip(used.values).zip(job.values);
    let driver: BTreeMap<u64, Option<DriverLevel>> = rows
        .map(|((time, used), job)| {
            let level = whole(*used).map(|used| DriverLevel {
                used,
                job: whole(*job),
            });
            (*time, level)
        })
        .collect();
    let shares_are_known = driver.values().flatten().any(|level| level.job.is_some());
    let torch_times = torch.iter().flat_map(|levels| levels.rows.keys());
    let mut best: Option<((u64, u64), GpuAccount)> = None;
    for &moment in driver.keys().chain(torch_times) {
        let Some((_, Some(level))) = driver.range(..=moment).next_back() else {
            continue;
        };
        // The job's peak is sought where its share is known at all.
        if shares_are_known && level.job.is_none_or(|job| job == 0) {
            continue;
        }
        let Some((allocated, reserved)) = sum_at(torch, moment) else {
            continue;
        };
        let rank = (level.job.unwrap_or(level.used), allocated);
        if best.as_ref().is_some_and(|(highest, _)| *highest >= rank) {
            continue;
        }
        best = parts(index, moment, *level, allocated, reserved)
            .map(|account| (rank, account))
            .or(best);
    }
    best.map(|(_, account)| account)
        .filter(|account| account.torch_allocated_bytes + account.torch_cached_bytes > 0)
}

/// Nothing where a part would be negative: then the figures are not of the same moment.
fn parts(
    index: u32,
    moment: u64,
    level: DriverLevel,
    allocated: u64,
    reserved: u64,
) -> Option<GpuAccount> {
    let account = GpuAccount {
        index,
        secs: to_secs(moment),
        used_bytes: level.used,
        torch_allocated_bytes: allocated,
        torch_cached_bytes: reserved.checked_sub(allocated)?,
        job_rest_bytes: None,
        others_bytes: None,
        unexplained_bytes: None,
    };
    Some(match level.job {
        Some(job) => GpuAccount {
            job_rest_bytes: Some(job.checked_sub(reserved)?),
            others_bytes: Some(level.used.checked_sub(job)?),
            ..account
        },
        None => GpuAccount {
            unexplained_bytes: Some(level.used.checked_sub(reserved)?),
            ..account
        },
    })
}

fn sum_at(torch: &[TorchLevels], moment: u64) -> Option<(u64, u64)> {
    torch
        .iter()
        .try_fold((0, 0), |(allocated, reserved), levels| {
            let at = levels.at(moment)?;
            Some((allocated + at.allocated, reserved + at.reserved))
        })
}

#[derive(Debug, Clone, Copy, Default)]
struct TorchLevel {
    allocated: u64,
    reserved: u64,
}

/// What PyTorch counts in one process, over time.
struct TorchLevels {
    rows: BTreeMap<u64, TorchLevel>,
    /// From here on the process is gone, and its memory with it.
    end_nanos: Option<u64>,
}

impl TorchLevels {
    fn of(table: &RecordedTable, ends: &HashMap<u32, u64>) -> TorchLevels {
        let column = |name| table.series(name).map_or(&[][..], |series| series.values);
        let values = column("allocated_bytes")
            .iter()
            .zip(column("reserved_bytes"));
        let rows = table.times.iter().zip(values);
        let rows = rows.filter_map(|(time, (allocated, reserved))| {
            let level = TorchLevel {
                allocated: whole(*allocated)?,
                reserved: whole(*reserved)?,
            };
            Some((*time, level))
        });
        let program = table.program();
        let pid = program.rsplit('-').next().and_then(|pid| pid.parse().ok());
        TorchLevels {
            rows: rows.collect(),
            end_nanos: pid.and_then(|pid: u32| ends.get(&pid).copied()),
        }
    }

    /// The level at a moment, where it is known.
    fn at(&self, moment: u64) -> Option<TorchLevel> {
        if self.end_nanos.is_some_and(|end| moment >= end) {
            return Some(TorchLevel::default());
        }
        let (time, before) = self.rows.range(..=moment).next_back()?;
        let after = self.rows.range(moment + 1..).next();
        let is_known =
            *time == moment || after.is_none_or(|(_, after)| after.reserved == before.reserved);
        is_known.then_some(*before)
    }
}

/// When processes ended, by PID; of a PID that came again, the last time.
fn ends_of_processes(recording: &Recording) -> HashMap<u32, u64> {
    let ends = recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::ProcessEnded { id, .. } => Some((id.pid, timed.time_nanos)),
            _ => None,
        });
    ends.collect()
}

fn whole(value: f64) -> Option<u64> {
    (value.is_finite() && value >= 0.0).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpus::summarize_gpus;
    use nilo_sample::rows::{GpuRow, TorchMemoryRow};
    use nilo_sample::{ABSENT, ProcessId, TableSpec, TimedEvent, fixture};

    fn gpu(index: u32, rows: &[(u64, f64, f64)]) -> RecordedTable {
        let rows = rows.iter().map(|(time, used_bytes, job_bytes)| {
            let row = GpuRow {
                used_bytes: *used_bytes,
                total_bytes: 1000.0,
                job_bytes: *job_bytes,
                ..GpuRow::ABSENT
            };
            (*time, row)
        });
        fixture::table_of(TableSpec::gpu(index), &rows.collect::<Vec<_>>())
    }

    fn torch(pid: u32, device: u32, rows: &[(u64, f64, f64)]) -> RecordedTable {
        let rows = rows.iter().map(|(time, allocated_bytes, reserved_bytes)| {
            let row = TorchMemoryRow {
                allocated_bytes: *allocated_bytes,
                reserved_bytes: *reserved_bytes,
                device_total_bytes: 990.0,
                ..TorchMemoryRow::ABSENT
            };
            (*time, row)
        });
        let spec = TableSpec::torch_memory_of(pid, device);
        fixture::table_of(spec, &rows.collect::<Vec<_>>())
    }

    fn accounts(tables: Vec<RecordedTable>) -> Vec<GpuAccount> {
        let mut recording = fixture::recording();
        recording.tables = tables;
        let gpus = summarize_gpus(&recording, 1_000);
        account_for_gpus(&recording, &gpus)
    }

    /// Allocated, cached, rest of the job, others.
    fn known_parts(account: &GpuAccount) -> [u64; 4] {
        let parts = [
            account.torch_allocated_bytes,
            account.torch_cached_bytes,
            account.job_rest_bytes.unwrap(),
            account.others_bytes.unwrap(),
        ];
        assert_eq!(parts.iter().sum::<u64>(), account.used_bytes);
        assert_eq!(account.unexplained_bytes, None);
        parts
    }

    #[test]
    fn the_parts_add_up_to_what_the_driver_calls_used_at_the_jobs_peak() {
        let found = accounts(vec![
            gpu(0, &[(0, 50.0, 0.0), (10, 600.0, 500.0), (30, 300.0, 200.0)]),
            torch(
                1,
                0,
                &[(11, 300.0, 400.0), (20, 350.0, 400.0), (31, 90.0, 120.0)],
            ),
        ]);
        assert_eq!(known_parts(&found[0]), [350, 50, 100, 100]);
        assert_eq!((found.len(), found[0].index, found[0].secs), (1, 0, 20e-9));
    }

    #[test]
    fn ranks_on_one_gpu_are_added_up_and_one_that_has_ended_holds_nothing() {
        let mut recording = fixture::recording();
        recording.tables = vec![
            gpu(0, &[(0, 500.0, 500.0), (50, 560.0, 560.0)]),
            torch(1, 0, &[(5, 100.0, 150.0), (9, 110.0, 150.0)]),
            torch(2, 0, &[(6, 200.0, 250.0), (60, 400.0, 500.0)]),
        ];
        let gpus = summarize_gpus(&recording, 1_000);
        let both = account_for_gpus(&recording, &gpus);
        // What the second reserves later is not known before, and both together would be more than the job holds.
        assert_eq!(known_parts(&both[0]), [300, 100, 100, 0]);
        assert_eq!(both[0].secs, 6e-9);
        recording.events.push(TimedEvent {
            time_nanos: 40,
            event: Event::ProcessEnded {
                id: ProcessId {
                    pid: 1,
                    start_ticks: 0,
                },
                peak_rss_bytes: None,
                exit_code: None,
                signal: None,
            },
        });
        let one = account_for_gpus(&recording, &gpus);
        assert_eq!(known_parts(&one[0]), [400, 100, 60, 0]);
    }

    #[test]
    fn figures_of_another_time_are_not_mixed() {
        // PyTorch gave memory back between two readings: what it held at the driver's reading is not known.
        let found = accounts(vec![
            gpu(0, &[(10, 900.0, 800.0), (20, 400.0, 300.0)]),
            torch(1, 0, &[(5, 600.0, 700.0), (25, 100.0, 200.0)]),
        ]);
        assert_eq!(known_parts(&found[0]), [100, 100, 100, 100]);
        // And where PyTorch says more than the driver throughout, there is no account.
        let found = accounts(vec![
            gpu(0, &[(10, 400.0, 300.0)]),
            torch(1, 0, &[(11, 300.0, 350.0)]),
        ]);
        assert_eq!(found, []);
    }

    #[test]
    fn without_the_jobs_share_the_rest_is_one_part() {
        let found = accounts(vec![
            gpu(0, &[(0, 50.0, ABSENT), (10, 600.0, ABSENT)]),
            torch(1, 0, &[(11, 300.0, 400.0)]),
        ]);
        let [account] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((account.job_rest_bytes, account.others_bytes), (None, None));
        assert_eq!(account.unexplained_bytes, Some(200));
        assert_eq!(account.used_bytes, 300 + 100 + 200);
    }

    #[test]
    fn a_device_that_may_be_one_of_several_gpus_has_no_account() {
        let first = gpu(0, &[(0, 600.0, 500.0)]);
        let counted = || torch(1, 0, &[(1, 300.0, 400.0)]);
        let second = |job| gpu(1, &[(0, 700.0, job)]);
        assert_eq!(accounts(vec![first.clone(), second(600.0), counted()]), []);
        assert_eq!(accounts(vec![first.clone(), second(ABSENT), counted()]), []);
        // The job was on the first alone, whatever the program calls it.
        let found = accounts(vec![
            first.clone(),
            second(0.0),
            torch(1, 3, &[(1, 300.0, 400.0)]),
        ]);
        assert_eq!((found.len(), found[0].index), (1, 0));
        // A program with two devices is on two GPUs, also where one of them was not recorded.
        let two = vec![first, counted(), torch(1, 1, &[(1, 10.0, 20.0)])];
        assert_eq!(accounts(two), []);
    }

    #[test]
    fn a_device_of_another_size_is_another_gpu() {
        let mut counted = torch(1, 0, &[(1, 300.0, 400.0)]);
        fixture::column(&mut counted, "device_total_bytes")[0] = 500.0;
        assert_eq!(accounts(vec![gpu(0, &[(0, 600.0, 500.0)]), counted]), []);
    }
}
