//! The legend at the right: a colour, a name, a peak.

use nilo_sample::units::format_bytes;

use crate::font::{shorten, text_width};
use crate::frame::{Frame, TEXT_PX, label};
use crate::svg::Element;
use crate::theme::Palette;

const ROW_PX: f64 = 20.0;
/// Where a name begins, behind its swatch.
const NAME_PX: f64 = 20.0;
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
pub(crate) struct Entry {
    pub(crate) swatch: Swatch,
    pub(crate) name: String,
    pub(crate) peak_bytes: Option<f64>,
}

impl Entry {
    fn peak(&self) -> String {
        self.peak_bytes.map(format_bytes).unwrap_or_default()
    }
}

/// The width that the entries want, within a share of the chart.
pub(crate) fn legend_width(entries: &[Entry], chart_width: f64) -> f64 {
    if entries.is_empty() || chart_width < NARROWEST_CHART_PX {
        return 0.0;
    }
    let width = |entry: &Entry| {
        // Long names are shortened below; measuring a whole command line would be for nothing.
        let name: String = entry.name.chars().take(64).collect();
        // The last pixel is for rounding: a name that has just its own width must not be shortened.
        NAME_PX + text_width(&name, TEXT_PX) + 10.0 + text_width(&entry.peak(), TEXT_PX) + 1.0
    };
    let widest = entries.iter().map(width).fold(120.0, f64::max);
    widest.min((chart_width * 0.27).max(150.0))
}

/// Draws the entries from top to bottom; those without room are counted.
pub(crate) fn legend(entries: &[Entry], frame: &Frame, palette: &Palette) -> Element {
    let mut group = Element::group();
    if frame.legend_width <= 0.0 {
        return group;
    }
    let (x, right) = (frame.legend_x, frame.legend_x + frame.legend_width);
    let rows = ((frame.bottom - frame.top) / ROW_PX).max(1.0) as usize;
    let shown = if entries.len() > rows {
        rows.saturating_sub(1)
    } else {
        entries.len()
    };
    let heading = label(right, frame.top - 4.0, "peak", palette.muted);
    group.push(heading.attr("text-anchor", "end"));
    let base = |row: usize| frame.top + 16.0 + row as f64 * ROW_PX;
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
        let peak = entry.peak();
        let room = frame.legend_width - NAME_PX - 10.0 - text_width(&peak, TEXT_PX);
        let name = shorten(&entry.name, TEXT_PX, room);
        group.push(label(x + NAME_PX, y, &name, palette.ink).tooltip(&full_name(entry)));
        group.push(label(right, y, &peak, palette.muted).attr("text-anchor", "end"));
    }
    if shown < entries.len() {
        let more = format!("and {} more", entries.len() - shown);
        group.push(label(x + NAME_PX, base(shown), &more, palette.muted));
    }
    group
}

/// The name in full, within reason.
fn full_name(entry: &Entry) -> String {
    entry.name.chars().take(300).collect()
}
