//! From a recording to the curve that is drawn: plausible points, where they break off, and as many of them as there are pixels.

use nilo_analysis::host_memory::host_used;
use nilo_sample::limit::NO_LIMIT_FROM;
use nilo_sample::units::NANOS_PER_SEC;
use nilo_sample::{Event, Recording, RunMode, SeriesView, Subject};

use crate::m4::m4;

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CurvePoint {
    pub(crate) time_nanos: u64,
    pub(crate) bytes: f64,
}

/// A stretch without samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleGap {
    pub(crate) from_nanos: u64,
    pub(crate) to_nanos: u64,
}

/// What can be an amount of memory; anything else counts as not measured.
pub(crate) fn is_plausible(bytes: f64) -> bool {
    (0.0..NO_LIMIT_FROM as f64).contains(&bytes)
}

/// What a run's curve is of: its process tree, or the machine where it has no job.
pub(crate) fn memory_points(recording: &Recording) -> Vec<CurvePoint> {
    match recording.description.mode {
        RunMode::Machine => host_points(recording),
        _ => tree_points(recording),
    }
}

/// The host's memory over time. Only changes are recorded: the last level holds until the end.
fn host_points(recording: &Recording) -> Vec<CurvePoint> {
    let used = host_used(recording).into_iter();
    let mut points: Vec<CurvePoint> = used
        .map(|(time_nanos, bytes)| CurvePoint { time_nanos, bytes })
        .collect();
    let ending = recording.description.ending.as_ref();
    if let (Some(last), Some(ending)) = (points.last().copied(), ending)
        && ending.time_nanos > last.time_nanos
    {
        points.push(CurvePoint {
            time_nanos: ending.time_nanos,
            ..last
        });
    }
    points
}

/// The tree's memory over time; its plain sum of RSS where nothing better was recorded.
fn tree_points(recording: &Recording) -> Vec<CurvePoint> {
    let Some(tree) = recording.table(&Subject::Tree) else {
        return Vec::new();
    };
    let memory = tree.series("memory_bytes").map(plausible);
    memory
        .filter(|points| !points.is_empty())
        .or_else(|| tree.series("rss_bytes").map(plausible))
        .unwrap_or_default()
}

fn plausible(series: SeriesView<'_>) -> Vec<CurvePoint> {
    let points = series.present().filter(|(_, bytes)| is_plausible(*bytes));
    let mut points: Vec<CurvePoint> = points
        .map(|(time_nanos, bytes)| CurvePoint { time_nanos, bytes })
        .collect();
    if !points.is_sorted_by_key(|point| point.time_nanos) {
        points.sort_by_key(|point| point.time_nanos);
    }
    points
}

/// Where the curve must not be joined: recorded gaps, and samples more than a second and three intervals apart.
///
/// An interval is the median spacing or what the recorder said it had slowed down to, whichever is longer.
/// Of a thinned recording, samples less than two pixels of the thinning apart had others between them.
/// The host has a row where it changed, so only recorded gaps count there.
pub(crate) fn gaps(points: &[CurvePoint], recording: &Recording) -> Vec<SampleGap> {
    if recording.description.mode == RunMode::Machine {
        return recorded_gaps(points, recording);
    }
    let mut spacings: Vec<u64> = points
        .windows(2)
        .map(|pair| pair[1].time_nanos - pair[0].time_nanos)
        .collect();
    let middle = spacings.len() / 2;
    let median = if spacings.is_empty() {
        0
    } else {
        *spacings.select_nth_unstable(middle).1
    };
    let usual = median.max(recording.description.interval_nanos);

    let mut intervals = recording
        .events
        .iter()
        .filter_map(|timed| match timed.event {
            Event::Interval { nanos, .. } => Some((timed.time_nanos, nanos)),
            _ => None,
        })
        .peekable();
    let mut declared = 0;
    let mut found = Vec::new();
    for pair in points.windows(2) {
        let (from_nanos, to_nanos) = (pair[0].time_nanos, pair[1].time_nanos);
        let mut interval = declared;
        while let Some((_, nanos)) = intervals.next_if(|(time, _)| *time <= to_nanos) {
            declared = nanos;
            // The change falls between two samples: either pace excuses the distance.
            interval = interval.max(nanos);
        }
        let thinned = recording.thinned_nanos.saturating_mul(2);
        let longest = usual.max(interval).saturating_mul(3).max(NANOS_PER_SEC);
        let longest = longest.max(thinned);
        if to_nanos - from_nanos > longest {
            found.push(SampleGap {
                from_nanos,
                to_nanos,
            });
        }
    }
    found.extend(recorded_gaps(points, recording));
    found.sort_by_key(|gap| (gap.from_nanos, gap.to_nanos));
    found.dedup();
    found
}

