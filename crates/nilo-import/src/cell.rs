//! A cell that should be a number: `123`, `1.5e9`, `877 MiB`, or one of the words for "nothing".

use nilo_sample::limit::NO_LIMIT_FROM;

use crate::options::ByteUnit;

/// What a cell holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CellValue {
    /// Nothing was measured.
    Absent,
    /// A number and the unit behind it.
    Number(f64, Option<ByteUnit>),
    /// Neither.
    Bad,
}

/// What tools write where they have no number.
const NOTHING: [&str; 13] = [
    "", "-", "--", ".", "?", "nan", "na", "n/a", "null", "none", "inf", "-inf", "unknown",
];

/// Reads a cell; `decimal_comma` where cells are separated by semicolons, as tables of half of Europe are.
pub(crate) fn read_cell(text: &str, decimal_comma: bool) -> CellValue {
    let text = text.trim();
    // Quicker than all that follows, and nearly always enough. Rust also reads `nan` and `infinity`.
    if let Ok(number) = text.parse::<f64>() {
        return match number.is_finite() {
            true => CellValue::Number(number, None),
            false => CellValue::Absent,
        };
    }
    // nvidia-smi: [N/A], [Not Supported], [Unknown Error].
    let bracketed = text.starts_with('[') && text.ends_with(']');
    if bracketed || NOTHING.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return CellValue::Absent;
    }
    let end = text
        .rfind(|c: char| c.is_ascii_digit() || c == '.')
        .map_or(0, |place| place + 1);
    let (number, unit) = (&text[..end], text[end..].trim());
    let parsed = match decimal_comma && !number.contains('.') {
        true => number.replacen(',', ".", 1).parse::<f64>(),
        false => number.parse::<f64>(),
    };
    let unit = match unit {
        "" | "%" => None,
        name => match ByteUnit::by_short_name(name) {
            Some(unit) => Some(unit),
            None => return CellValue::Bad,
        },
    };
    match parsed {
        Ok(number) if number.is_finite() => CellValue::Number(number, unit),
        Ok(_) => CellValue::Absent,
        Err(_) => CellValue::Bad,
    }
}

/// Bytes, where they can be: less than none and more than any machine has are ways to say "no value".
pub(crate) fn as_bytes(number: f64) -> Option<f64> {
    (0.0..NO_LIMIT_FROM as f64)
        .contains(&number)
        .then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_and_without_units() {
        let mib = Some(ByteUnit::Mib);
        for (text, expected) in [
            ("12.5", CellValue::Number(12.5, None)),
            (" 1e9 ", CellValue::Number(1e9, None)),
            ("877 MiB", CellValue::Number(877.0, mib)),
            ("877MB", CellValue::Number(877.0, mib)),
            ("1.5G", CellValue::Number(1.5, Some(ByteUnit::Gib))),
            ("97 %", CellValue::Number(97.0, None)),
            ("-3", CellValue::Number(-3.0, None)),
        ] {
            assert_eq!(read_cell(text, false), expected, "{text}");
        }
        assert_eq!(read_cell("12,5", true), CellValue::Number(12.5, None));
    }

    #[test]
    fn words_for_nothing_are_nothing() {
        for text in [
            "",
            "  ",
            "NaN",
            "N/A",
            "[N/A]",
            "[Not Supported]",
            "null",
            "inf",
            "1e999",
        ] {
            assert_eq!(read_cell(text, false), CellValue::Absent, "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_number() {
        for text in ["abc", "12 apples", "1.2.3", "12,5", "0x10", "MiB", "1 2"] {
            assert_eq!(read_cell(text, false), CellValue::Bad, "{text}");
        }
    }

    #[test]
    fn impossible_amounts_are_no_value() {
        assert_eq!(as_bytes(-1.0), None);
        assert_eq!(as_bytes(9_223_372_036_854_771_712.0), None);
        assert_eq!(as_bytes(0.0), Some(0.0));
    }
}
