//! Heights with a name: the peak and the limit.

use nilo_sample::Limit;
use nilo_sample::units::format_bytes;

use crate::curve::{CurvePoint, height_at, highest};
use crate::font::{shorten, text_width};
use crate::frame::{PlotArea, TEXT_PX, crisp, label_with_halo};
use crate::limit_labels::LimitLabel;
use crate::options::PeakMark;
use crate::svg::Element;
use crate::theme::Palette;

/// A limit further above the peak than this would press the curve flat.
const FARTHEST_LIMIT: f64 = 3.0;
/// A peak this much above the curve was seen by the kernel and not by the samples.
const SPIKE_SHARE: f64 = 0.005;

/// The peak that was given, else the highest sample.
pub(crate) fn peak_of(given: Option<&PeakMark>, points: &[CurvePoint]) -> Option<PeakMark> {
    let sampled = || {
        highest(points).map(|point| PeakMark {
            bytes: point.bytes as u64,
            time_nanos: Some(point.time_nanos),
            kind: "sampled".to_owned(),
        })
    };
    let meaningful = |peak: &&PeakMark| peak.bytes < nilo_sample::limit::NO_LIMIT_FROM;
    given.filter(meaningful).cloned().or_else(sampled)
}

/// Whether a limit lies on the scale of a chart with this peak.
pub(crate) fn limit_on_scale(limit: &Limit, peak_bytes: f64) -> bool {
    limit.bytes as f64 <= peak_bytes * FARTHEST_LIMIT
}

/// `limit 4.00 GiB, cgroup v1 /job`.
pub(crate) fn limit_text(limit: &Limit) -> String {
    format!("{}, {}", limit_figure(limit), limit.source)
}

/// `limit 4.00 GiB`.
fn limit_figure(limit: &Limit) -> String {
    format!("limit {}", format_bytes(limit.bytes as f64))
}

/// `peak 2.11 GiB (VmHWM)`.
fn peak_text(peak: &PeakMark) -> String {
    let figure = peak_figure(peak);
    if peak.kind.is_empty() {
        figure
    } else {
        let kind: String = peak.kind.chars().take(60).collect();
        format!("{figure} ({kind})")
    }
}

/// `peak 2.11 GiB`.
fn peak_figure(peak: &PeakMark) -> String {
    format!("peak {}", format_bytes(peak.bytes as f64))
}

/// Where the peak's label stands, known before the limit's label looks for a place.
#[derive(Debug)]
pub(crate) struct PeakLabel {
    text: String,
    from: f64,
    to: f64,
    base: f64,
}

impl PeakLabel {
    /// Above the peak and the curve beside it; moved sideways at the edges and up over a limit's line.
    pub(crate) fn place(
        peak: &PeakMark,
        curve: &[CurvePoint],
        limit: Option<&Limit>,
        frame: &PlotArea,
    ) -> PeakLabel {
        let room = (frame.right - frame.left) * 0.8;
        let text = shorten_behind(&peak_figure(peak), &peak_text(peak), room);
        let width = text_width(&text, TEXT_PX);
        let rightmost = (frame.right - width).max(frame.left + 4.0);
        let from = match peak.time_nanos {
            Some(time_nanos) => frame.x(time_nanos) - width / 2.0,
            None => frame.left,
        };
        let from = from.clamp(frame.left + 4.0, rightmost);
        let beside =
            |point: &&CurvePoint| (from..from + width).contains(&frame.x(point.time_nanos));
        let highest_y = curve
            .iter()
            .filter(beside)
            .map(|point| frame.y(point.bytes))
            .fold(frame.y(peak.bytes as f64), f64::min);
        let peak_base = highest_y - 9.0;
        let limit_y = limit.map(|limit| frame.y(limit.bytes as f64));
        let base = match limit_y {
            Some(y) if (peak_base - 16.0..peak_base + 5.0).contains(&y) => y - 7.0,
            _ => peak_base,
        };
        PeakLabel {
            text,
            from,
            to: from + width,
            base: base.max(frame.top + 10.0),
        }
    }
}

/// A label that begins with a figure, in this much room: what follows is shortened or left out, the figure never.
fn shorten_behind(figure: &str, text: &str, room_px: f64) -> String {
    let text = shorten(text, TEXT_PX, room_px);
    match text.starts_with(figure) {
        true => text,
        false => figure.to_owned(),
    }
}

