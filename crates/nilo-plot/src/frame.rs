//! The frame of a chart: where the curves lie on the picture, the axes around them and the words above.

use crate::font::{shorten, text_width};
use crate::svg::Element;
use crate::theme::Palette;
use crate::ticks::{Tick, byte_ticks};
use crate::x_axis::XAxis;

/// Size of all text but the title.
pub(crate) const TEXT_PX: f64 = 12.0;
const TITLE_PX: f64 = 17.0;
/// Space around everything.
const MARGIN_PX: f64 = 16.0;
/// The highest thing still has room for its label above it.
const LABEL_ROOM_PX: f64 = 28.0;

/// What has to find its place around the curves.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) width: f64,
    /// Height of the whole picture.
    pub(crate) height: f64,
    pub(crate) x_axis: XAxis,
    /// The highest thing drawn; without one there is no scale.
    pub(crate) highest_bytes: Option<f64>,
    /// Whether labels stand above the curves.
    pub(crate) has_labels: bool,
    /// Width of the legend at the right; zero for none.
    pub(crate) legend_width: f64,
    /// What is said below the chart.
    pub(crate) footnotes: Vec<String>,
    /// Height of the panels between the curves and the axis below.
    pub(crate) panels_height: f64,
    /// Width of the widest label at a panel's side.
    pub(crate) panel_labels_width: f64,
}

/// Places of things, in pixels.
#[derive(Debug)]
pub(crate) struct PlotArea {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    /// Where the axis below lies: under the panels.
    pub(crate) lowest: f64,
    /// Base line of the labels above the curves.
    pub(crate) labels_y: f64,
    pub(crate) legend_x: f64,
    pub(crate) legend_width: f64,
    width: f64,
    height: f64,
    x_axis: XAxis,
    top_bytes: f64,
    byte_ticks: Vec<Tick>,
    footnote: String,
}

impl PlotArea {
    pub(crate) fn new(contents: Contents) -> PlotArea {
        let Contents { width, height, .. } = contents;
        let labels_height = if contents.has_labels { 16.0 } else { 0.0 };
        let top = 62.0 + labels_height;
        let footnote_height = if contents.footnotes.is_empty() {
            0.0
        } else {
            22.0
        };
        let bottom = (height - 48.0 - footnote_height - contents.panels_height).max(top + 10.0);
        // Nothing but zeros still needs a scale.
        let highest_bytes = contents.highest_bytes.unwrap_or(0.0);
        let top_bytes = if highest_bytes > 0.0 {
            let height = bottom - top;
            highest_bytes * height / (height - LABEL_ROOM_PX.min(height / 2.0))
        } else {
            1048576.0
        };
        let byte_ticks = match contents.highest_bytes {
            Some(_) => byte_ticks(top_bytes, ((bottom - top) / 48.0) as usize + 1),
            None => Vec::new(),
        };
        let widest = byte_ticks
            .iter()
            .map(|tick| text_width(&tick.label, TEXT_PX));
        let widest = widest.fold(contents.panel_labels_width, f64::max);
        let left = MARGIN_PX + 18.0 + widest + 8.0;
        let legend_space = if contents.legend_width > 0.0 {
            contents.legend_width + 24.0
        } else {
            // Half of the last tick's label hangs over.
            8.0
        };
        let right = (width - MARGIN_PX - legend_space).max(left + 10.0);
        let footnote = contents.footnotes.join("  ·  ");
        PlotArea {
            left,
            right,
            top,
            bottom,
            lowest: bottom + contents.panels_height,
            labels_y: top - 6.0,
            legend_x: right + 24.0,
            legend_width: contents.legend_width,
            width,
            height,
            x_axis: contents.x_axis,
            top_bytes,
            byte_ticks,
            footnote: shorten(&footnote, TEXT_PX, width - 2.0 * MARGIN_PX),
        }
    }

    pub(crate) fn x(&self, time_nanos: u64) -> f64 {
        self.across(self.x_axis.share(time_nanos))
    }

    /// A share of the axis, in pixels.
    pub(crate) fn across(&self, share: f64) -> f64 {
        self.left + share * (self.right - self.left)
    }

