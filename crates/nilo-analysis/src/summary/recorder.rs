//! What the recording itself cost and lost.

use nilo_sample::units::{NANOS_PER_SEC, to_secs};
use nilo_sample::{Event, Recording, RunMode, Subject};
use schemars::JsonSchema;
use serde::Serialize;

use super::whole;
use crate::known_time::known_nanos;

/// What the recording cost and lost.
#[derive(Debug, Clone, Default, JsonSchema, Serialize)]
pub struct RecorderSummary {
    /// CPU time of the recorder.
    pub cpu_secs: Option<f64>,
    /// The same as percent of one core, over the time that is known.
    pub cpu_percent: Option<f64>,
    /// The recorder's largest resident memory.
    pub peak_rss_bytes: Option<u64>,
    /// Rows that could not be stored, those that programs logged included.
    pub dropped_samples: u64,
    /// Of them those that programs logged.
    pub dropped_logged_rows: u64,
    /// Why the last of them could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_reason: Option<String>,
    /// Ticks that came later than half an interval.
    pub late_ticks: Option<u64>,
    /// The asked-for interval.
    pub interval_secs: f64,
    /// Each time the pace changed because the machine could not keep up, or could again, in words.
    pub slowed: Vec<String>,
    /// Stretches without samples.
    pub gaps: u64,
    /// What was wrong with the files.
    pub damage: Vec<String>,
}

pub(super) fn summarize_recorder(recording: &Recording, duration_nanos: u64) -> RecorderSummary {
    let gaps = recording
        .events
        .iter()
        .filter(|timed| matches!(timed.event, Event::Gap { .. }))
        .count();
    let mut summary = RecorderSummary {
        dropped_samples: recording.dropped_rows,
        dropped_logged_rows: recording.dropped_program_rows,
        dropped_reason: dropped_reason(recording),
        interval_secs: to_secs(recording.description.interval_nanos),
        gaps: gaps as u64,
        slowed: paces(recording),
        damage: damage(recording),
        ..RecorderSummary::default()
    };
    if let Some(table) = recording.table(&Subject::Recorder) {
        let last = |column: &str| table.series(column)?.last();
        let cpu_nanos = last("cpu_nanos");
        summary.cpu_secs = cpu_nanos.map(|nanos| nanos / NANOS_PER_SEC as f64);
        let known = table
            .series("cpu_nanos")
            .and_then(|series| known_nanos(recording, series, false, duration_nanos));
        let share = |(spent, nanos): (f64, u64)| 100.0 * spent / nanos as f64;
        summary.cpu_percent = cpu_nanos.zip(known).map(share);
        summary.peak_rss_bytes = table
            .series("rss_bytes")
            .and_then(|s| s.max())
            .and_then(|(_, v)| whole(v));
        summary.late_ticks = last("late_ticks").and_then(whole);
    }
    summary
}

/// What is wrong with the files: what the reader found, and a finished run whose tail is gone.
pub fn damage(recording: &Recording) -> Vec<String> {
    let mut damage = recording.damage.clone();
    let recorded = matches!(recording.description.mode, RunMode::Run | RunMode::Watch);
    let ended = |timed: &nilo_sample::TimedEvent| matches!(timed.event, Event::CommandEnded { .. });
    let lost_rows = recording.dropped_rows > 0;
    let finished = recording.description.ending.is_some();
    if recorded && finished && !lost_rows && !recording.events.iter().any(ended) {
        damage.push("the run ended, but the recording stops before that".to_owned());
    }
    damage
}

fn dropped_reason(recording: &Recording) -> Option<String> {
    let mut events = recording.events.iter().rev();
    events.find_map(|timed| match &timed.event {
        Event::Lost { reason, .. } => Some(reason.clone()),
        _ => None,
    })
}

fn paces(recording: &Recording) -> Vec<String> {
    let changes = recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::Interval { nanos, reason } => Some(format!(
                "from {:.1} s on sampled every {} s: {reason}",
                to_secs(timed.time_nanos),
                to_secs(*nanos)
            )),
            _ => None,
        });
    changes.collect()
}
