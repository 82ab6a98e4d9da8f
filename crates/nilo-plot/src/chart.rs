//! A finished chart: SVG text, and the same as pixels.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg;
use thiserror::Error;

use crate::font;
use crate::svg::Element;
use crate::theme::Palette;

/// Neither side of a picture may be longer; 16384² pixels are 1 GiB.
const LARGEST_SIDE_PX: f64 = 16_384.0;
/// 64 million pixels take 256 MiB while they are drawn.
const MOST_PIXELS: f64 = 64e6;

/// What went wrong while drawing pixels.
#[derive(Debug, Error)]
pub enum PlotError {
    /// Nothing can be drawn at this scale.
    #[error("cannot draw {width} x {height} pixels at scale {scale}")]
    Size {
        /// Pixels at scale 1.
        width: f64,
        /// Pixels at scale 1.
        height: f64,
        /// The scale asked for.
        scale: f32,
    },
    /// Our own SVG was not understood.
    #[error("cannot lay out the chart: {source}")]
    Layout {
        /// Why.
        #[from]
        source: usvg::Error,
    },
    /// PNG could not be encoded.
    #[error("cannot encode the chart as PNG: {reason}")]
    Encode {
        /// Why.
        reason: String,
    },
}

/// A chart, drawn.
#[derive(Debug, Clone)]
pub struct Chart {
    svg: String,
    width: f64,
    height: f64,
}

impl Chart {
    /// Wraps what was drawn into a document.
    pub(crate) fn new(
        (width, height): (f64, f64),
        description: &str,
        palette: &Palette,
        content: Vec<Element>,
    ) -> Chart {
        let mut root = Element::new("svg")
            .attr("xmlns", "http://www.w3.org/2000/svg")
            .num("width", width)
            .num("height", height)
            .attr("viewBox", format!("0 0 {width} {height}"))
            .attr("role", "img")
            .attr("font-family", font::FAMILY)
            .attr("font-size", "12")
            .tooltip(description)
            .child(Element::rect(0.0, 0.0, width, height).attr("fill", palette.background));
        for element in content {
            root.push(element);
        }
        let mut svg = String::new();
        root.write(&mut svg);
        Chart { svg, width, height }
    }

    /// The SVG document.
    pub fn to_svg(&self) -> String {
        self.svg.clone()
    }

    /// Whether a PNG has `?` for some characters, because no embedded font has them. The SVG has them all.
    pub fn has_undrawable_characters(&self) -> bool {
        font::replace_undrawable(&self.svg).1
    }

    /// A PNG file; at scale 2 it has twice the pixels each way.
    pub fn to_png(&self, scale: f32) -> Result<Vec<u8>, PlotError> {
        let factor = f64::from(scale);
        let (width, height) = (
            (self.width * factor).round(),
            (self.height * factor).round(),
        );
        let size_error = || PlotError::Size {
            width: self.width,
            height: self.height,
            scale,
        };
        let drawable = |side: f64| (1.0..=LARGEST_SIDE_PX).contains(&side);
        if !drawable(width) || !drawable(height) || width * height > MOST_PIXELS {
            return Err(size_error());
        }
        let options = usvg::Options {
            fontdb: font::database(),
            ..usvg::Options::default()
        };
        let tree = usvg::Tree::from_str(&font::replace_undrawable(&self.svg).0, &options)?;
        let mut pixels = Pixmap::new(width as u32, height as u32).ok_or_else(size_error)?;
        let transform = Transform::from_scale(scale, scale);
        resvg::render(&tree, transform, &mut pixels.as_mut());
        pixels.encode_png().map_err(|error| PlotError::Encode {
            reason: error.to_string(),
        })
    }
}
