//! Panels below the memory, on the same axis: processor time, GPUs, a metric each.
//!
//! A value that is not finite is a red tick at the top of its panel, and the line is broken there.
//! Of several ranks the first is the line, and the others are drawn faintly under it.

use crate::font::{WIDEST_FONT, shorten, text_width};
use crate::frame::{PlotArea, TEXT_PX, crisp, label};
use crate::metric_lines::{MetricLines, PlotPoint};
use crate::short_number::short_number;
use crate::svg::{Element, Path};
use crate::theme::Palette;
use crate::ticks::{Tick, value_ticks};

/// A panel with its title.
const PANEL_PX: f64 = 136.0;
/// The title and the space above it.
const TITLE_PX: f64 = 30.0;
/// Space between two labels at the side.
const TICK_PX: f64 = 24.0;
/// More panels would be a wall of pictures.
pub(crate) const MOST_PANELS: usize = 8;
/// Colours of the lines where each panel has one: none that the biggest processes have.
const COLOURS: [usize; MOST_PANELS] = [5, 7, 8, 2, 3, 11, 10, 0];

/// What to draw in a panel.
pub(crate) struct Panel {
    pub(crate) name: String,
    /// The scale begins at zero.
    pub(crate) from_zero: bool,
    pub(crate) series: Vec<PanelSeries>,
    pub(crate) kind: PanelKind,
    /// Of how many runs a line is: those that one resumes are one line with it.
    pub(crate) runs: usize,
    /// Why nothing of it lies on the axis; it is said in place of the lines.
    pub(crate) unseen: Option<&'static str>,
}

/// What a panel is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PanelKind {
    /// A metric, or the memory of a GPU.
    Values,
    /// The same of several runs, whose figures `nilo compare` has.
    SeveralRuns,
    /// Processor time, with its own figures at the right.
    Cpu { figures: String },
}

/// One run's line in a panel.
pub(crate) struct PanelSeries {
    pub(crate) stroke: &'static str,
    pub(crate) dash: &'static str,
    pub(crate) lines: MetricLines,
}

/// The colour of the only line in a panel.
pub(crate) fn panel_colour(index: usize, palette: &Palette) -> &'static str {
    palette.series[COLOURS[index % COLOURS.len()]]
}

/// What the panels take below the memory.
pub(crate) fn panels_height(panels: &[Panel]) -> f64 {
    panels.len() as f64 * PANEL_PX
}

/// The widest label at the side of a panel.
pub(crate) fn labels_width(panels: &[Panel]) -> f64 {
    let ticks = panels.iter().flat_map(|panel| AxisScale::of(panel).ticks());
    let widths = ticks.map(|tick| text_width(&tick.label, TEXT_PX));
    widths.fold(0.0, f64::max)
}

/// Draws the panels one below the other.
pub(crate) fn draw_panels(panels: &[Panel], frame: &PlotArea, palette: &Palette) -> Element {
    let mut group = Element::group().attr("class", "panels");
    for (panel, (top, bottom)) in panels.iter().zip(panel_places(frame)) {
        let place = Area {
            top,
            bottom,
            scale: AxisScale::of(panel),
        };
        group.push(draw_panel(panel, &place, frame, palette));
    }
    group
}

/// From where to where each panel goes down the picture, without its title.
pub(crate) fn panel_places(frame: &PlotArea) -> impl Iterator<Item = (f64, f64)> {
    let count = ((frame.lowest - frame.bottom) / PANEL_PX).round() as usize;
    let begins = (0..count).map(|index| frame.bottom + index as f64 * PANEL_PX);
    begins.map(|begin| (begin + TITLE_PX, begin + PANEL_PX))
}

/// The values at the lower and the upper edge.
struct AxisScale {
    low: f64,
    high: f64,
}

impl AxisScale {
    fn of(panel: &Panel) -> AxisScale {
        let drawn = panel
            .series
            .iter()
            .flat_map(|series| series.lines.lines.iter().chain(&series.lines.other_ranks))
            .flatten();
        let (low, high) = drawn.fold((f64::INFINITY, f64::NEG_INFINITY), |range, place| {
            (range.0.min(place.1), range.1.max(place.1))
        });
        let low = if panel.from_zero { low.min(0.0) } else { low };
        let margin = match high / 2.0 - low / 2.0 {
            half if half > 0.0 => half * 0.14,
            // A level line lies in the middle.
            _ if high.abs() > 0.0 => high.abs() * 0.1,
            _ => 1.0,
        };
        match low <= high {
            true => AxisScale {
                low: match panel.from_zero {
                    true => low,
                    false => (low - margin).max(f64::MIN),
                },
                high: (high + margin).min(f64::MAX),
            },
            false => AxisScale {
                low: 0.0,
                high: 1.0,
            },
        }
    }

