//! A flame graph: bytes by call stack, the outermost frame on top, each frame as wide as its bytes.
//!
//! The usual crate for it (inferno) is under a licence that does not go with ours.

use std::cmp::Reverse;
use std::collections::HashMap;

use nilo_sample::units::format_bytes;

use crate::chart::Chart;
use crate::font::{WIDEST_FONT, shorten, text_width};
use crate::frame::label;
use crate::svg::Element;
use crate::theme::{Palette, Theme};

const WIDTH_PX: f64 = 1200.0;
const MARGIN_PX: f64 = 12.0;
const HEAD_PX: f64 = 48.0;
const ROW_PX: f64 = 18.0;
const FONT_PX: f64 = 11.0;
/// Narrower frames cannot be seen.
const NARROWEST_PX: f64 = 0.25;
/// Deeper frames are left out; a stack of a training has some fifty.
const MOST_ROWS: usize = 200;

/// One function of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FlameFrame {
    /// What stands in its box, as far as there is room.
    pub label: String,
    /// What the pointer shows.
    pub tooltip: String,
    /// Frames of one group, such as a file, have one colour.
    pub group: String,
}

/// A stack with its bytes.
#[derive(Debug, Clone)]
pub struct FlameStack {
    /// Outermost first.
    pub frames: Vec<FlameFrame>,
    /// Its bytes.
    pub bytes: u64,
}

struct FlameNode<'a> {
    frame: Option<&'a FlameFrame>,
    bytes: u64,
    children: Vec<usize>,
}

/// Draws stacks as a flame graph.
pub fn flame_chart(title: &str, subtitle: &str, stacks: &[FlameStack]) -> Chart {
    let nodes = tree(stacks);
    let palette = Theme::Light.palette();
    let width = WIDTH_PX - 2.0 * MARGIN_PX;
    let scale = width / nodes[0].bytes.max(1) as f64;
    let mut boxes = Element::group().num("font-size", FONT_PX);
    let mut deepest = 0;
    // Depth first, without recursion: a file decides how deep stacks are.
    let mut open = vec![(0, MARGIN_PX, 0)];
    while let Some((index, x, depth)) = open.pop() {
        let node = &nodes[index];
        deepest = deepest.max(depth);
        boxes.push(draw(node, x, depth, scale, nodes[0].bytes, palette));
        let mut left = x;
        for child in &node.children {
            let child_width = nodes[*child].bytes as f64 * scale;
            if child_width >= NARROWEST_PX && depth + 1 < MOST_ROWS {
                open.push((*child, left, depth + 1));
            }
            left += child_width;
        }
    }
    let height = HEAD_PX + (deepest + 1) as f64 * ROW_PX + MARGIN_PX;
    let heading = |text: &str, y, fill, size: f64| {
        let text = shorten(text, size, width / WIDEST_FONT);
        label(MARGIN_PX, y, &text, fill).num("font-size", size)
    };
    let content = vec![
        heading(title, 20.0, palette.ink, 15.0).attr("font-weight", "bold"),
        heading(subtitle, 37.0, palette.muted, 12.0),
        boxes,
    ];
    Chart::new((WIDTH_PX, height), title, palette, content)
}

/// Frames that several stacks have in common, from the outermost on, are one node; the first node is everything.
fn tree(stacks: &[FlameStack]) -> Vec<FlameNode<'_>> {
    let mut nodes = vec![FlameNode {
        frame: None,
        bytes: stacks.iter().map(|stack| stack.bytes).sum(),
        children: Vec::new(),
    }];
    let mut known: HashMap<(usize, &FlameFrame), usize> = HashMap::new();
    for stack in stacks {
        let mut at = 0;
        for frame in stack.frames.iter().take(MOST_ROWS) {
            let next = *known.entry((at, frame)).or_insert_with(|| {
                nodes.push(FlameNode {
                    frame: Some(frame),
                    bytes: 0,
                    children: Vec::new(),
                });
                let index = nodes.len() - 1;
                nodes[at].children.push(index);
                index
            });
            nodes[next].bytes += stack.bytes;
            at = next;
        }
    }
    for index in 0..nodes.len() {
        let mut children = std::mem::take(&mut nodes[index].children);
        children.sort_by_key(|child| Reverse(nodes[*child].bytes));
        nodes[index].children = children;
    }
    nodes
}

fn draw(
    node: &FlameNode<'_>,
    x: f64,
    depth: usize,
    scale: f64,
    all: u64,
    palette: &Palette,
) -> Element {
    let (name, tooltip, colour) = match node.frame {
        Some(frame) => {
            let colour = colour_of(&frame.group, palette);
            (frame.label.as_str(), frame.tooltip.as_str(), colour)
        }
        None => ("all", "all", palette.grid.to_owned()),
    };
    let y = HEAD_PX + depth as f64 * ROW_PX;
    let width = node.bytes as f64 * scale;
    let share = 100.0 * node.bytes as f64 / all.max(1) as f64;
    let bytes = format_bytes(node.bytes as f64);
    let rect = Element::rect(x, y, width, ROW_PX - 1.0)
        .attr("fill", colour)
        .attr("stroke", palette.background)
        .num("stroke-width", 0.5);
    let mut group = Element::group()
        .tooltip(&format!("{tooltip}: {bytes} ({share:.1} %)"))
        .child(rect);
    let room = (width - 6.0) / WIDEST_FONT;
    if room >= text_width("mm…", FONT_PX) {
        let text = shorten(name, FONT_PX, room);
        group.push(label(x + 3.0, y + ROW_PX - 6.0, &text, palette.ink));
    }
    group
}

/// The same colour for the same group, in every picture.
fn colour_of(group: &str, palette: &Palette) -> String {
    let hash = group.bytes().fold(0_u32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    let series = &palette.series;
    palette.tint(series[hash as usize % series.len()], 0.45)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(names: &[&str], bytes: u64) -> FlameStack {
        let frame = |name: &&str| FlameFrame {
            label: (*name).to_owned(),
            tooltip: (*name).to_owned(),
            group: "train.py".to_owned(),
        };
        FlameStack {
            frames: names.iter().map(frame).collect(),
            bytes,
        }
    }

    #[test]
    fn common_frames_are_one_box_with_the_bytes_of_all() {
        let stacks = [
            stack(&["main", "forward"], 3 << 20),
            stack(&["main", "step"], 1 << 20),
        ];
        let svg = flame_chart("peak", "", &stacks).to_svg();
        assert_eq!(svg.matches("main: 4.00 MiB (100.0 %)").count(), 1);
        assert!(svg.contains("forward: 3.00 MiB (75.0 %)"), "{svg}");
        assert!(svg.contains("step: 1.00 MiB (25.0 %)"));
        for drawn in [">peak</text>", ">main</text>", ">forward</text>"] {
            assert!(svg.contains(drawn), "{drawn} in {svg}");
        }
    }

    #[test]
    fn names_from_outside_and_deep_stacks_do_no_harm() {
        let deep = vec!["<script>alert(1)</script>"; 100_000];
        let svg = flame_chart("<b>", "", &[stack(&deep, 10)]).to_svg();
        assert!(!svg.contains("<script") && !svg.contains("<b>"));
        assert!(svg.matches("<rect").count() <= MOST_ROWS + 1);
        assert!(flame_chart("empty", "", &[]).to_svg().contains("all: 0 B"));
    }
}
