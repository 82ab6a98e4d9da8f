//! Durations, sizes and rates as people say them: rounded, with few digits, for sentences.

use crate::units::{MIB, NANOS_PER_SEC, byte_unit};

/// `480.0` seconds become `8 minutes` and `0.02` become `20 ms`: rounded to what people say.
pub fn duration_in_words(secs: f64) -> String {
    let (unit, size) = spoken_unit(secs);
    let number = spoken_number(secs / size);
    match (number.as_str(), unit) {
        (number, "ms") => format!("{number} ms"),
        ("1", unit) => format!("1 {unit}"),
        _ => format!("{number} {unit}s"),
    }
}

/// `480.0` seconds between `360.0` and `660.0` become `8 minutes (6–11)`, all in the unit of the first.
pub fn duration_between_in_words(secs: f64, low_secs: f64, high_secs: f64) -> String {
    let (_, size) = spoken_unit(secs);
    let (low, high) = (
        spoken_number(low_secs / size),
        spoken_number(high_secs / size),
    );
    match low == high {
        true => duration_in_words(secs),
        false => format!("{} ({low}–{high})", duration_in_words(secs)),
    }
}

/// Shorter times are told in milliseconds: a decimal of a second would say little, or nothing.
const LEAST_SPOKEN_SECS: f64 = 0.9995;

/// From two of the larger unit on, so that rounding loses no more than a fifth.
fn spoken_unit(secs: f64) -> (&'static str, f64) {
    match secs {
        s if s > 0.0 && s < LEAST_SPOKEN_SECS => ("ms", 0.001),
        s if s < 120.0 => ("second", 1.0),
        s if s < 7200.0 => ("minute", 60.0),
        s if s < 172_800.0 => ("hour", 3600.0),
        _ => ("day", 86_400.0),
    }
}

/// Small numbers keep a decimal.
fn spoken_number(value: f64) -> String {
    match value {
        v if v < 9.95 => format!("{v:.1}").trim_end_matches(".0").to_owned(),
        v => format!("{v:.0}"),
    }
}

/// `00:12:33` of a number of nanoseconds, rounded as every other duration is.
pub fn clock_time(nanos: u64) -> String {
    let secs = nanos.saturating_add(NANOS_PER_SEC / 2) / NANOS_PER_SEC;
    format!("{:02}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60)
}

/// A growth and its interval, such as `14.2 MiB/min (80 % interval 13.1–15)`; slow ones by the hour or the day.
pub fn rate_in_words(bytes_per_sec: f64, low: f64, high: f64) -> String {
    let times = [("min", 60.0), ("h", 3600.0), ("day", 86_400.0)];
    let (time, secs) = times
        .into_iter()
        .find(|(_, secs)| bytes_per_sec.abs() * secs >= MIB as f64)
        .unwrap_or(("day", 86_400.0));
    let rate = bytes_per_sec * secs;
    let (unit, size) = byte_unit(rate);
    let number = |value: f64| short(value * secs / size as f64);
    let (low, high) = (number(low), number(high));
    let interval = match low == high {
        true => String::new(),
        false => format!(" (80 % interval {low}–{high})"),
    };
    format!("{} {unit}/{time}{interval}", number(bytes_per_sec))
}

/// `1536` becomes `1.5 KiB`: three digits, for sentences.
pub fn bytes_in_words(bytes: f64) -> String {
    let (unit, size) = byte_unit(bytes);
    format!("{} {unit}", short(bytes / size as f64))
}

/// Three digits, without zeros behind the point.
fn short(value: f64) -> String {
    let decimals = match value.abs() {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{GIB, format_duration, to_secs};

    #[test]
    fn durations_in_words_are_rounded_as_people_do() {
        for (secs, text) in [
            (0.0, "0 seconds"),
            (0.0004, "0.4 ms"),
            (0.0201, "20 ms"),
            (0.9994, "999 ms"),
            (0.9996, "1 second"),
            (1.0, "1 second"),
            (4.46, "4.5 seconds"),
            (45.2, "45 seconds"),
            (119.0, "119 seconds"),
            (480.0, "8 minutes"),
            (150.0, "2.5 minutes"),
            (10_800.0, "3 hours"),
            (864_000.0, "10 days"),
        ] {
            assert_eq!(duration_in_words(secs), text);
        }
        let between = duration_between_in_words(480.0, 360.0, 660.0);
        assert_eq!(between, "8 minutes (6–11)");
        assert_eq!(duration_between_in_words(30.0, 30.0, 30.0), "30 seconds");
        let short = duration_between_in_words(0.5, 0.25, 2.0);
        assert_eq!(short, "500 ms (250–2000)");
        assert_eq!(clock_time(753_400_000_000), "00:12:33");
    }

    #[test]
    fn one_time_reads_the_same_in_every_spelling() {
        let nanos = 118_600_000_000;
        assert_eq!(duration_in_words(to_secs(nanos)), "119 seconds");
        assert_eq!(format_duration(nanos), "1m 59s");
        assert_eq!(clock_time(nanos), "00:01:59");
    }

    #[test]
    fn rates_are_told_by_the_minute_the_hour_or_the_day() {
        let mib = MIB as f64;
        let minute = rate_in_words(14.2 * mib / 60.0, 13.0 * mib / 60.0, 15.04 * mib / 60.0);
        assert_eq!(minute, "14.2 MiB/min (80 % interval 13–15)");
        let slow = mib / 600.0;
        assert_eq!(rate_in_words(slow, slow, slow), "6 MiB/h");
        let slowest = mib / 43_200.0;
        assert_eq!(rate_in_words(slowest, slowest, slowest), "2 MiB/day");
        assert_eq!(bytes_in_words(1.305 * GIB as f64), "1.3 GiB");
        assert_eq!(bytes_in_words(100.0 * mib), "100 MiB");
    }
}