/// The limit as a dashed line; its label keeps to the side of the peak's label that has more room, or else stands below the line.
pub(crate) fn draw_limit(
    limit: &Limit,
    peak: Option<&PeakLabel>,
    frame: &PlotArea,
    palette: &Palette,
) -> Element {
    let y = crisp(frame.y(limit.bytes as f64));
    let line = Element::line((frame.left, y), (frame.right, y), palette.danger)
        .attr("stroke-dasharray", "6 4")
        .attr("stroke-width", "1.3");
    let (above, below) = (y - 6.0, y + 15.0);
    let whole = (frame.right - frame.left - 12.0, 0.0);
    let figure_px = text_width(&limit_figure(limit), TEXT_PX);
    let (base, (left_room, right_room)) = match peak {
        Some(peak) if (peak.base - above).abs() < TEXT_PX + 4.0 => {
            let rooms = (peak.from - frame.left - 20.0, frame.right - peak.to - 20.0);
            match rooms.0.max(rooms.1) >= figure_px {
                true => (above, rooms),
                false => (below, whole),
            }
        }
        _ => (above, whole),
    };
    let room = left_room.max(right_room);
    let text = shorten_behind(&limit_figure(limit), &limit_text(limit), room);
    let (x, anchor) = if left_room >= right_room {
        (frame.left + 6.0, "start")
    } else {
        (frame.right - 6.0, "end")
    };
    let text = label_with_halo(x, base, &text, palette.danger, palette);
    Element::group()
        .attr("class", "limit")
        .child(line)
        .child(text.attr("text-anchor", anchor))
}

/// Where a label stands on its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelSide {
    Left,
    Right,
}

/// A limit of some of several runs, in a colour of theirs.
pub(crate) fn draw_level(
    limit: &Limit,
    limit_label: Option<&LimitLabel>,
    colour: &str,
    frame: &PlotArea,
    palette: &Palette,
) -> Element {
    let y = crisp(frame.y(limit.bytes as f64));
    let line = Element::line((frame.left, y), (frame.right, y), colour)
        .attr("stroke-dasharray", "6 4")
        .attr("stroke-width", "1.3");
    let mut group = Element::group().attr("class", "limit").child(line);
    if let Some(found) = limit_label {
        let (x, anchor) = match found.side {
            LabelSide::Left => (frame.left + 6.0, "start"),
            LabelSide::Right => (frame.right - 6.0, "end"),
        };
        let text = label_with_halo(x, found.base, &found.text, colour, palette);
        group.push(text.attr("text-anchor", anchor));
    }
    group
}

/// The peak with its label.
pub(crate) fn draw_peak(
    peak: &PeakMark,
    peak_label: &PeakLabel,
    points: &[CurvePoint],
    frame: &PlotArea,
    palette: &Palette,
) -> Element {
    let centre = (peak_label.from + peak_label.to) / 2.0;
    let text = label_with_halo(
        centre,
        peak_label.base,
        &peak_label.text,
        palette.ink,
        palette,
    );
    peak_mark(peak, points, palette.ink, frame, palette).child(text.attr("text-anchor", "middle"))
}

/// The peak as a dot on the curve, as a stem above it for a spike between two samples, or at the axis when its time is not known.
pub(crate) fn peak_mark(
    peak: &PeakMark,
    points: &[CurvePoint],
    colour: &str,
    frame: &PlotArea,
    palette: &Palette,
) -> Element {
    let bytes = peak.bytes as f64;
    let y = frame.y(bytes);
    let mut group = Element::group().attr("class", "peak");
    match peak.time_nanos {
        Some(time_nanos) => {
            let x = frame.x(time_nanos);
            let curve = height_at(points, time_nanos)
                .or_else(|| nearest_end(points, time_nanos))
                .unwrap_or(0.0);
            if bytes > curve * (1.0 + SPIKE_SHARE) {
                let stem = Element::line((x, frame.y(curve)), (x, y), colour);
                group.push(stem.attr("stroke-dasharray", "2 2.5"));
                let tick = Element::line((x - 6.0, y), (x + 6.0, y), colour);
                group.push(tick.attr("stroke-width", "1.6"));
            } else {
                let dot = Element::dot(x, y, 4.0, colour);
                group.push(
                    dot.attr("stroke", palette.background)
                        .attr("stroke-width", "1.5"),
                );
            }
        }
        None => {
            let tick = Element::line((frame.left - 4.0, y), (frame.left + 14.0, y), colour);
            group.push(tick.attr("stroke-width", "1.6"));
        }
    }
    group
}

/// Before the first and after the last sample a spike stands on the nearer of them.
fn nearest_end(points: &[CurvePoint], time_nanos: u64) -> Option<f64> {
    let first = points.first()?;
    let end = if time_nanos < first.time_nanos {
        first
    } else {
        points.last()?
    };
    Some(end.bytes)
}
