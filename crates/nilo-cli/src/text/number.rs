//! Figures that may be missing, as cells of a table.

use nilo_plot::short_number;
use nilo_sample::units::format_duration;

/// A number in few digits, or a dash.
pub(crate) fn format_optional(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), short_number)
}

/// A duration in seconds, or a dash. Short ones have three digits: the phases of a quick step differ in less than a millisecond.
pub(crate) fn format_secs(secs: Option<f64>) -> String {
    let Some(secs) = secs else {
        return "-".to_owned();
    };
    let (number, unit) = match secs {
        // What would round to a thousand of the unit is one of the next.
        0.0..0.000_999_5 => (secs * 1e6, "µs"),
        0.000_999_5..0.999_5 => (secs * 1e3, "ms"),
        0.999_5..1.0 => return "1.00 s".to_owned(),
        _ => return format_duration((secs * 1e9) as u64),
    };
    match number {
        n if n < 9.995 => format!("{n:.2} {unit}"),
        n if n < 99.95 => format!("{n:.1} {unit}"),
        n => format!("{n:.0} {unit}"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_durations_have_three_digits() {
        for (secs, text) in [
            (0.001_534, "1.53 ms"),
            (0.015_34, "15.3 ms"),
            (0.153_4, "153 ms"),
            (0.999_7, "1.00 s"),
            (0.000_012_3, "12.3 µs"),
            (0.000_999_9, "1.00 ms"),
            (0.0, "0.00 µs"),
            (12.5, "12.50 s"),
        ] {
            assert_eq!(format_secs(Some(secs)), text);
        }
        assert_eq!(format_secs(None), "-");
    }
}
