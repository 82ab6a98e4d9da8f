//! Figures that may be missing, as cells of a table.

use nilo_plot::short_number;
use nilo_sample::units::format_duration;

/// A number in few digits, or a dash.
pub(crate) fn format_optional(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), short_number)
}

/// A duration in seconds, or a dash.
pub(crate) fn format_secs(secs: Option<f64>) -> String {
    secs.map_or("-".to_owned(), |secs| format_duration((secs * 1e9) as u64))
}

/// A share as percent, or a dash.
pub(crate) fn format_share(ratio: Option<f64>) -> String {
    ratio.map_or("-".to_owned(), |ratio| format!("{:.1} %", 100.0 * ratio))
}

/// A change as percent with its sign; nothing where there is none.
pub(crate) fn format_change(ratio: Option<f64>) -> String {
    // What rounds to nothing is neither a rise nor a fall.
    let ratio = ratio.map(|ratio| if ratio.abs() < 0.0005 { 0.0 } else { ratio });
    ratio.map_or(String::new(), |ratio| format!("{:+.1} %", 100.0 * ratio))
}
