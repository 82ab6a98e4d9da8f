//! Numbers whose unit nobody knows, in few digits: for tables in a terminal and titles of panels.

/// Four digits that matter; whole numbers stay whole up to ten million.
pub fn short_number(value: f64) -> String {
    let magnitude = value.abs();
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "inf" } else { "-inf" }.to_owned()
    } else if magnitude < 1e7 && value.fract() == 0.0 {
        // Minus zero is zero to people.
        format!("{:.0}", value + 0.0)
    } else if (1e-3..1e6).contains(&magnitude) {
        let decimals = (3 - magnitude.log10().floor() as i32).clamp(0, 6) as usize;
        without_zeros(&format!("{value:.decimals$}")).to_owned()
    } else {
        let text = format!("{value:.3e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        format!("{}e{exponent}", without_zeros(digits))
    }
}

/// `0.500` becomes `0.5`, `500` stays.
fn without_zeros(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (3.0, "3"),
            (0.123456, "0.1235"),
            (0.1, "0.1"),
            (-12.3456, "-12.35"),
            (1234.567, "1235"),
            (0.00123456, "0.001235"),
            (0.00001234, "1.234e-5"),
            (9_999_999.0, "9999999"),
            (1e300, "1e300"),
            (500_000.5, "500000"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(short_number(value), text);
        }
    }
}
