//! The legend at the right: a colour, a peak, a name.
//!
//! The name stands last. In a viewer's font it may be wider than was measured here: behind it there is only the picture's edge,
//! where a figure to its right would be drawn over.

use nilo_sample::units::format_bytes;

use crate::font::{WIDEST_FONT, shorten, text_width};
use crate::frame::{PlotArea, TEXT_PX, label};
use crate::svg::Element;
use crate::theme::Palette;

const ROW_PX: f64 = 20.0;
/// What the heading over the figures takes.
const HEADING_PX: f64 = 14.0;
/// Where figures begin, behind the swatch.
const FIGURE_PX: f64 = 20.0;
/// Between a figure and a name.
const GAP_PX: f64 = 10.0;
/// Long names in less room than this cannot be told apart.
const NARROWEST_NAME_PX: f64 = 64.0;
/// Charts narrower than this have no room for a legend.
const NARROWEST_CHART_PX: f64 = 480.0;

/// How an entry is drawn in the chart.
#[derive(Debug, Clone)]
pub(crate) enum Swatch {
    Area { fill: String },
    Line { stroke: String, dash: &'static str },
}

/// One line of the legend.
#[derive(Debug, Clone)]
pub(crate) struct LegendEntry {
    pub(crate) swatch: Swatch,
    pub(crate) name: String,
    /// The same in fewer words, for where it has no room.
    pub(crate) shorter_names: &'static [&'static str],
    pub(crate) peak_bytes: Option<f64>,
}

impl LegendEntry {
    /// The longest of its names that fits; the first one cut where none does.
    fn name_within(&self, room_px: f64) -> String {
        let shorter = self.shorter_names.iter().copied();
        let mut names = std::iter::once(self.name.as_str()).chain(shorter);
        let fitting = names.find(|name| shorten(name, TEXT_PX, room_px) == *name);
        fitting.map_or_else(|| shorten(&self.name, TEXT_PX, room_px), str::to_owned)
    }

    fn peak(&self) -> String {
        self.peak_bytes.map(format_bytes).unwrap_or_default()
    }
}

/// The width that the entries want, within a share of the chart.
pub(crate) fn legend_width(entries: &[LegendEntry], chart_width: f64) -> f64 {
    if entries.is_empty() || chart_width < NARROWEST_CHART_PX {
        return 0.0;
    }
    let before_names = name_offset(entries, f64::INFINITY);
    let width = |entry: &LegendEntry| {
        // Long names are shortened below; measuring a whole command line would be for nothing.
        let name: String = entry.name.chars().take(64).collect();
        // The last pixel is for rounding: a name that has just its own width must not be shortened.
        before_names + text_width(&name, TEXT_PX) + 1.0
    };
    let widest = entries.iter().map(width).fold(120.0, f64::max);
    widest.min((chart_width * 0.29).max(150.0))
}

/// Where names begin: behind the widest figure, in whatever font. In a narrow legend figures give way to names.
fn name_offset(entries: &[LegendEntry], legend_width: f64) -> f64 {
    let figures = entries.iter().map(LegendEntry::peak);
    let widest = figures.map(|peak| text_width(&peak, TEXT_PX) * WIDEST_FONT);
    match widest.fold(0.0, f64::max) {
        0.0 => FIGURE_PX,
        width if legend_width - FIGURE_PX - width - GAP_PX < least_names_width(entries) => {
            FIGURE_PX
        }
        width => FIGURE_PX + width + GAP_PX,
    }
}

/// The room without which names could not be told apart: that of the longest, within reason.
fn least_names_width(entries: &[LegendEntry]) -> f64 {
    let names = entries.iter().map(|entry| {
        let name: String = entry.name.chars().take(64).collect();
        text_width(&name, TEXT_PX)
    });
    names.fold(0.0, f64::max).min(NARROWEST_NAME_PX)
}

/// Draws the entries from top to bottom; those without room are counted.
pub(crate) fn legend(entries: &[LegendEntry], frame: &PlotArea, palette: &Palette) -> Element {
    let mut group = Element::group().attr("class", "legend");
    if frame.legend_width <= 0.0 {
        return group;
    }
    let x = frame.legend_x;
    let names_x = x + name_offset(entries, frame.legend_width);
    let figures_end = names_x - GAP_PX;
    let room = frame.legend_x + frame.legend_width - names_x;
    let has_figures = figures_end > x + FIGURE_PX;
    // Within the chart's height: above it stands the line with the command.
    let heading_height = if has_figures { HEADING_PX } else { 0.0 };
    let rows = (frame.bottom - frame.top - heading_height) / ROW_PX;
    let rows = rows.max(1.0) as usize;
    let shown = if entries.len() > rows {
        rows.saturating_sub(1)
    } else {
        entries.len()
    };
    if has_figures {
        let heading = label(figures_end, frame.top + 10.0, "peak", palette.muted);
        group.push(heading.attr("text-anchor", "end"));
    }
    let base = |row: usize| frame.top + heading_height + 16.0 + row as f64 * ROW_PX;
    for (row, entry) in entries.iter().take(shown).enumerate() {
        let y = base(row);
        group.push(match &entry.swatch {
            Swatch::Area { fill } => Element::rect(x, y - 10.0, 12.0, 12.0)
                .attr("rx", "2")
                .attr("fill", fill),
            Swatch::Line { stroke, dash } => {
                Element::line((x, y - 4.0), (x + 13.0, y - 4.0), stroke)
                    .attr("stroke-width", "2")
                    .attr("stroke-dasharray", *dash)
            }
        });
        let name = entry.name_within(room);
        if has_figures {
            let peak = label(figures_end, y, &entry.peak(), palette.muted);
            group.push(peak.attr("text-anchor", "end"));
        }
        group.push(label(names_x, y, &name, palette.ink).tooltip(&full_name(entry)));
    }
    if shown < entries.len() {
        let more = format!("and {} more", entries.len() - shown);
        group.push(label(names_x, base(shown), &more, palette.muted));
    }
    group
}

/// The name in full, within reason.
fn full_name(entry: &LegendEntry) -> String {
    entry.name.chars().take(300).collect()
}