/// Gap events, widened to the samples on either side of them.
fn recorded_gaps(points: &[CurvePoint], recording: &Recording) -> Vec<SampleGap> {
    let widen = |end_nanos: u64, nanos: u64| {
        let begin_nanos = end_nanos.saturating_sub(nanos);
        let after = points.partition_point(|point| point.time_nanos < end_nanos);
        let before = after.checked_sub(1).and_then(|before| points.get(before));
        let from_nanos = before.map_or(begin_nanos, |point| point.time_nanos);
        let to_nanos = points
            .get(after)
            .map_or(end_nanos, |point| point.time_nanos);
        let silent = end_nanos - from_nanos.max(begin_nanos).min(end_nanos);
        // Samples inside the gap: something was seen after all.
        (silent > nanos / 2).then_some(SampleGap {
            from_nanos,
            to_nanos,
        })
    };
    let gaps = recording.events.iter().filter_map(|timed| {
        if let Event::Gap { nanos, .. } = timed.event {
            widen(timed.time_nanos, nanos)
        } else {
            None
        }
    });
    gaps.collect()
}

/// The curve in unbroken pieces that never go back to the left, each with at most four points for a pixel column.
pub(crate) fn pieces(
    points: &[CurvePoint],
    gaps: &[SampleGap],
    column: impl Fn(u64) -> f64,
) -> Vec<Vec<CurvePoint>> {
    // A break that is narrower than a pixel cannot be seen, and there may be a great many of them.
    let visible = |gap: &&SampleGap| column(gap.to_nanos) - column(gap.from_nanos) >= 1.0;
    let mut breaks = gaps.iter().filter(visible).map(|gap| gap.from_nanos);
    let mut next_break = breaks.next();
    let mut pieces = Vec::new();
    let mut rest = points;
    while !rest.is_empty() {
        while next_break.is_some_and(|time| time < rest[0].time_nanos) {
            next_break = breaks.next();
        }
        let end = match next_break {
            Some(time) => rest.partition_point(|point| point.time_nanos <= time),
            None => rest.len(),
        };
        let goes_back =
            |pair: &[CurvePoint]| column(pair[1].time_nanos) < column(pair[0].time_nanos);
        let end = rest[..end]
            .windows(2)
            .position(goes_back)
            .map_or(end, |before| before + 1);
        let (piece, after) = rest.split_at(end.max(1));
        pieces.push(m4(
            piece,
            |point| column(point.time_nanos),
            |point| point.bytes,
        ));
        rest = after;
    }
    pieces
}

/// The highest point, the first of several.
pub(crate) fn highest(points: &[CurvePoint]) -> Option<CurvePoint> {
    let higher = |best: CurvePoint, point: CurvePoint| {
        if point.bytes > best.bytes {
            point
        } else {
            best
        }
    };
    points.iter().copied().reduce(higher)
}

/// The curve's height at a time, straight between two points; `None` outside of it.
pub(crate) fn height_at(points: &[CurvePoint], time_nanos: u64) -> Option<f64> {
    let after = points.partition_point(|point| point.time_nanos < time_nanos);
    let right = points.get(after)?;
    if right.time_nanos == time_nanos {
        return Some(right.bytes);
    }
    let left = points.get(after.checked_sub(1)?)?;
    let share = (time_nanos - left.time_nanos) as f64 / (right.time_nanos - left.time_nanos) as f64;
    Some(left.bytes + share * (right.bytes - left.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::fixture;

    #[test]
    fn rows_of_a_thinned_recording_are_joined_within_two_pixels() {
        let points = [0, 10, 20, 30, 5000, 5010, 10_000, 10_010, 60_000].map(|millis| CurvePoint {
            time_nanos: millis * 1_000_000,
            bytes: 1.0,
        });
        let mut recording = fixture::recording();
        recording.description.interval_nanos = 10_000_000;
        let mut gap_ends = |thinned_secs: u64| -> Vec<u64> {
            recording.thinned_nanos = thinned_secs * NANOS_PER_SEC;
            let found = gaps(&points, &recording).into_iter();
            found.map(|gap| gap.to_nanos / NANOS_PER_SEC).collect()
        };
        assert_eq!(gap_ends(0), [5, 10, 60]);
        assert_eq!(gap_ends(4), [60]);
    }
}
