//! The memory of each GPU as a panel below the tree's: what it holds in all, and dashed the part of it that is the job's.
//!
//! A row stands until the next one, so the lines are stairs; a row without a value ends a piece.

use nilo_sample::units::GIB;
use nilo_sample::{Recording, SeriesView, Subject};

use crate::m4::m4;
use crate::metric_lines::{MetricLines, PlotPoint};
use crate::panel::{Panel, PanelKind, PanelSeries, panel_colour};
use crate::theme::Palette;
use crate::x_axis::XAxis;

/// A machine has eight GPUs, and eight panels of the same curve say no more than four.
pub(crate) const MOST_GPUS: usize = 4;
/// A change is as old as the reading before it at most.
const READING_NANOS: u64 = 200_000_000;

/// A panel for each GPU that was recorded, in their order, and how many are left out.
pub(crate) fn gpu_panels(
    recording: &Recording,
    axis: &XAxis,
    width_px: f64,
    palette: &Palette,
) -> (Vec<Panel>, usize) {
    let mut gpus: Vec<_> = recording
        .tables
        .iter()
        .filter_map(|table| match table.spec.subject {
            Subject::Gpu { index } => Some((index, table)),
            _ => None,
        })
        .collect();
    let ending = recording.description.ending.as_ref();
    let end_nanos = ending.map(|ending| ending.time_nanos);
    gpus.sort_by_key(|(index, _)| *index);
    let left_out = gpus.len().saturating_sub(MOST_GPUS);
    gpus.truncate(MOST_GPUS);
    let panels = gpus.into_iter().enumerate().map(|(place, (index, table))| {
        let stroke = panel_colour(place, palette);
        let lines = |column: &str| {
            let series = table.series(column);
            series.map(|series| stairs(series, end_nanos, axis, width_px))
        };
        let used = lines("used_bytes").unwrap_or_default();
        let share = lines("job_bytes").filter(|lines| differs(lines, &used));
        let of = |lines, dash| PanelSeries {
            stroke,
            dash,
            lines,
        };
        let has_share = share.is_some();
        Panel {
            name: match has_share {
                true => format!("GPU {index}, GiB used (dashed: by the job)"),
                false => format!("GPU {index}, GiB used"),
            },
            from_zero: true,
            kind: PanelKind::Values,
            runs: 1,
            unseen: unseen(&table.times, end_nanos, axis),
            series: std::iter::once(of(used, ""))
                .chain(share.map(|share| of(share, "5 3")))
                .collect(),
        }
    });
    (panels.collect(), left_out)
}

/// Why none of the readings can be seen; the last one stands until the end.
fn unseen(times: &[u64], end_nanos: Option<u64>, axis: &XAxis) -> Option<&'static str> {
    let (first, last) = (*times.first()?, *times.last()?);
    axis.why_unseen(first, last.max(end_nanos.unwrap_or(0)))
}

/// A share that is all there is would be drawn over it.
fn differs(share: &MetricLines, used: &MetricLines) -> bool {
    share.extremes.is_some() && share.lines != used.lines
}

pub(crate) fn stairs(
    series: SeriesView<'_>,
    end_nanos: Option<u64>,
    axis: &XAxis,
    width_px: f64,
) -> MetricLines {
    let mut pieces: Vec<Vec<PlotPoint>> = vec![Vec::new()];
    let mut before: Option<(u64, f64)> = None;
    for (&time, &bytes) in series.times.iter().zip(series.values) {
        if !bytes.is_finite() {
            pieces.push(Vec::new());
            before = None;
            continue;
        }
        let value = bytes / GIB as f64;
        let Some(piece) = pieces.last_mut() else {
            continue;
        };
        if let Some((then, held)) = before.filter(|(_, held)| *held != value) {
            let until = then.max(time.saturating_sub(READING_NANOS));
            piece.push((axis.share(until), held));
        }
        piece.push((axis.share(time), value));
        before = Some((time, value));
    }
    if let (Some(piece), Some((then, held)), Some(end)) = (pieces.last_mut(), before, end_nanos)
        && end > then
    {
        piece.push((axis.share(end), held));
    }
    // Over steps that begin again, each pass is a piece.
    let pieces = pieces
        .iter()
        .flat_map(|piece| piece.chunk_by(|a, b| a.0 <= b.0));
    let drawn: Vec<&[PlotPoint]> = pieces.collect();
    let thin = |piece: &[PlotPoint]| m4(piece, |place| place.0 * width_px, |place| place.1);
    let present = || series.present().map(|(_, bytes)| bytes / GIB as f64);
    let low = present().reduce(f64::min);
    let high = present().reduce(f64::max);
    MetricLines {
        lines: drawn.into_iter().map(thin).collect(),
        last: present().next_back(),
        extremes: low.zip(high),
        ..MetricLines::default()
    }
}
