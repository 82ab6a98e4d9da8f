//! A chart as a picture of pixels.

use nilo_plot::Chart;

use crate::failure::{Failure, note};

/// Pictures are drawn at twice the size, so that they stay sharp in print.
const SCALE: f32 = 2.0;

/// Draws a chart; says so where characters are missing from it.
pub(crate) fn png(chart: &Chart) -> Result<Vec<u8>, Failure> {
    if chart.has_undrawable_characters() {
        note("characters that the picture's font does not have are drawn as ?; SVG keeps them");
    }
    Ok(chart.to_png(SCALE)?)
}
