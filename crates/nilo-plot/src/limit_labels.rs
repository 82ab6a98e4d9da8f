//! Places for the labels of several limits, which may lie close to each other.

use crate::font::{WIDEST_FONT, shorten, text_width};
use crate::frame::{PlotArea, TEXT_PX};
use crate::levels::LabelSide;

/// Base lines above a line and below it, from the line; further ones where these are taken.
const BASES_PX: [f64; 10] = [
    -6.0, 15.0, -22.0, 31.0, -38.0, 47.0, -54.0, 63.0, -70.0, 79.0,
];
/// What a text takes above and below its base line.
const ABOVE_PX: f64 = TEXT_PX;
const BELOW_PX: f64 = 3.0;
const FROM_EDGE_PX: f64 = 6.0;

/// A label with its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LimitLabel {
    pub(crate) text: String,
    pub(crate) side: LabelSide,
    pub(crate) base: f64,
}

/// What a label covers.
#[derive(Debug, Clone, Copy)]
struct LabelBox {
    from: f64,
    to: f64,
    top: f64,
    bottom: f64,
}

impl LabelBox {
    fn meets(&self, other: &LabelBox) -> bool {
        let beside = self.to < other.from || other.to < self.from;
        let above = self.bottom < other.top || other.bottom < self.top;
        !(beside || above)
    }
}

/// Finds places one after the other.
#[derive(Debug)]
pub(crate) struct LimitLabels<'a> {
    frame: &'a PlotArea,
    /// The heights of all limits, whose lines go through the whole chart.
    lines: Vec<f64>,
    taken: Vec<LabelBox>,
}

impl<'a> LimitLabels<'a> {
    pub(crate) fn new(frame: &'a PlotArea, lines: Vec<f64>) -> LimitLabels<'a> {
        LimitLabels {
            frame,
            lines,
            taken: Vec::new(),
        }
    }

    /// A place near a line where no other label and no line is: first with the first of these texts, which say less and less. `None` where there is none.
    pub(crate) fn place(&mut self, line_y: f64, texts: &[String]) -> Option<LimitLabel> {
        let frame = self.frame;
        let room = frame.right - frame.left - 2.0 * FROM_EDGE_PX;
        let last = texts.len().saturating_sub(1);
        for (index, text) in texts.iter().enumerate() {
            // Only the last may be cut.
            let text = match index == last {
                true => shorten(text, TEXT_PX, room),
                false => text.clone(),
            };
            if text_width(&text, TEXT_PX) > room {
                continue;
            }
            for base in BASES_PX.map(|offset| line_y + offset) {
                for side in [LabelSide::Left, LabelSide::Right] {
                    let place = self.covered(&text, side, base);
                    let is_inside = place.top >= frame.top - 2.0 && base <= frame.bottom;
                    let is_crossed = |y: &f64| (place.top + 1.0..place.bottom - 1.0).contains(y);
                    let is_free = !self.taken.iter().any(|other| other.meets(&place))
                        && !self.lines.iter().any(is_crossed);
                    if is_inside && is_free {
                        self.taken.push(place);
                        return Some(LimitLabel { text, side, base });
                    }
                }
            }
        }
        None
    }

    /// In whatever font a viewer has.
    fn covered(&self, text: &str, side: LabelSide, base: f64) -> LabelBox {
        let width = text_width(text, TEXT_PX) * WIDEST_FONT;
        let (from, to) = match side {
            LabelSide::Left => {
                let from = self.frame.left + FROM_EDGE_PX;
                (from, from + width)
            }
            LabelSide::Right => {
                let to = self.frame.right - FROM_EDGE_PX;
                (to - width, to)
            }
        };
        LabelBox {
            from,
            to,
            top: base - ABOVE_PX,
            bottom: base + BELOW_PX,
        }
    }
}
