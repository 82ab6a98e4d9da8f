//! Bars of memory by what it is for, with a limit as a line: an estimate beside ways to make it smaller.

use nilo_sample::units::format_bytes;

use crate::chart::Chart;
use crate::font::{WIDEST_FONT, shorten, text_width};
use crate::frame::{label, label_with_halo};
use crate::svg::Element;
use crate::theme::{Palette, Theme};

const WIDTH_PX: f64 = 980.0;
const MARGIN_PX: f64 = 16.0;
const HEAD_PX: f64 = 64.0;
const LABELS_PX: f64 = 280.0;
/// Room for the size behind the longest bar.
const SIZES_PX: f64 = 90.0;
const ROW_PX: f64 = 30.0;
const BAR_PX: f64 = 20.0;
const FONT_PX: f64 = 12.0;
const LEGEND_ROW_PX: f64 = 18.0;
const LEGEND_COLUMNS: usize = 3;
const LEGEND_SWATCH_PX: f64 = 11.0;
/// Smaller parts are drawn as one.
const NARROWEST_SHARE: f64 = 0.005;
const OTHERS: &str = "other";

/// One bar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryBar {
    /// What stands before it.
    pub label: String,
    /// Its parts by name.
    pub parts: Vec<(String, u64)>,
}

impl MemoryBar {
    fn total(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Draws bars below each other; parts of one name have one colour.
pub fn memory_bars(
    title: &str,
    subtitle: &str,
    bars: &[MemoryBar],
    limit: Option<(&str, u64)>,
) -> Chart {
    let palette = Theme::Light.palette();
    let most = bars.iter().map(MemoryBar::total).max().unwrap_or(0);
    let names = part_names(bars, most);
    let bars: Vec<MemoryBar> = bars.iter().map(|bar| with_others(bar, &names)).collect();
    // A limit far beyond the bars would leave no room for them.
    let scale_end = match limit {
        Some((_, bytes)) if bytes < 3 * most => most.max(bytes),
        _ => most,
    };
    let room = WIDTH_PX - 2.0 * MARGIN_PX - LABELS_PX - SIZES_PX;
    let scale = room / scale_end.max(1) as f64;
    let mut content = vec![
        heading(title, MARGIN_PX + 12.0, palette.ink, 15.0),
        heading(subtitle, MARGIN_PX + 32.0, palette.muted, FONT_PX),
    ];
    for (index, bar) in bars.iter().enumerate() {
        let top = HEAD_PX + index as f64 * ROW_PX;
        content.extend(draw_bar(bar, top, scale, &names, palette));
    }
    let bottom = HEAD_PX + bars.len() as f64 * ROW_PX;
    if let Some((name, bytes)) = limit.filter(|(_, bytes)| *bytes <= scale_end) {
        content.extend(draw_limit(name, bytes, bottom, scale, palette));
    }
    for (index, bar) in bars.iter().enumerate() {
        let top = HEAD_PX + index as f64 * ROW_PX;
        content.push(draw_total(bar, top, scale, palette));
    }
    let legend_top = bottom + 30.0;
    content.extend(draw_legend(&names, legend_top, palette));
    let rows = names.len().div_ceil(LEGEND_COLUMNS);
    let height = legend_top + rows as f64 * LEGEND_ROW_PX + MARGIN_PX;
    Chart::new((WIDTH_PX, height), title, palette, content)
}

fn heading(text: &str, y: f64, fill: &'static str, size: f64) -> Element {
    let text = shorten(text, size, (WIDTH_PX - 2.0 * MARGIN_PX) / WIDEST_FONT);
    label(MARGIN_PX, y, &text, fill).num("font-size", size)
}

/// Names in the order of the first bar, then those that only others have. Parts that can hardly be seen in any bar have one name together.
fn part_names(bars: &[MemoryBar], longest: u64) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, bytes) in bars.iter().flat_map(|bar| &bar.parts) {
        let is_visible = *bytes as f64 >= NARROWEST_SHARE * longest as f64;
        if is_visible && !names.contains(name) {
            names.push(name.clone());
        }
    }
    names.truncate(Theme::Light.palette().series.len());
    names.push(OTHERS.to_owned());
    names
}

/// A bar with the named parts, and the rest as one.
fn with_others(bar: &MemoryBar, names: &[String]) -> MemoryBar {
    let (mut parts, rest): (Vec<_>, Vec<_>) = bar
        .parts
        .iter()
        .cloned()
        .partition(|(name, _)| names.contains(name));
    parts.push((OTHERS.to_owned(), rest.iter().map(|(_, bytes)| bytes).sum()));
    MemoryBar {
        label: bar.label.clone(),
        parts,
    }
}

