//! Numbers as texts that read back as the same number: whole ones in full, very large and very small ones with an exponent.

use std::fmt;

/// Whole numbers below this fit into 64 bits: 2^64.
const WHOLE_BELOW: f64 = 18_446_744_073_709_551_616.0;
/// Other numbers in between are written without an exponent.
const PLAIN: std::ops::Range<f64> = 1e-5..1e16;

/// A number to be written.
pub(crate) struct NumberText(pub(crate) f64);

impl fmt::Display for NumberText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        if value.fract() == 0.0 && value.abs() < WHOLE_BELOW {
            // Every digit of it; the shortest text that reads back has zeros at the end. Minus zero is zero.
            write!(f, "{:.0}", value + 0.0)
        } else if !value.is_finite() || PLAIN.contains(&value.abs()) {
            write!(f, "{value}")
        } else {
            write!(f, "{value:e}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_written_in_full_and_others_shortly() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (3.0, "3"),
            (-0.1, "-0.1"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (9_223_372_036_854_775_808.0, "9223372036854775808"),
            (-9_223_372_036_854_775_808.0, "-9223372036854775808"),
            (1e300, "1e300"),
            (-2.5e-300, "-2.5e-300"),
            (0.00012, "0.00012"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(NumberText(value).to_string(), text);
            let read: f64 = text.parse().unwrap();
            assert!(read == value || read.is_nan());
        }
    }
}
