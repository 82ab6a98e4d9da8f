//! How wide a text is, and the fonts for pictures without a browser.
//!
//! The SVG names common sans-serif families and is laid out with Helvetica's metrics, which all of them are close to.
//! PNGs are drawn with an embedded font, so that they look the same on a cluster node that has no fonts.

use std::sync::{Arc, OnceLock};

use resvg::usvg::fontdb::{Database, Source};
use skrifa::charmap::Charmap;
use skrifa::{FontRef, MetadataProvider};

/// For browsers, editors and papers.
pub(crate) const FAMILY: &str =
    "Inter, 'Helvetica Neue', Helvetica, Arial, 'Noto Sans', 'DejaVu Sans', sans-serif";

/// Advance widths of Helvetica in thousandths of the font size, for the printable ASCII characters from the space on (Adobe's AFM file).
const ASCII_WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278,
    278, // space to /
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, // 0 to ?
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, // @ to O
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, // P to _
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, // ` to o
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584, // p to ~
];

/// The families differ by a few percent; room for them.
const SLACK: f64 = 1.05;

/// The widest fonts that may stand in for ours on a reader's machine (Verdana, DejaVu Sans, a typewriter's) take up to a fifth more than that.
/// Where a text must not meet another one, it gets this many times its width.
pub(crate) const WIDEST_FONT: f64 = 1.25;

/// The width of a text in pixels, rather too large than too small.
pub(crate) fn text_width(text: &str, size_px: f64) -> f64 {
    let thousandths: f64 = text.chars().map(character_width).sum();
    thousandths / 1000.0 * size_px * SLACK
}

fn character_width(c: char) -> f64 {
    let ascii = (c as usize).checked_sub(0x20);
    match ascii.and_then(|index| ASCII_WIDTHS.get(index)) {
        Some(width) => f64::from(*width),
        // Ideographs and emoji are as wide as they are high; the rest is mostly letters.
        None if c as u32 >= 0x1100 || c == '…' => 1000.0,
        None => 600.0,
    }
}

/// A text shortened to a width by an ellipsis at its end.
pub(crate) fn shorten(text: &str, size_px: f64, width_px: f64) -> String {
    // No character is narrower than this: whatever lies behind cannot fit.
    let most = (width_px.max(0.0) / (0.15 * size_px)) as usize + 1;
    let head: String = text.chars().take(most).collect();
    if head.len() == text.len() && text_width(text, size_px) <= width_px {
        return head;
    }
    let room = width_px - text_width("…", size_px);
    let mut kept = String::new();
    let mut used = 0.0;
    for c in head.chars() {
        used += character_width(c) / 1000.0 * size_px * SLACK;
        if used > room {
            break;
        }
        kept.push(c);
    }
    if kept.is_empty() {
        return String::new();
    }
    format!("{}…", kept.trim_end())
}

/// One for text, two for the symbols that it lacks.
const EMBEDDED: [&[u8]; 3] = [
    epaint_default_fonts::UBUNTU_LIGHT,
    epaint_default_fonts::HACK_REGULAR,
    epaint_default_fonts::NOTO_EMOJI_REGULAR,
];

/// Stands in pictures for a character that no embedded font has, such as those of Chinese, Japanese and Korean: their fonts are larger than we are.
const UNKNOWN: char = '?';

/// A text for a picture that is drawn with the embedded fonts, and whether characters were replaced because none has them.
pub(crate) fn replace_undrawable(text: &str) -> (String, bool) {
    let fonts = EMBEDDED.map(|bytes| FontRef::new(bytes).ok());
    let charmaps: Vec<Charmap<'_>> = fonts.iter().flatten().map(FontRef::charmap).collect();
    let is_drawn = |c: char| charmaps.iter().any(|charmap| charmap.map(c).is_some());
    let mut has_replaced = false;
    let drawn = text.chars().filter_map(|c| match c {
        _ if c.is_ascii() || is_drawn(c) => Some(c),
        // They only say how a neighbour is to be drawn.
        '\u{fe00}'..='\u{fe0f}' | '\u{200b}'..='\u{200f}' => None,
        _ => {
            has_replaced = true;
            Some(UNKNOWN)
        }
    });
    let drawn = drawn.collect();
    (drawn, has_replaced)
}

/// The embedded fonts.
pub(crate) fn database() -> Arc<Database> {
    static DATABASE: OnceLock<Arc<Database>> = OnceLock::new();
    let load = || {
        let mut database = Database::new();
        for bytes in EMBEDDED {
            database.load_font_source(Source::Binary(Arc::new(bytes)));
        }
        let first = database.faces().next();
        let family = first.and_then(|face| face.families.first());
        if let Some(family) = family.map(|(name, _)| name.clone()) {
            database.set_sans_serif_family(family);
        }
        Arc::new(database)
    };
    Arc::clone(DATABASE.get_or_init(load))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The width that the embedded font really takes.
    fn drawn_width(text: &str) -> f64 {
        let svg = format!(
            "<svg xmlns='http://www.w3.org/2000/svg' width='2000' height='50'>\
             <text y='30' font-family='sans-serif' font-size='12'>{text}</text></svg>"
        );
        let options = resvg::usvg::Options {
            fontdb: database(),
            ..Default::default()
        };
        let tree = resvg::usvg::Tree::from_str(&svg, &options).unwrap();
        f64::from(tree.root().bounding_box().width())
    }

    #[test]
    fn estimated_widths_hold_the_embedded_font() {
        for text in [
            "peak 2.11 GiB (VmHWM)",
            "limit 4.00 GiB, cgroup v1 /slurm/uid_1000/job_88",
            "python train.py --batch-size 32",
            "areas scaled to the tree total (shared pages counted once)",
        ] {
            let ratio = text_width(text, 12.0) / drawn_width(text);
            assert!((0.97..1.25).contains(&ratio), "{text}: {ratio}");
        }
    }

    proptest! {
        #[test]
        fn shortened_text_fits(text in "\\PC{0,80}", width in 0.0..300.0f64) {
            let short = shorten(&text, 12.0, width);
            prop_assert!(text_width(&short, 12.0) <= width + 1e-9);
        }
    }
}
