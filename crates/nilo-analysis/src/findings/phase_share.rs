//! In which phase of the program memory was taken that was not given back.
//!
//! What counts is the level before and after each time that the phase ran, so only phases that last longer than the time between two readings can be judged.

use nilo_sample::units::format_bytes;
use nilo_sample::{RecordedTable, Recording, SeriesView, Subject};

use crate::tracking::Resource;

/// A phase is named from this share of the growth on ...
const LEAST_SHARE: f64 = 0.6;
/// ... up to this: above it, other phases gave back what this one took, and nothing follows.
const MOST_SHARE: f64 = 1.3;
/// A phase that takes nearly all the time says nothing by holding nearly all the growth.
const CONCENTRATED: f64 = 1.5;
/// As often as this a phase must have run.
const LEAST_TIMES: usize = 3;

/// The phase in which most of the growth between these times came, in words.
pub(super) fn largest(
    recording: &Recording,
    resource: &Resource,
    since_nanos: u64,
    end_nanos: u64,
) -> Option<String> {
    let level = level_of(recording, resource)?;
    let grown = level_at(level, end_nanos)? - level_at(level, since_nanos)?;
    let length = end_nanos.saturating_sub(since_nanos) as f64;
    if grown <= 0.0 || length <= 0.0 {
        return None;
    }
    let readings = level.times.partition_point(|time| *time <= end_nanos)
        - level.times.partition_point(|time| *time < since_nanos);
    let between_readings = length / readings.max(1) as f64;
    let mut best: Option<(f64, String)> = None;
    for table in &recording.tables {
        let Subject::Phase { name } = &table.spec.subject else {
            continue;
        };
        let times = spans(table, since_nanos, end_nanos);
        let lasted: f64 = times.iter().map(|(from, to)| (to - from) as f64).sum();
        if times.len() < LEAST_TIMES || lasted / (times.len() as f64) < 2.0 * between_readings {
            continue;
        }
        let taken: f64 = times
            .iter()
            .filter_map(|(from, to)| Some(level_at(level, *to)? - level_at(level, *from)?))
            .sum();
        let (share, time_share) = (taken / grown, lasted / length);
        let telling =
            (LEAST_SHARE..MOST_SHARE).contains(&share) && share >= CONCENTRATED * time_share;
        if telling && best.as_ref().is_none_or(|(most, _)| share > *most) {
            let text = format!(
                "{} of it came while `{name}` ran, which took {:.0} % of the time",
                format_bytes(taken),
                100.0 * time_share
            );
            best = Some((share, text));
        }
    }
    best.map(|(_, text)| text)
}

fn level_of<'a>(recording: &'a Recording, resource: &Resource) -> Option<SeriesView<'a>> {
    let table = |subject: &Subject, writer: Option<&str>| {
        let mut tables = recording.tables.iter();
        tables.find(|table| {
            table.spec.subject == *subject && writer.is_none_or(|writer| table.writer == writer)
        })
    };
    match resource {
        Resource::Job => table(&Subject::Tree, None)?.series("memory_bytes"),
        Resource::Gpu { index } => {
            table(&Subject::Gpu { index: *index }, None)?.series("used_bytes")
        }
        Resource::Torch { writer, device } => {
            let subject = Subject::TorchMemory {
                device: *device,
                pid: None,
            };
            table(&subject, Some(writer))?.series("allocated_bytes")
        }
        _ => None,
    }
}

/// What was last read at this time.
fn level_at(level: SeriesView<'_>, time_nanos: u64) -> Option<f64> {
    let before = level.times.partition_point(|time| *time <= time_nanos);
    let values = level.values.get(..before)?.iter().rev();
    values.copied().find(|value| !value.is_nan())
}

/// When the phase ran within these times, from and to.
fn spans(table: &RecordedTable, since_nanos: u64, end_nanos: u64) -> Vec<(u64, u64)> {
    let Some(durations) = table.series("duration_nanos") else {
        return Vec::new();
    };
    let usable = durations
        .present()
        .filter(|(_, nanos)| nanos.is_finite() && *nanos >= 0.0);
    usable
        .map(|(end, nanos)| (end.saturating_sub(nanos as u64), end))
        .filter(|(from, to)| *from >= since_nanos && *to <= end_nanos)
        .collect()
}
