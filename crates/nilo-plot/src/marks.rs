//! Moments: the user's marks, OOM kills and gaps, as vertical lines and hatched bands with labels above the chart.

use nilo_sample::{Event, Recording, RunStatus};

use crate::curve::SampleGap;
use crate::font::{shorten, text_width};
use crate::frame::{PlotArea, TEXT_PX, crisp, label};
use crate::options::RanOutMark;
use crate::panel::panel_places;
use crate::svg::{Element, Path};
use crate::theme::Palette;

/// More labels than this say nothing.
const MOST_LABELS: usize = 30;
const WIDEST_LABEL_PX: f64 = 130.0;
pub(crate) const BETWEEN_LABELS_PX: f64 = 10.0;

/// A moment to draw.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlotMark<'a> {
    pub(crate) time_nanos: u64,
    pub(crate) text: &'a str,
    /// Memory ran out there.
    pub(crate) is_kill: bool,
}

/// The marks and the OOM kills of a recording, and where else memory ran out.
pub(crate) fn moments(recording: &Recording, ran_out: Option<RanOutMark>) -> Vec<PlotMark<'_>> {
    let kill = |time_nanos| PlotMark {
        time_nanos,
        text: "OOM kill",
        is_kill: true,
    };
    let mut moments: Vec<PlotMark<'_>> = recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::Mark { text } => Some(PlotMark {
                time_nanos: timed.time_nanos,
                text,
                is_kill: false,
            }),
            Event::OomKill { .. } => Some(kill(timed.time_nanos)),
            _ => None,
        })
        .collect();
    if !moments.iter().any(|moment| moment.is_kill)
        && let Some(ending) = &recording.description.ending
    {
        let killed_at = ending.oom.as_ref().map(|oom| oom.time_nanos);
        let is_kill = killed_at.is_some() || ending.status == RunStatus::OomKilled;
        match ran_out {
            Some(ran_out) => moments.push(PlotMark {
                time_nanos: ran_out.time_nanos.unwrap_or(ending.time_nanos),
                text: ran_out.text(),
                is_kill: true,
            }),
            None if is_kill => {
                moments.push(kill(killed_at.flatten().unwrap_or(ending.time_nanos)));
            }
            None => {}
        }
    }
    moments
}

/// Draws the moments: kills first, since labels that would overlap are left out.
pub(crate) fn draw_moments(
    moments: &[PlotMark<'_>],
    frame: &PlotArea,
    palette: &Palette,
) -> Element {
    let mut group = Element::group().attr("class", "moments");
    let mut taken: Vec<(f64, f64)> = Vec::new();
    let kills = moments.iter().filter(|moment| moment.is_kill);
    let marks = moments.iter().filter(|moment| !moment.is_kill);
    for (is_kill, moments) in [(true, kills.collect::<Vec<_>>()), (false, marks.collect())] {
        let colour = if is_kill {
            palette.danger
        } else {
            palette.muted
        };
        let column = |moment: &&PlotMark<'_>| crisp(frame.x(moment.time_nanos));
        for together in moments.chunk_by(|a, b| column(a) == column(b)) {
            let x = column(&together[0]);
            let line = down(x, frame).attr("stroke", colour);
            group.push(if is_kill {
                line.attr("stroke-width", "1.5")
            } else {
                line.attr("stroke-opacity", "0.45")
            });
            if taken.len() < MOST_LABELS {
                // Cut before measuring: a mark may be a whole log file.
                let widest = match is_kill {
                    true => frame.right - frame.left,
                    false => WIDEST_LABEL_PX,
                };
                let text = label_text(together, widest);
                let (from, to) = label_range(&text, x, frame);
                let free = taken
                    .iter()
                    .all(|(a, b)| to + BETWEEN_LABELS_PX < *a || from > *b + BETWEEN_LABELS_PX);
                if free && !text.is_empty() {
                    taken.push((from, to));
                    let centre = (from + to) / 2.0;
                    let text = label(centre, frame.labels_y, &text, colour);
                    group.push(text.attr("text-anchor", "middle"));
                }
            }
        }
    }
    group
}

/// A line down through the chart and its panels, but not through their titles.
fn down(x: f64, frame: &PlotArea) -> Element {
    let mut path = Path::default();
    let memory = (frame.top - 3.0, frame.bottom);
    for (top, bottom) in std::iter::once(memory).chain(panel_places(frame)) {
        path.move_to(x, top);
        path.line_to(x, bottom);
    }
    path.element()
}

/// What is said of moments in one place: the first that has words, and how many more there are. All kills are one.
fn label_text(together: &[&PlotMark<'_>], widest_px: f64) -> String {
    let named: Vec<&&PlotMark<'_>> = together.iter().filter(|it| !it.text.is_empty()).collect();
    let Some(first) = named.first() else {
        return String::new();
    };
    let more = match named.len() - 1 {
        0 => String::new(),
        _ if first.is_kill => String::new(),
        more => format!(" +{more}"),
    };
    let room = widest_px - text_width(&more, TEXT_PX);
    format!("{}{more}", shorten(first.text, TEXT_PX, room))
}

/// From where to where a label at a place goes.
pub(crate) fn label_range(text: &str, x: f64, frame: &PlotArea) -> (f64, f64) {
    let width = text_width(text, TEXT_PX);
    let from = (x - width / 2.0).clamp(frame.left, (frame.right - width).max(frame.left));
    (from, from + width)
}

/// The pattern of gaps.
pub(crate) fn hatch(palette: &Palette) -> Element {
    let line = Element::line((0.0, 0.0), (0.0, 7.0), palette.axis)
        .attr("stroke-width", "1.4")
        .attr("stroke-opacity", "0.5");
    let pattern = Element::new("pattern")
        .attr("id", "gap")
        .num("width", 7.0)
        .num("height", 7.0)
        .attr("patternUnits", "userSpaceOnUse")
        .attr("patternTransform", "rotate(45)")
        .child(line);
    Element::new("defs").child(pattern)
}

/// Draws the gaps that are wide enough to be seen.
pub(crate) fn draw_gaps(gaps: &[SampleGap], frame: &PlotArea, palette: &Palette) -> Element {
    let mut group = Element::group().attr("class", "gaps");
    let mut drawn_to = f64::NEG_INFINITY;
    for gap in gaps {
        let from = frame.x(gap.from_nanos).max(drawn_to);
        let width = frame.x(gap.to_nanos) - from;
        if width < 1.0 {
            continue;
        }
        drawn_to = from + width;
        let band = Element::rect(from, frame.top, width, frame.bottom - frame.top);
        group.push(band.attr("fill", "url(#gap)").tooltip("no samples"));
        let text = "no samples";
        if width > text_width(text, TEXT_PX) + 12.0 {
            let (x, y) = (from + width / 2.0, (frame.top + frame.bottom) / 2.0);
            let text = crate::frame::label_with_halo(x, y, text, palette.muted, palette);
            group.push(text.attr("text-anchor", "middle"));
        }
    }
    group
}
