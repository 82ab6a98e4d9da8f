//! CPU time of the whole tree, and what the kernel counted for the command.

use nilo_sample::units::{NANOS_PER_SEC, to_secs};
use nilo_sample::{Event, Recording, RunMode, Subject};
use schemars::JsonSchema;
use serde::Serialize;

use crate::known_time::known_nanos;
use crate::rate::{busiest_cpu_percent, growth};

/// CPU of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Default, JsonSchema, Serialize)]
pub struct CpuSummary {
    /// User and system time of all processes.
    pub total_secs: Option<f64>,
    /// Mean percent of one core, over the time that is known.
    pub mean_percent: Option<f64>,
    /// The busiest second, or the mean of a shorter run.
    pub max_percent: Option<f64>,
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
    let tree = recording.table(&Subject::Tree);
    let series = tree.and_then(|tree| tree.series("cpu_nanos"));
    let from_zero =
        recording.description.mode == RunMode::Run && recording.description.parent.is_none();
    // What a watched process spent before we came is not part of the run.
    let from_first_reading = matches!(recording.description.mode, RunMode::Watch | RunMode::Python);
    let sampled = series.and_then(|series| match from_first_reading {
        true => growth(series),
        false => series.last(),
    });
    // Children that came and went between two samples are in the account of the one who waited for them.
    let waited = recording
        .events
        .iter()
        .rev()
        .find_map(|timed| match timed.event {
            Event::CommandEnded { cpu_nanos, .. } => cpu_nanos,
            _ => None,
        });
    let waited = waited.map(|nanos| nanos as f64);
    let total = sampled.into_iter().chain(waited).reduce(f64::max);
    let known_nanos = match series {
        Some(series) => known_nanos(recording, series, from_first_reading, duration_nanos),
        None => Some(duration_nanos),
    };
    let share = |(total, nanos): (f64, u64)| 100.0 * total / nanos as f64;
    let mean_percent = total.zip(known_nanos).map(share);
    let busiest = series.and_then(|it| busiest_cpu_percent(it, NANOS_PER_SEC, from_zero));
    CpuSummary {
        total_secs: total.map(|nanos| nanos / NANOS_PER_SEC as f64),
        mean_percent,
        // What nobody sampled counts in the mean alone.
        max_percent: busiest.into_iter().chain(mean_percent).reduce(f64::max),
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
    use nilo_sample::{TableSpec, TimedEvent, fixture};

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
            summarize_cpu(&recording, 40 * tenth).max_percent.unwrap()
        };
        assert!((busiest(RunMode::Run) - 90.0).abs() < 0.1);
        assert!(busiest(RunMode::Watch) < 40.0);
    }

    #[test]
    fn without_a_reading_nothing_is_known() {
        let found = summarize_cpu(&fixture::recording(), NANOS_PER_SEC);
        assert_eq!(found, CpuSummary::default());
        assert_eq!(found.total_secs, None);
        // Of a program that was running before, one reading does not say what it spent since.
        let mut recording = fixture::recording();
        recording.description.mode = RunMode::Watch;
        let row = TreeRow {
            cpu_nanos: 3e9,
            ..TreeRow::ABSENT
        };
        recording.tables = vec![fixture::table_of(TableSpec::tree(), &[(0, row)])];
        assert_eq!(summarize_cpu(&recording, NANOS_PER_SEC).total_secs, None);
    }

    #[test]
    fn what_was_waited_for_is_known_without_any_sample() {
        let mut recording = fixture::recording();
        recording.events = vec![ended(Some(NANOS_PER_SEC / 2))];
        let found = summarize_cpu(&recording, NANOS_PER_SEC);
        assert_eq!(found.total_secs, Some(0.5));
        assert_eq!(found.mean_percent, Some(50.0));
    }

    fn ended(cpu_nanos: Option<u64>) -> TimedEvent {
        TimedEvent {
            time_nanos: 40 * NANOS_PER_SEC,
            event: Event::CommandEnded {
                cpu_nanos,
                exit_code: Some(0),
                signal: None,
                peak_bytes: None,
            },
        }
    }

    /// One busy core throughout.
    #[test]
    fn the_share_is_that_of_the_time_that_is_known() {
        let mean = |mode, from_secs: u64, to_secs: u64, has_end: bool| {
            let mut recording = fixture::recording();
            recording.description.mode = mode;
            let rows: Vec<(u64, TreeRow)> = (from_secs..=to_secs)
                .map(|secs| {
                    let cpu_nanos = (secs * NANOS_PER_SEC) as f64;
                    let row = TreeRow {
                        cpu_nanos,
                        ..TreeRow::ABSENT
                    };
                    (secs * NANOS_PER_SEC, row)
                })
                .collect();
            recording.tables = vec![fixture::table_of(TableSpec::tree(), &rows)];
            recording.events = has_end.then(|| ended(None)).into_iter().collect();
            summarize_cpu(&recording, 40 * NANOS_PER_SEC).mean_percent
        };
        assert_eq!(mean(RunMode::Run, 0, 40, true), Some(100.0));
        // The end is lost, the beginning is lost, or both.
        assert_eq!(mean(RunMode::Run, 0, 20, false), Some(100.0));
        assert_eq!(mean(RunMode::Run, 30, 40, true), Some(100.0));
        assert_eq!(mean(RunMode::Watch, 30, 40, true), Some(100.0));
        assert_eq!(mean(RunMode::Watch, 10, 20, false), Some(100.0));
        // A watched process that was idle to the end of what is known.
        assert_eq!(mean(RunMode::Watch, 0, 20, true), Some(50.0));
    }
}