fn colour(names: &[String], name: &str, palette: &'static Palette) -> &'static str {
    let place = names.iter().position(|known| known == name);
    match place {
        Some(place) if place < palette.series.len() => palette.series[place],
        _ => palette.others,
    }
}

fn draw_bar(
    bar: &MemoryBar,
    top: f64,
    scale: f64,
    names: &[String],
    palette: &'static Palette,
) -> Vec<Element> {
    let middle = top + BAR_PX / 2.0 + FONT_PX * 0.35;
    let text = shorten(&bar.label, FONT_PX, (LABELS_PX - 10.0) / WIDEST_FONT);
    let mut drawn = vec![label(MARGIN_PX, middle, &text, palette.ink).num("font-size", FONT_PX)];
    let mut x = MARGIN_PX + LABELS_PX;
    // In one order, so that equal parts stand below each other.
    for name in names {
        let bytes: u64 = bar
            .parts
            .iter()
            .filter(|(of, _)| of == name)
            .map(|(_, bytes)| bytes)
            .sum();
        let width = bytes as f64 * scale;
        if width <= 0.0 {
            continue;
        }
        let tooltip = format!("{name}: {}", format_bytes(bytes as f64));
        let part = Element::rect(x, top, width, BAR_PX)
            .attr("fill", colour(names, name, palette))
            .tooltip(&tooltip);
        drawn.push(part);
        x += width;
    }
    drawn
}

/// Over the line of the limit, so that it can be read.
fn draw_total(bar: &MemoryBar, top: f64, scale: f64, palette: &'static Palette) -> Element {
    let middle = top + BAR_PX / 2.0 + FONT_PX * 0.35;
    let x = MARGIN_PX + LABELS_PX + bar.total() as f64 * scale + 6.0;
    let total = format_bytes(bar.total() as f64);
    label_with_halo(x, middle, &total, palette.ink, palette).num("font-size", FONT_PX)
}

fn draw_limit(
    name: &str,
    bytes: u64,
    bottom: f64,
    scale: f64,
    palette: &'static Palette,
) -> Vec<Element> {
    let x = MARGIN_PX + LABELS_PX + bytes as f64 * scale;
    let line = Element::line((x, HEAD_PX - 6.0), (x, bottom), palette.danger)
        .num("stroke-width", 1.5)
        .attr("stroke-dasharray", "5 3");
    let text = format!("{name}: {}", format_bytes(bytes as f64));
    let width = text_width(&text, FONT_PX) * WIDEST_FONT;
    let left = (x - width / 2.0).clamp(MARGIN_PX, WIDTH_PX - MARGIN_PX - width);
    vec![
        line,
        label(left, bottom + 12.0, &text, palette.danger).num("font-size", FONT_PX),
    ]
}

fn draw_legend(names: &[String], top: f64, palette: &'static Palette) -> Vec<Element> {
    let width = (WIDTH_PX - 2.0 * MARGIN_PX) / LEGEND_COLUMNS as f64;
    let mut drawn = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let x = MARGIN_PX + (index % LEGEND_COLUMNS) as f64 * width;
        let y = top + (index / LEGEND_COLUMNS) as f64 * LEGEND_ROW_PX;
        let swatch = Element::rect(x, y, LEGEND_SWATCH_PX, LEGEND_SWATCH_PX)
            .attr("fill", colour(names, name, palette));
        drawn.push(swatch);
        let text = shorten(name, FONT_PX, (width - 24.0) / WIDEST_FONT);
        drawn.push(label(x + 17.0, y + 10.0, &text, palette.ink).num("font-size", FONT_PX));
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_colours_and_the_limit_is_a_line() {
        let bar = |label: &str, weights: u64, activations: u64| MemoryBar {
            label: label.to_owned(),
            parts: vec![
                ("weights".to_owned(), weights << 30),
                ("activations".to_owned(), activations << 30),
            ],
        };
        let bars = [bar("as asked", 10, 30), bar("<checkpoint>", 10, 5)];
        let svg = memory_bars("Model", "training", &bars, Some(("A100", 40 << 30))).to_svg();
        let palette = Theme::Light.palette();
        assert_eq!(svg.matches(palette.series[0]).count(), 3, "{svg}");
        assert!(svg.contains("A100: 40.00 GiB") && svg.contains("&lt;checkpoint&gt;"));
        assert!(svg.contains("activations: 30.00 GiB"));
        // A limit that is far away is left out.
        let far = memory_bars("Model", "", &bars, Some(("H200", 1000 << 30))).to_svg();
        assert!(!far.contains("H200"));
        assert!(
            memory_bars("Nothing", "", &[], None)
                .to_svg()
                .contains("<svg")
        );
    }
}
