//! The one place that knows how bytes and durations are written and read.
//!
//! Inside, everything is bytes and nanoseconds.
//! On the screen sizes are binary and say so (`MiB`).
//! Keys and CSV columns named `*_mb`, as older scripts have them, are 2^20 bytes: see [`to_mb`].

use thiserror::Error;

/// 2^10 bytes.
pub const KIB: u64 = 1 << 10;
/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;
/// 2^30 bytes.
pub const GIB: u64 = 1 << 30;
/// 2^40 bytes.
pub const TIB: u64 = 1 << 40;
/// Nanoseconds in a second.
pub const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The number under a `*_mb` key.
pub fn to_mb(bytes: f64) -> f64 {
    bytes / MIB as f64
}

/// Seconds of a number of nanoseconds.
pub fn to_secs(nanos: u64) -> f64 {
    nanos as f64 / NANOS_PER_SEC as f64
}

/// `1536` becomes `1.50 KiB`.
pub fn format_bytes(bytes: f64) -> String {
    let (unit, size) = byte_unit(bytes);
    let value = bytes / size as f64;
    let decimals = if size == 1 { 0 } else { 2 };
    format!("{value:.decimals$} {unit}")
}

/// The largest unit that a size fills, and its bytes.
pub(crate) fn byte_unit(bytes: f64) -> (&'static str, u64) {
    let magnitude = bytes.abs();
    [("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)]
        .into_iter()
        // A size that would round to "1024.0" of one unit is written in the next.
        .find(|(_, size)| magnitude >= *size as f64 * 0.9999)
        .unwrap_or(("B", 1))
}

/// The same with a sign, for changes.
pub fn format_bytes_signed(bytes: f64) -> String {
    let sign = if bytes < 0.0 { "-" } else { "+" };
    format!("{sign}{}", format_bytes(bytes.abs()))
}

/// `3725.2` seconds become `1h 02m 05s`; short ones keep decimals.
pub fn format_duration(nanos: u64) -> String {
    let secs = to_secs(nanos);
    match secs {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.2} s"),
        _ => {
            let whole = secs.round() as u64;
            let (days, hours, minutes, seconds) = (
                whole / 86_400,
                whole / 3600 % 24,
                whole / 60 % 60,
                whole % 60,
            );
            match (days, hours) {
                (0, 0) => format!("{minutes}m {seconds:02}s"),
                (0, _) => format!("{hours}h {minutes:02}m {seconds:02}s"),
                _ => format!("{days}d {hours:02}h {minutes:02}m"),
            }
        }
    }
}

/// Text that is not a size or a duration.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum UnitError {
    /// Not a size.
    #[error("not a size: {text:?} (examples: 512MiB, 2GiB, 100000)")]
    Size {
        /// What was given.
        text: String,
    },
    /// Not a duration.
    #[error("not a duration: {text:?} (examples: 0.1, 50ms, 2s, 5m, 1h)")]
    Duration {
        /// What was given.
        text: String,
    },
    /// More bytes than can be counted.
    #[error("{text} is too large")]
    TooLarge {
        /// What was given.
        text: String,
    },
    /// Longer than can be counted.
    #[error("{text} is too long: the longest duration is 292 years")]
    TooLong {
        /// What was given.
        text: String,
    },
}

/// Splits `2.5GiB` into the number and the lower-case unit.
fn number_and_unit(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim().to_ascii_lowercase()))
}

/// Reads `512MiB`, `2G` (binary, as schedulers mean it), `1.5GB` (decimal), `4096`.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError::Size {
        text: text.to_owned(),
    };
    let (number, unit) = number_and_unit(text).ok_or_else(error)?;
    let factor = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => KIB as f64,
        "m" | "mib" => MIB as f64,
        "g" | "gib" => GIB as f64,
        "t" | "tib" => TIB as f64,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return Err(error()),
    };
    let bytes = number * factor;
    if bytes.is_finite() && bytes < u64::MAX as f64 {
        Ok(bytes.round() as u64)
    } else {
        let text = text.to_owned();
        Err(UnitError::TooLarge { text })
    }
}

/// Reads `0.1` (seconds), `50ms`, `2s`, `5m`, `1h`, `2d` as nanoseconds.
pub fn parse_duration(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError::Duration {
        text: text.to_owned(),
    };
    let (number, unit) = number_and_unit(text).ok_or_else(error)?;
    let secs = match unit.as_str() {
        "" | "s" | "sec" | "secs" => 1.0,
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(error()),
    };
    let nanos = number * secs * 1e9;
    if nanos.is_finite() && nanos < i64::MAX as f64 {
        Ok(nanos.round() as u64)
    } else {
        let text = text.to_owned();
        Err(UnitError::TooLong { text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_too_much_is_called_so() {
        let told = |error: UnitError| error.to_string();
        assert_eq!(
            told(parse_duration("99999999999h").unwrap_err()),
            "99999999999h is too long: the longest duration is 292 years"
        );
        assert_eq!(
            told(parse_bytes("99999999999T").unwrap_err()),
            "99999999999T is too large"
        );
    }

    #[test]
    fn bytes_have_their_right_names() {
        for (bytes, text) in [
            (0.0, "0 B"),
            (1023.0, "1023 B"),
            (1536.0, "1.50 KiB"),
            (1024.0 * 1024.0 - 1.0, "1.00 MiB"),
            (45.67 * 1048576.0, "45.67 MiB"),
            (2.0 * 1073741824.0, "2.00 GiB"),
        ] {
            assert_eq!(format_bytes(bytes), text);
        }
        assert_eq!(format_bytes_signed(-1536.0), "-1.50 KiB");
    }

    #[test]
    fn durations_read_well() {
        for (nanos, text) in [
            (150_000, "150 µs"),
            (20_000_000, "20 ms"),
            (2_150_000_000, "2.15 s"),
            (60_000_000_000, "1m 00s"),
            (3_725_200_000_000, "1h 02m 05s"),
            (200_000_000_000_000, "2d 07h 33m"),
        ] {
            assert_eq!(format_duration(nanos), text);
        }
    }

    #[test]
    fn sizes_and_durations_are_read() {
        assert_eq!(parse_bytes("2GiB"), Ok(2 * GIB));
        assert_eq!(parse_bytes("1.5G"), Ok(3 * GIB / 2));
        assert_eq!(parse_bytes("1GB"), Ok(1_000_000_000));
        assert_eq!(parse_duration("0.1"), Ok(100_000_000));
        assert_eq!(parse_duration("50ms"), Ok(50_000_000));
        assert_eq!(parse_duration("5m"), Ok(300_000_000_000));
        for bad in ["", "-1", "x", "1q", "1e400", "nan", "inf"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "\\PC*") {
            let _ = parse_bytes(&text);
            let _ = parse_duration(&text);
        }

        #[test]
        fn whole_mebibytes_survive(mib in 0u64..1 << 40) {
            prop_assert_eq!(parse_bytes(&format!("{mib}MiB")), Ok(mib * MIB));
        }
    }
}
