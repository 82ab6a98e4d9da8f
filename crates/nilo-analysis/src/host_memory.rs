//! The memory of the machine: what every program together uses of it, which is what a run without a job is about.

use nilo_sample::units::to_secs;
use nilo_sample::{Recording, RunMode, SeriesView, Subject, is_absent};
use schemars::JsonSchema;
use serde::Serialize;

use crate::gpus::held_mean;

/// Host memory over a run that has no job.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct HostMemorySummary {
    /// Memory that the kernel manages.
    pub total_bytes: u64,
    /// Most that was in use: all memory except what new programs can get without swapping.
    pub peak_used_bytes: u64,
    /// When, in seconds since the start.
    pub peak_secs: f64,
    /// Mean over time.
    pub mean_used_bytes: u64,
    /// Least that was in use.
    pub min_used_bytes: u64,
    /// In use at the end.
    pub last_used_bytes: u64,
}

/// What was used of the host over time, in bytes; a level holds until the next one.
pub fn host_used(recording: &Recording) -> Vec<(u64, f64)> {
    let Some(host) = recording.table(&Subject::Host) else {
        return Vec::new();
    };
    let (Some(total), Some(available)) =
        (host.series("total_bytes"), host.series("available_bytes"))
    else {
        return Vec::new();
    };
    // Rows of a thinned recording need not have every column.
    let mut known_total = total.present().next().map(|(_, bytes)| bytes);
    let rows = host.times.iter().zip(total.values).zip(available.values);
    let used = rows.filter_map(|((time, total), available)| {
        if !is_absent(*total) {
            known_total = Some(*total);
        }
        let used = known_total? - available;
        (!is_absent(*available) && used >= 0.0).then_some((*time, used))
    });
    used.collect()
}

/// Summarizes the host of a run that is about the machine; nothing of any other.
pub(crate) fn summarize_host(recording: &Recording, end_nanos: u64) -> Option<HostMemorySummary> {
    if recording.description.mode != RunMode::Machine {
        return None;
    }
    let total = recording.table(&Subject::Host)?.series("total_bytes")?;
    let (times, values): (Vec<u64>, Vec<f64>) = host_used(recording).into_iter().unzip();
    let used = SeriesView {
        times: &times,
        values: &values,
    };
    let (peak_nanos, peak) = used.max()?;
    Some(HostMemorySummary {
        total_bytes: total.last()? as u64,
        peak_used_bytes: peak as u64,
        peak_secs: to_secs(peak_nanos),
        mean_used_bytes: held_mean(used, end_nanos)? as u64,
        min_used_bytes: values.iter().copied().reduce(f64::min)? as u64,
        last_used_bytes: used.last()? as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::rows::HostRow;
    use nilo_sample::{ABSENT, TableSpec, fixture};

    fn row(total_bytes: f64, available_bytes: f64) -> HostRow {
        HostRow {
            total_bytes,
            available_bytes,
            ..HostRow::ABSENT
        }
    }

    #[test]
    fn a_run_of_the_machine_has_the_memory_of_all_programs() {
        let second = 1_000_000_000;
        let rows = [
            (0, row(100.0, 90.0)),
            // A thinned row lacks what did not change.
            (second, row(ABSENT, 40.0)),
            (2 * second, row(100.0, ABSENT)),
            (3 * second, row(100.0, 70.0)),
        ];
        let mut recording = fixture::recording();
        recording.tables = vec![fixture::table_of(TableSpec::host(), &rows)];
        assert_eq!(
            summarize_host(&recording, 4 * second),
            None,
            "it is a job's"
        );
        recording.description.mode = RunMode::Machine;
        let expected = HostMemorySummary {
            total_bytes: 100,
            peak_used_bytes: 60,
            peak_secs: 1.0,
            mean_used_bytes: 40,
            min_used_bytes: 10,
            last_used_bytes: 30,
        };
        assert_eq!(summarize_host(&recording, 4 * second), Some(expected));
    }
}