    fn share(&self, value: f64) -> f64 {
        // Halved, since the distance of two numbers may be too large for a number.
        let share = (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0);
        share.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<Tick> {
        let most = (PANEL_PX - TITLE_PX) / TICK_PX;
        value_ticks(self.low, self.high, most as usize)
    }
}

/// Where a panel lies on the picture.
struct Area {
    top: f64,
    bottom: f64,
    scale: AxisScale,
}

impl Area {
    fn y(&self, value: f64) -> f64 {
        self.bottom - self.scale.share(value) * (self.bottom - self.top)
    }
}

fn draw_panel(panel: &Panel, area: &Area, frame: &PlotArea, palette: &Palette) -> Element {
    let class = match panel.kind {
        PanelKind::Values | PanelKind::SeveralRuns => "panel",
        PanelKind::Cpu { .. } => "cpu panel",
    };
    let mut group = Element::group().attr("class", class);
    let is_empty = panel
        .series
        .iter()
        .all(|s| s.lines.extremes.is_none() && s.lines.other_ranks.is_empty());
    let is_empty = is_empty || panel.unseen.is_some();
    for tick in area.scale.ticks().iter().filter(|_| !is_empty) {
        let y = crisp(area.y(tick.at));
        group.push(Element::line(
            (frame.left, y),
            (frame.right, y),
            palette.grid,
        ));
        let text = label(frame.left - 8.0, y + 3.5, &tick.label, palette.muted);
        group.push(text.attr("text-anchor", "end"));
    }
    let base = crisp(area.bottom);
    group.push(Element::line(
        (frame.left, base),
        (frame.right, base),
        palette.axis,
    ));
    if let Some(why) = panel.unseen {
        let (x, y) = (
            (frame.left + frame.right) / 2.0,
            (area.top + area.bottom) / 2.0,
        );
        group.push(label(x, y, why, palette.muted).attr("text-anchor", "middle"));
        group.push(title(panel, area, frame, palette));
        return group;
    }
    for series in panel
        .series
        .iter()
        .filter(|s| !s.lines.other_ranks.is_empty())
    {
        let others = curve(
            &series.lines.other_ranks,
            series.stroke,
            series.dash,
            area,
            frame,
        );
        group.push(others.attr("class", "other ranks").attr("opacity", "0.3"));
    }
    for series in &panel.series {
        group.push(curve(
            &series.lines.lines,
            series.stroke,
            series.dash,
            area,
            frame,
        ));
    }
    for share in panel.series.iter().flat_map(|s| &s.lines.not_finite) {
        let x = frame.across(*share);
        let tick = Element::line((x, area.top - 2.0), (x, area.top + 9.0), palette.danger);
        group.push(tick.attr("stroke-width", "1.4"));
    }
    group.push(title(panel, area, frame, palette));
    group
}

fn curve(
    pieces: &[Vec<PlotPoint>],
    stroke: &str,
    dash: &'static str,
    area: &Area,
    frame: &PlotArea,
) -> Element {
    let mut group = Element::group();
    let mut path = Path::default();
    for piece in pieces {
        if let [(share, value)] = piece[..] {
            let (x, y) = (frame.across(share), area.y(value));
            group.push(Element::dot(x, y, 1.8, stroke));
            continue;
        }
        for (index, (share, value)) in piece.iter().enumerate() {
            let (x, y) = (frame.across(*share), area.y(*value));
            match index {
                0 => path.move_to(x, y),
                _ => path.line_to(x, y),
            }
        }
    }
    if !path.is_empty() {
        let points = pieces.iter().map(Vec::len).sum::<usize>() as f64;
        let dense = points > 2.0 * (frame.right - frame.left);
        let path = path
            .element()
            .attr("fill", "none")
            .attr("stroke", stroke)
            .num("stroke-width", if dense { 1.0 } else { 1.5 })
            .attr("stroke-linejoin", "round");
        group.push(match dash {
            "" => path,
            dash => path.attr("stroke-dasharray", dash),
        });
    }
    group
}

/// The metric's name, and at the right what the eye cannot read off the line.
fn title(panel: &Panel, area: &Area, frame: &PlotArea, palette: &Palette) -> Element {
    let y = area.top - 8.0;
    let odd = odd_words(panel);
    let figures = figures(panel);
    let room = frame.right - frame.left;
    // Three texts on a line: each has room to be wider in a viewer's font.
    let safe_width = |text: &str| text_width(text, TEXT_PX) * WIDEST_FONT;
    let odd_width = match odd.as_str() {
        "" => 0.0,
        odd => safe_width(odd) + 12.0,
    };
    // What a short name leaves free is the figures'.
    let beside_name = room - odd_width - safe_width(&panel.name) - 16.0;
    let figures_room = beside_name.max((room - odd_width) * 0.6);
    let figures = whole_figures(&figures, figures_room / WIDEST_FONT);
    let name_room = (room - odd_width - safe_width(&figures) - 16.0) / WIDEST_FONT;
    let name = shorten(&panel.name, TEXT_PX, name_room);
    let full_name: String = panel.name.chars().take(300).collect();
    let heading = label(frame.left, y, &name, palette.ink)
        .attr("font-weight", "500")
        .tooltip(&full_name);
    let at_right =
        |x: f64, text: &str, fill: &str| label(x, y, text, fill).attr("text-anchor", "end");
    Element::group()
        .child(heading)
        .child(at_right(frame.right, &figures, palette.muted))
        .child(at_right(
            frame.right - safe_width(&figures) - 12.0,
            &odd,
            palette.danger,
        ))
}

/// As many figures of a list as have room, from the first on: half a figure says nothing.
fn whole_figures(figures: &str, room_px: f64) -> String {
    let mut shown = figures;
    while text_width(shown, TEXT_PX) > room_px
        && let Some((before, _)) = shown.rsplit_once(", ")
    {
        shown = before;
    }
    shorten(shown, TEXT_PX, room_px)
}

fn figures(panel: &Panel) -> String {
    match &panel.kind {
        PanelKind::Cpu { figures } => return figures.clone(),
        PanelKind::SeveralRuns => return String::new(),
        PanelKind::Values => {}
    }
    let only = match &panel.series[..] {
        [only] => only,
        // A whole, and a part of it.
        [whole, ..] if panel.from_zero => whole,
        several => {
            let has_ranks = several.iter().any(|series| series.lines.ranks.is_some());
            let words = has_ranks.then_some("the first rank of each, others faint");
            return words.unwrap_or_default().to_owned();
        }
    };
    let rank = only.lines.ranks;
    let rank = rank.map(|(rank, count)| format!("rank {rank} of {count}"));
    let runs = (panel.runs > 1).then(|| format!("{} runs", panel.runs));
    let whose: Vec<String> = runs.into_iter().chain(rank).collect();
    let last = only
        .lines
        .last
        .map(|last| format!("last {}", short_number(last)));
    let extremes = only
        .lines
        .extremes
        .map(|(low, high)| format!("min {}, max {}", short_number(low), short_number(high)));
    let parts: Vec<String> = last.into_iter().chain(extremes).collect();
    match whose.is_empty() {
        true => parts.join(", "),
        false => format!("{}: {}", whose.join(", "), parts.join(", ")),
    }
}

fn odd_words(panel: &Panel) -> String {
    let total = |count: fn(&MetricLines) -> usize| {
        panel.series.iter().map(|s| count(&s.lines)).sum::<usize>()
    };
    let counts = [
        (total(|lines| lines.nan_count), "NaN"),
        (total(|lines| lines.inf_count), "inf"),
        (total(|lines| lines.negative_inf_count), "-inf"),
        (
            total(|lines| lines.other_not_finite),
            "not finite in other ranks",
        ),
    ];
    let words = counts.into_iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = words
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_without_room_are_left_out_whole() {
        let all = "mean 14 %, busiest second 16 %";
        let width = text_width(all, TEXT_PX);
        assert_eq!(whole_figures(all, width + 1.0), all);
        assert_eq!(whole_figures(all, width - 1.0), "mean 14 %");
        assert_eq!(whole_figures("", 0.0), "");
    }
}
