//! Processor time as a panel below the memory: percent of one core, over each stretch of two pixels.
//!
//! The tree's CPU time is a counter, so the mean over any stretch is exact; rates between two samples would only show the clock's grain.

use nilo_analysis::rate::busiest_cpu_percent;
use nilo_analysis::summary::CpuSummary;
use nilo_sample::{Recording, SeriesView, Subject};

use crate::curve::SampleGap;
use crate::metric_lines::{MetricLines, PlotPoint};
use crate::panel::{Panel, PanelKind, PanelSeries};
use crate::theme::Palette;
use crate::x_axis::XAxis;

/// Stretches end at multiples of this, so that they are the same however many readings there are between; none is narrower than half of it.
const STRETCH_PX: f64 = 2.0;
/// The highest figure is that of a second, as in the summary: over less it is mostly the clock's grain.
const BUSIEST_NANOS: u64 = 1_000_000_000;
/// Its colour among the series: that of the smallest of the usual processes.
const COLOUR: usize = 4;

/// The panel, with the figures of the summary where the caller has one; nothing where no processor time was recorded.
pub(crate) fn cpu_panel(
    recording: &Recording,
    told: Option<CpuSummary>,
    gaps: &[SampleGap],
    axis: &XAxis,
    width_px: f64,
    palette: &Palette,
) -> Option<Panel> {
    let tree = recording.table(&Subject::Tree)?;
    let cpu_nanos = tree.series("cpu_nanos")?;
    let lines = rates(cpu_nanos, gaps, axis, width_px)?;
    let (mean, busiest) = match told {
        Some(told) => (told.mean_percent, told.max_percent),
        None => (
            lines.last,
            busiest_cpu_percent(cpu_nanos, BUSIEST_NANOS, false),
        ),
    };
    // A recording that is shorter has no second to tell of.
    let busiest = busiest.filter(|_| recording.last_time_nanos() >= BUSIEST_NANOS);
    let figures = match (mean, busiest) {
        (Some(mean), Some(most)) => format!("mean {mean:.0} %, busiest second {most:.0} %"),
        (Some(mean), None) => format!("mean {mean:.0} %"),
        (None, _) => String::new(),
    };
    Some(Panel {
        name: "CPU, % of a core".to_owned(),
        from_zero: true,
        kind: PanelKind::Cpu { figures },
        runs: 1,
        unseen: axis.why_unseen(*cpu_nanos.times.first()?, *cpu_nanos.times.last()?),
        series: vec![PanelSeries {
            stroke: palette.series[COLOUR],
            dash: "",
            lines,
        }],
    })
}

/// The lines, with the mean over all as their last value.
fn rates(
    cpu_nanos: SeriesView<'_>,
    gaps: &[SampleGap],
    axis: &XAxis,
    width_px: f64,
) -> Option<MetricLines> {
    let mut pieces: Vec<Vec<PlotPoint>> = vec![Vec::new()];
    let mut readings = cpu_nanos.present().filter(|(_, nanos)| nanos.is_finite());
    let first = readings.next()?;
    let mut from = first;
    let mut before = first;
    let mut gaps = gaps.iter().peekable();
    let (mut spent, mut watched) = (0.0, 0.0);
    let percent = |from: (u64, f64), to: (u64, f64)| {
        let passed = to.0.saturating_sub(from.0) as f64;
        (passed > 0.0).then(|| 100.0 * (to.1 - from.1).max(0.0) / passed)
    };
    let end_stretch = |pieces: &mut Vec<Vec<PlotPoint>>, from: (u64, f64), to: (u64, f64)| {
        let Some(piece) = pieces.last_mut() else {
            return;
        };
        let Some(rate) = percent(from, to) else {
            return;
        };
        if piece.is_empty() {
            piece.push((axis.share(from.0), rate));
        }
        piece.push((axis.share(to.0), rate));
    };
    for reading in readings {
        if reading.0 <= before.0 {
            continue;
        }
        while gaps.next_if(|gap| gap.to_nanos <= before.0).is_some() {}
        let is_gap = gaps.peek().is_some_and(|gap| gap.from_nanos < reading.0);
        if is_gap {
            end_stretch(&mut pieces, from, before);
            pieces.push(Vec::new());
            (from, before) = (reading, reading);
            continue;
        }
        spent += (reading.1 - before.1).max(0.0);
        watched += (reading.0 - before.0) as f64;
        if axis.share(reading.0) < axis.share(before.0) {
            // A pass over the steps ends; the next is a piece of its own.
            end_stretch(&mut pieces, from, before);
            pieces.push(Vec::new());
            (from, before) = (reading, reading);
            continue;
        }
        before = reading;
        let [begin, end] = [from.0, reading.0].map(|time| axis.share(time) * width_px / STRETCH_PX);
        if end.floor() > begin.floor() && end - begin >= 0.5 {
            end_stretch(&mut pieces, from, reading);
            from = reading;
        }
    }
    end_stretch(&mut pieces, from, before);
    pieces.retain(|piece| !piece.is_empty());
    let values = || pieces.iter().flatten().map(|place| place.1);
    let extremes = values().reduce(f64::min).zip(values().reduce(f64::max));
    extremes.filter(|(_, most)| *most > 0.0)?;
    Some(MetricLines {
        last: (watched > 0.0).then(|| 100.0 * spent / watched),
        extremes,
        lines: pieces,
        ..MetricLines::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn lines(times: &[u64], cpu_secs: &[f64], gaps: &[SampleGap]) -> Option<MetricLines> {
        let times: Vec<u64> = times.iter().map(|secs| secs * SECOND).collect();
        let values: Vec<f64> = cpu_secs.iter().map(|secs| secs * 1e9).collect();
        let series = SeriesView {
            times: &times,
            values: &values,
        };
        let last = times.last().copied().unwrap_or(1);
        rates(series, gaps, &XAxis::time(last), 1000.0)
    }

    #[test]
    fn a_busy_core_is_a_hundred_percent() {
        let lines = lines(&[0, 1, 2, 3], &[0.0, 1.0, 3.0, 3.0], &[]).unwrap();
        assert_eq!(lines.extremes, Some((0.0, 200.0)));
        assert_eq!(lines.last, Some(100.0));
    }

    #[test]
    fn a_gap_breaks_the_line_and_counts_for_nothing() {
        let gap = SampleGap {
            from_nanos: SECOND,
            to_nanos: 100 * SECOND,
        };
        let lines = lines(&[0, 1, 100, 101], &[0.0, 1.0, 1.0, 2.0], &[gap]).unwrap();
        assert_eq!((lines.lines.len(), lines.last), (2, Some(100.0)));
    }

    #[test]
    fn without_processor_time_there_is_nothing_to_draw() {
        assert!(lines(&[0, 1], &[0.0, 0.0], &[]).is_none());
        assert!(lines(&[0], &[1.0], &[]).is_none());
        assert!(lines(&[], &[], &[]).is_none());
    }
}
