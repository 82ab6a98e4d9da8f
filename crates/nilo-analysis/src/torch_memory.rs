//! GPU memory as PyTorch's allocator counts it: the peaks of each device in each process.

use nilo_sample::{Event, GpuAllocationFailure, RecordedTable, Recording, Subject};
use schemars::JsonSchema;
use serde::Serialize;

/// One device of one process.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TorchMemorySummary {
    /// The device's index in that process.
    pub device: u32,
    /// Who wrote it, such as `python-4711`.
    pub writer: String,
    /// The rank of that process in a distributed run.
    #[serde(skip)]
    pub rank: Option<u32>,
    /// Most memory held by tensors.
    pub peak_allocated_bytes: Option<u64>,
    /// Most memory that the allocator had taken from the device.
    pub peak_reserved_bytes: Option<u64>,
    /// Held by tensors at the end.
    pub last_allocated_bytes: Option<u64>,
    /// Taken from the device at the end.
    pub last_reserved_bytes: Option<u64>,
    /// Least memory that was free on the device, whoever used the rest.
    pub least_free_bytes: Option<u64>,
    /// The device's memory.
    pub device_total_bytes: Option<u64>,
}

/// Summarizes each device of each process, by device.
pub fn summarize_torch_memory(recording: &Recording) -> Vec<TorchMemorySummary> {
    let of_table = |table: &RecordedTable| match table.spec.subject {
        Subject::TorchMemory { device, .. } if !table.times.is_empty() => {
            Some(summarize(recording, table, device))
        }
        _ => None,
    };
    let mut found: Vec<TorchMemorySummary> = recording.tables.iter().filter_map(of_table).collect();
    found.sort_by(|a, b| (a.device, &a.writer).cmp(&(b.device, &b.writer)));
    found
}

fn summarize(recording: &Recording, table: &RecordedTable, device: u32) -> TorchMemorySummary {
    let bytes = |column: &str| {
        let present = table.series(column).into_iter().flat_map(|s| s.present());
        present
            .map(|(_, value)| value)
            .filter(|value| value.is_finite() && *value >= 0.0)
            .map(|value| value as u64)
    };
    // What was held when an allocation failed may be younger than the last row.
    let failures: Vec<&GpuAllocationFailure> = recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::GpuAllocationFailed(failure)
                if failure.device == Some(device) && is_of(table, failure.pid, device) =>
            {
                Some(&**failure)
            }
            _ => None,
        })
        .collect();
    let failed = |bytes: fn(&GpuAllocationFailure) -> Option<u64>| {
        failures.iter().filter_map(move |failure| bytes(failure))
    };
    TorchMemorySummary {
        device,
        writer: table.program(),
        rank: table.spec.rank,
        peak_allocated_bytes: bytes("peak_allocated_bytes")
            .chain(bytes("allocated_bytes"))
            .chain(failed(|failure| failure.allocated_bytes))
            .max(),
        peak_reserved_bytes: bytes("peak_reserved_bytes")
            .chain(bytes("reserved_bytes"))
            .chain(failed(|failure| failure.reserved_bytes))
            .max(),
        last_allocated_bytes: bytes("allocated_bytes").next_back(),
        last_reserved_bytes: bytes("reserved_bytes").next_back(),
        least_free_bytes: bytes("device_free_bytes").min(),
        device_total_bytes: bytes("device_total_bytes").next_back(),
    }
}

/// How many allocations of a process had failed at the last look, by the allocator's count.
pub(crate) fn failed_allocations(recording: &Recording, pid: u32, device: u32) -> Option<u64> {
    let mut tables = recording.tables.iter();
    let table = tables.find(|table| is_of(table, pid, device))?;
    table.series("ooms")?.max().map(|(_, ooms)| ooms as u64)
}

/// Whether it has the figures of a device in a process.
fn is_of(table: &RecordedTable, pid: u32, device: u32) -> bool {
    matches!(table.spec.subject, Subject::TorchMemory { device: of, .. } if of == device)
        && table.program() == format!("python-{pid}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::fixture;
    use nilo_sample::rows::TorchMemoryRow;
    use nilo_sample::{ABSENT, TableSpec, TimedEvent};

    #[test]
    fn a_peak_between_two_readings_is_in_it() {
        let mut table = fixture::table(TableSpec::torch_memory(1));
        for (time, allocated_bytes, peaks, device_free_bytes) in [
            (0, 10.0, (10.0, 20.0), 70.0),
            (1, 12.0, (55.0, 60.0), 30.0),
            (2, 11.0, (ABSENT, f64::NAN), 60.0),
        ] {
            let row = TorchMemoryRow {
                allocated_bytes,
                reserved_bytes: 20.0,
                peak_allocated_bytes: peaks.0,
                peak_reserved_bytes: peaks.1,
                device_free_bytes,
                device_total_bytes: 100.0,
                ..TorchMemoryRow::ABSENT
            };
            fixture::tick(&mut table, time, row);
        }
        let mut other = fixture::table(TableSpec::torch_memory(0));
        other.writer = "python-2".to_owned();
        fixture::tick(&mut other, 0, TorchMemoryRow::ABSENT);
        let mut recording = fixture::recording();
        recording.tables = vec![table, other, fixture::table(TableSpec::torch_memory(7))];
        let found = summarize_torch_memory(&recording);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].device, found[0].peak_allocated_bytes), (0, None));
        let device = &found[1];
        assert_eq!(device.peak_allocated_bytes, Some(55));
        assert_eq!(device.peak_reserved_bytes, Some(60));
        assert_eq!(
            (device.last_allocated_bytes, device.least_free_bytes),
            (Some(11), Some(30))
        );
        assert_eq!(device.device_total_bytes, Some(100));
    }

    #[test]
    fn what_was_held_when_an_allocation_failed_is_in_the_peak() {
        let mut table = fixture::table(TableSpec::torch_memory_of(7, 0));
        let row = TorchMemoryRow {
            allocated_bytes: 10.0,
            reserved_bytes: 20.0,
            ..TorchMemoryRow::ABSENT
        };
        fixture::tick(&mut table, 0, row);
        let mut recording = fixture::recording();
        recording.tables = vec![table];
        for (pid, device, bytes) in [(7, 0, 50), (8, 0, 70), (7, 1, 80)] {
            let failure = GpuAllocationFailure {
                pid,
                device: Some(device),
                allocated_bytes: Some(bytes),
                reserved_bytes: Some(bytes + 5),
                ..GpuAllocationFailure::default()
            };
            recording.events.push(TimedEvent {
                time_nanos: 1,
                event: Event::GpuAllocationFailed(Box::new(failure)),
            });
        }
        let found = summarize_torch_memory(&recording);
        assert_eq!(found[0].peak_allocated_bytes, Some(50));
        assert_eq!(found[0].peak_reserved_bytes, Some(55));
    }
}
