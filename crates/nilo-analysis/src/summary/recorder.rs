//! What the recording itself cost and lost.

use nilo_sample::units::{NANOS_PER_SEC, to_secs};
use nilo_sample::{Event, Recording, RunMode, Subject};
use schemars::JsonSchema;
use serde::Serialize;

use super::whole;

/// Over less than this a share would only speak of the recorder's own start.
const SHORTEST_SHARE_NANOS: u64 = NANOS_PER_SEC;

/// What the recording cost and lost.
#[derive(Debug, Clone, Default, JsonSchema, Serialize)]
pub struct RecorderSummary {
    /// CPU time of the recorder, as it last told it: every few seconds, and at the end unless it was killed.
    pub cpu_secs: Option<f64>,
    /// The same as percent of one core, over the time until then. None for less than a second.
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
    /// How long these were together.
    pub gaps_secs: f64,
    /// What was wrong with the files.
    pub damage: Vec<String>,
}

pub(super) fn summarize_recorder(recording: &Recording) -> RecorderSummary {
    let gaps: Vec<u64> = recording
        .events
        .iter()
        .filter_map(|timed| match timed.event {
            Event::Gap { nanos, .. } => Some(nanos),
            _ => None,
        })
        .collect();
    let mut summary = RecorderSummary {
        dropped_samples: recording.dropped_rows,
        dropped_logged_rows: recording.dropped_program_rows,
        dropped_reason: dropped_reason(recording),
        interval_secs: to_secs(recording.description.interval_nanos),
        gaps: gaps.len() as u64,
        gaps_secs: to_secs(gaps.iter().sum()),
        slowed: paces(recording),
        damage: damage(recording),
        ..RecorderSummary::default()
    };
    if let Some(table) = recording.table(&Subject::Recorder) {
        let last = |column: &str| table.series(column)?.last();
        // What was spent after the last reading is not in it, however long the run went on.
        let cpu_nanos = table
            .series("cpu_nanos")
            .and_then(|series| series.present().last());
        summary.cpu_secs = cpu_nanos.map(|(_, nanos)| nanos / NANOS_PER_SEC as f64);
        summary.cpu_percent = cpu_nanos
            .filter(|(until, _)| *until >= SHORTEST_SHARE_NANOS)
            .map(|(until, spent)| 100.0 * spent / until as f64);
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

#[cfg(test)]
mod tests {
    use nilo_sample::rows::RecorderRow;
    use nilo_sample::{TableSpec, TimedEvent, fixture};

    use super::*;

    const TENTH: u64 = NANOS_PER_SEC / 10;

    fn cost(rows: &[(u64, f64)], events: Vec<Event>) -> RecorderSummary {
        let row = |cpu_nanos: f64| RecorderRow {
            cpu_nanos,
            ..RecorderRow::ABSENT
        };
        let rows: Vec<(u64, RecorderRow)> = rows
            .iter()
            .map(|(time, spent)| (*time, row(*spent)))
            .collect();
        let mut recording = fixture::recording();
        recording.tables = vec![fixture::table_of(TableSpec::recorder(), &rows)];
        recording.events = events
            .into_iter()
            .map(|event| TimedEvent {
                time_nanos: 100 * TENTH,
                event,
            })
            .collect();
        summarize_recorder(&recording)
    }

    /// A recorder that is killed wrote its last row seconds before; what it took to start is in the first one.
    #[test]
    fn the_share_of_a_recorder_is_that_of_the_time_until_it_was_read_last() {
        let killed_at_once = cost(&[(TENTH / 100, 5e6)], Vec::new());
        assert_eq!(killed_at_once.cpu_secs, Some(0.005));
        assert_eq!(killed_at_once.cpu_percent, None);
        let rows = [(0, 5e6), (10 * TENTH, 10e6), (20 * TENTH, 20e6)];
        assert_eq!(cost(&rows[..2], Vec::new()).cpu_percent, Some(1.0));
        assert_eq!(cost(&rows, Vec::new()).cpu_percent, Some(1.0));
        // A SIGTERM that a program did not outlive is told at its end, when nothing of us is read any more.
        let ended = Event::CommandEnded {
            exit_code: None,
            signal: Some(15),
            peak_bytes: None,
            cpu_nanos: None,
        };
        assert_eq!(cost(&rows, vec![ended]).cpu_percent, Some(1.0));
        assert_eq!(cost(&[], Vec::new()).cpu_percent, None);
    }

    #[test]
    fn gaps_are_counted_and_added_up() {
        let gap = |nanos| Event::Gap {
            nanos,
            reason: "the recorder was stopped or got no CPU time".to_owned(),
        };
        let found = cost(&[(0, 5e6)], vec![gap(19 * TENTH), gap(11 * TENTH)]);
        assert_eq!((found.gaps, found.gaps_secs), (2, 3.0));
        assert_eq!(cost(&[(0, 5e6)], Vec::new()).gaps_secs, 0.0);
    }
}