    pub(crate) fn y(&self, bytes: f64) -> f64 {
        let share = (bytes / self.top_bytes).clamp(0.0, 1.0);
        self.bottom - share * (self.bottom - self.top)
    }

    /// Title and subtitle.
    pub(crate) fn header(&self, title: &str, subtitle: &str, palette: &Palette) -> Element {
        let room = self.width - 2.0 * MARGIN_PX;
        let title = shorten(title, TITLE_PX, room);
        let subtitle = shorten(subtitle, TEXT_PX, room);
        Element::group()
            .child(
                label(MARGIN_PX, 30.0, &title, palette.ink)
                    .num("font-size", TITLE_PX)
                    .attr("font-weight", "500"),
            )
            .child(label(MARGIN_PX, 48.0, &subtitle, palette.muted))
    }

    /// The horizontal lines that lie under the curves.
    pub(crate) fn grid(&self, palette: &Palette) -> Element {
        let mut group = Element::group().attr("stroke-width", "1");
        for tick in self.byte_ticks.iter().filter(|tick| tick.at > 0.0) {
            let y = crisp(self.y(tick.at));
            group.push(Element::line((self.left, y), (self.right, y), palette.grid));
        }
        group
    }

    /// Axes, ticks, their labels and titles, and the footnote.
    pub(crate) fn axes(&self, palette: &Palette) -> Element {
        let base = crisp(self.bottom);
        let mut group = Element::group().child(Element::line(
            (self.left, base),
            (self.right, base),
            palette.axis,
        ));
        for tick in &self.byte_ticks {
            let y = self.y(tick.at) + 4.0;
            let text = label(self.left - 8.0, y, &tick.label, palette.muted);
            group.push(text.attr("text-anchor", "end"));
        }
        let lowest = crisp(self.lowest);
        let most = ((self.right - self.left) / 72.0).max(1.0) as usize;
        let (ticks, title) = self.x_axis.ticks(most);
        for tick in &ticks {
            let x = crisp(self.across(tick.share));
            group.push(Element::line((x, lowest), (x, lowest + 4.0), palette.axis));
            let text = label(x, lowest + 18.0, &tick.label, palette.muted);
            group.push(text.attr("text-anchor", "middle"));
        }
        let centre = (self.left + self.right) / 2.0;
        let title = label(centre, lowest + 37.0, &title, palette.ink);
        group.push(title.attr("text-anchor", "middle"));
        let middle = (self.top + self.bottom) / 2.0;
        group.push(
            label(0.0, 0.0, "memory", palette.ink)
                .attr("text-anchor", "middle")
                .attr(
                    "transform",
                    format!("translate(24 {middle:.1}) rotate(-90)"),
                ),
        );
        if !self.footnote.is_empty() {
            group.push(label(
                MARGIN_PX,
                self.height - 10.0,
                &self.footnote,
                palette.muted,
            ));
        }
        group
    }

    /// What stands in the middle of a chart without a curve.
    pub(crate) fn notice(&self, text: &str, palette: &Palette) -> Element {
        let x = (self.left + self.right) / 2.0;
        let y = (self.top + self.bottom) / 2.0;
        label(x, y, text, palette.muted).attr("text-anchor", "middle")
    }
}

/// The middle of a pixel: a line of one pixel stays one pixel wide.
pub(crate) fn crisp(position: f64) -> f64 {
    position.floor() + 0.5
}

/// A text at a place.
pub(crate) fn label(x: f64, y: f64, text: &str, fill: &str) -> Element {
    Element::new("text")
        .num("x", x)
        .num("y", y)
        .attr("fill", fill)
        .text(text)
}

/// A text that stays readable on top of curves.
pub(crate) fn label_with_halo(
    x: f64,
    y: f64,
    text: &str,
    fill: &str,
    palette: &Palette,
) -> Element {
    label(x, y, text, fill)
        .attr("stroke", palette.background)
        .attr("stroke-width", "3.5")
        .attr("stroke-linejoin", "round")
        .attr("paint-order", "stroke")
}
