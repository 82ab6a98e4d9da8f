//! How much of a run a counter is known for: files may have lost its beginning or its end.

use nilo_sample::{Event, Recording, SeriesView};

/// A beginning this much later than the first sample was due is not one that came late.
const FIRST_SAMPLE_LATE: u64 = 2;
/// The shortest interval that counts for that, in nanoseconds: on a busy machine a sample may take so long.
const SHORT_INTERVAL_NANOS: u64 = 100_000_000;

/// The time that a counter's value covers: from the beginning of the run, or from the first reading where only its growth counts,
/// to the end of the run, or to the last reading where the recording stops before that. `None` where that is no time at all.
pub(crate) fn known_nanos(
    recording: &Recording,
    counter: SeriesView<'_>,
    from_first_reading: bool,
    duration_nanos: u64,
) -> Option<u64> {
    let mut readings = counter.present();
    let (first, _) = readings.next()?;
    let (last, _) = readings.last().unwrap_or((first, 0.0));
    let from = if from_first_reading { first } else { 0 };
    let until = match is_recorded_to_the_end(recording) {
        true => duration_nanos,
        false => last.min(duration_nanos),
    };
    until.checked_sub(from).filter(|nanos| *nanos > 0)
}

/// The recorder's last word is there.
fn is_recorded_to_the_end(recording: &Recording) -> bool {
    let mut events = recording.events.iter().rev();
    events.any(|timed| matches!(timed.event, Event::CommandEnded { .. }))
}

/// Whether a damaged recording begins so late that its first samples must have been lost.
pub(crate) fn has_lost_its_beginning(recording: &Recording, first_nanos: u64) -> bool {
    let interval = recording.description.interval_nanos;
    let late = FIRST_SAMPLE_LATE * interval.max(SHORT_INTERVAL_NANOS);
    !recording.damage.is_empty() && first_nanos > late
}
