//! From a metric to the lines that are drawn: one for each writer or those that follow one another, broken where a value is not finite, as many points as there are pixels.

use nilo_analysis::{Metric, MetricHistory, MetricPoint, SplitRanks};

use crate::joined_pieces::join_pieces;
use crate::m4::m4;
use crate::x_axis::XAxis;

/// A point: its share of the axis and its value.
pub(crate) type PlotPoint = (f64, f64);

/// One metric of one run.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct MetricLines {
    /// In unbroken pieces.
    pub(crate) lines: Vec<Vec<PlotPoint>>,
    /// Where values are not finite, at most one for each pixel.
    pub(crate) not_finite: Vec<f64>,
    pub(crate) nan_count: usize,
    pub(crate) inf_count: usize,
    pub(crate) negative_inf_count: usize,
    /// The last value.
    pub(crate) last: Option<f64>,
    /// The smallest and the largest finite value.
    pub(crate) extremes: Option<(f64, f64)>,
    /// What other ranks logged, in unbroken pieces; the figures are not of them.
    pub(crate) other_ranks: Vec<Vec<PlotPoint>>,
    /// How many of their values are not finite.
    pub(crate) other_not_finite: usize,
    /// The rank that is drawn and how many there are, where there are several.
    pub(crate) ranks: Option<(u32, usize)>,
}

/// Draws a metric's history onto an axis that is so many pixels long: of several ranks the first, and the others beside it.
pub(crate) fn metric_lines(history: &MetricHistory, axis: &XAxis, width_px: f64) -> MetricLines {
    let SplitRanks {
        shown: points,
        mut others,
        ranks,
    } = history.clone().split_ranks();
    let other_not_finite = others.iter().filter(|point| !point.value.is_finite());
    let other_not_finite = other_not_finite.count();
    others.sort_by_key(|point| point.rank);
    let by_rank = others.chunk_by(|a, b| a.rank == b.rank);
    let other_ranks = by_rank.flat_map(|points| lines(points, axis, width_px));
    let finite = || points.iter().map(|p| p.value).filter(|v| v.is_finite());
    let low = finite().reduce(f64::min);
    let high = finite().reduce(f64::max);
    let mut not_finite: Vec<f64> = points
        .iter()
        .chain(&others)
        .filter(|point| !point.value.is_finite())
        .filter_map(|point| axis.share_of(point))
        .collect();
    not_finite.sort_by(f64::total_cmp);
    not_finite.dedup_by_key(|share| (*share * width_px).floor() as i64);
    MetricLines {
        lines: lines(&points, axis, width_px),
        not_finite,
        nan_count: points.iter().filter(|p| p.value.is_nan()).count(),
        inf_count: count_of(&points, f64::INFINITY),
        negative_inf_count: count_of(&points, f64::NEG_INFINITY),
        last: points.last().map(|point| point.value),
        extremes: low.zip(high),
        other_ranks: other_ranks.collect(),
        other_not_finite,
        ranks,
    }
}

fn count_of(points: &[MetricPoint], value: f64) -> usize {
    points.iter().filter(|point| point.value == value).count()
}

fn lines(points: &[MetricPoint], axis: &XAxis, width_px: f64) -> Vec<Vec<PlotPoint>> {
    let mut by_writer: Vec<Vec<PlotPoint>> = Vec::new();
    for point in points {
        let writer = point.writer as usize;
        if by_writer.len() <= writer {
            by_writer.resize_with(writer + 1, Vec::new);
        }
        let place = axis.share_of(point).map(|share| (share, point.value));
        by_writer[writer].extend(place);
    }
    let mut laps: Vec<Vec<PlotPoint>> = Vec::new();
    for mut line in by_writer {
        // Steps that begin again begin a new piece. More of them than pixels (threads that share a metric) are one cloud.
        let goes_on = |a: &PlotPoint, b: &PlotPoint| a.0 <= b.0;
        if line
            .windows(2)
            .filter(|pair| !goes_on(&pair[0], &pair[1]))
            .count() as f64
            > width_px
        {
            line.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let breaks = line
            .windows(2)
            .filter(|pair| !pair[1].1.is_finite())
            .count();
        if breaks as f64 > width_px {
            // More breaks than pixels cannot be seen as such, and would only make a large picture.
            line.retain(|place| place.1.is_finite());
        }
        laps.extend(line.chunk_by(goes_on).map(<[PlotPoint]>::to_vec));
    }
    if axis.is_steps() {
        laps = join_pieces(laps);
    }
    let thin = |piece: &[PlotPoint]| m4(piece, |place| place.0 * width_px, |place| place.1);
    let mut pieces = Vec::new();
    for lap in &laps {
        let split = lap.split(|place| !place.1.is_finite());
        pieces.extend(split.filter(|piece| !piece.is_empty()).map(thin));
    }
    pieces
}

/// The steps between which a metric lies, if it has any.
pub(crate) fn step_range(history: &MetricHistory) -> Option<(i64, i64)> {
    let steps = || history.points.iter().filter_map(|point| point.step);
    Some((steps().min()?, steps().max()?))
}

/// Metrics by their names, in the order of the names; those that were not logged are left out.
pub(crate) fn chosen<'a>(
    metrics: &'a [Metric<'a>],
    names: &'a [String],
) -> impl Iterator<Item = (&'a str, MetricHistory)> {
    names.iter().filter_map(|name| {
        let found = metrics.iter().find(|metric| metric.name == *name)?;
        Some((name.as_str(), found.history()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of the steps 2 and 3, and the one of 0 and 1 that it resumes, whose times are not known.
    fn resumed() -> MetricHistory {
        let point = |step: i64, writer: u32, time_nanos: u64| MetricPoint {
            time_nanos,
            step: Some(step),
            value: step as f64,
            writer,
            lap: 0,
            rank: None,
        };
        MetricHistory {
            points: vec![
                point(0, 1, 0),
                point(1, 1, 0),
                point(2, 0, 5),
                point(3, 0, 10),
            ],
            ..MetricHistory::default()
        }
    }

    #[test]
    fn a_resumed_run_is_one_line_over_steps() {
        let axis = XAxis::Steps {
            knots: vec![(0, 2.0), (10, 3.0)],
            first: 0.0,
            last: 3.0,
        };
        let drawn = metric_lines(&resumed(), &axis, 300.0).lines;
        let places: Vec<Vec<f64>> = drawn
            .iter()
            .map(|line| line.iter().map(|place| place.1).collect())
            .collect();
        assert_eq!(places, [[0.0, 1.0, 2.0, 3.0]]);
    }

    #[test]
    fn over_time_each_process_has_its_own_line() {
        let drawn = metric_lines(&resumed(), &XAxis::time(10), 300.0).lines;
        assert_eq!(drawn.len(), 2);
    }
}
