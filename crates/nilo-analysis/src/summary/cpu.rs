//! CPU time of the whole tree, and what the kernel counted for the command.

use nilo_sample::units::{NANOS_PER_SEC, to_secs};
use nilo_sample::{Event, Recording, RunMode, Subject};
use schemars::JsonSchema;
use serde::Serialize;

use crate::rate::{busiest_cpu_percent, growth};

/// CPU of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Default, JsonSchema, Serialize)]
pub struct CpuSummary {
    /// User and system time of all processes.
    pub total_secs: f64,
    /// Mean percent of one core.
    pub mean_percent: f64,
    /// The busiest second, or the mean of a shorter run.
    pub max_percent: f64,
}

/// What the kernel counted for the command.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct UsageSummary {
    /// CPU time in user mode.
    pub user_secs: f64,
    /// CPU time in the kernel.
    pub system_secs: f64,
    /// Page faults served without reading from storage.
    pub minor_faults: u64,
    /// Page faults that had to read from storage.
    pub major_faults: u64,
    /// Times that it waited for something.
    pub voluntary_switches: u64,
    /// Times that its processor was taken away.
    pub involuntary_switches: u64,
    /// Bytes read from storage.
    pub read_bytes: u64,
    /// Bytes written to storage.
    pub written_bytes: u64,
}

pub(super) fn summarize_cpu(recording: &Recording, duration_nanos: u64) -> CpuSummary {
    let Some(series) = recording
        .table(&Subject::Tree)
        .and_then(|tree| tree.series("cpu_nanos"))
    else {
        return CpuSummary::default();
    };
    let from_zero =
        recording.description.mode == RunMode::Run && recording.description.parent.is_none();
    // What a watched process spent before we came is not part of the run.
    let sampled = match recording.description.mode {
        RunMode::Watch | RunMode::Python => growth(series),
        _ => series.last(),
    };
    // Children that came and went between two samples are in the account of the one who waited for them.
    let waited = recording
        .events
        .iter()
        .rev()
        .find_map(|timed| match timed.event {
            Event::CommandEnded { cpu_nanos, .. } => cpu_nanos,
            _ => None,
        });
    let total = sampled.unwrap_or(0.0).max(waited.unwrap_or(0) as f64);
    let mean_percent = 100.0 * total / duration_nanos as f64;
    CpuSummary {
        total_secs: total / NANOS_PER_SEC as f64,
        mean_percent,
        // What nobody sampled counts in the mean alone.
        max_percent: busiest_cpu_percent(series, NANOS_PER_SEC, from_zero)
            .map_or(mean_percent, |busiest| busiest.max(mean_percent)),
    }
}

pub(super) fn summarize_usage(recording: &Recording) -> Option<UsageSummary> {
    let mut events = recording.events.iter().rev();
    events.find_map(|timed| match &timed.event {
        Event::ResourceUsage(usage) => Some(UsageSummary {
            user_secs: to_secs(usage.user_nanos),
            system_secs: to_secs(usage.system_nanos),
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
            read_bytes: usage.read_bytes,
            written_bytes: usage.written_bytes,
        }),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use nilo_sample::rows::TreeRow;
    use nilo_sample::{TableSpec, fixture};

    use super::*;

    /// A command counts from its first moment on, a watched process from its first reading on.
    #[test]
    fn what_was_spent_before_the_first_reading_is_in_the_busiest_second_of_a_command() {
        let row = |cpu_secs: f64| TreeRow {
            cpu_nanos: cpu_secs * 1e9,
            ..TreeRow::ABSENT
        };
        let tenth = NANOS_PER_SEC / 10;
        let rows = [
            (3 * tenth, row(0.3)),
            (10 * tenth, row(0.9)),
            (40 * tenth, row(0.9)),
        ];
        let busiest = |mode| {
            let mut recording = fixture::recording();
            recording.description.mode = mode;
            recording.tables = vec![fixture::table_of(TableSpec::tree(), &rows)];
            summarize_cpu(&recording, 40 * tenth).max_percent
        };
        assert!((busiest(RunMode::Run) - 90.0).abs() < 0.1);
        assert!(busiest(RunMode::Watch) < 40.0);
    }
}
