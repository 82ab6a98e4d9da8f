//! The time column: seconds from the start, seconds or milliseconds since 1970, or dates.
//!
//! The first time of the file decides which it is; the zero of the result is the file's own zero,
//! or the first row where the times are dates.

use crate::date::{parse_clock, parse_date};

/// Seconds since 1970 are larger than this, seconds of a run are not: it lies in 1973, or three years into the run.
const UNIX_FROM_SECS: f64 = 1e8;

/// Thirty years: farther from the first row no time of the same recording lies.
const LONGEST_NANOS: i128 = 1_000_000_000 * 1_000_000_000;

/// The year 5000, by any clock.
const FARTHEST_SECS: f64 = 1e11;

/// What a cell of the time column says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParsedTime {
    /// Nanoseconds since the zero.
    At(u64),
    /// Before the zero or decades after it.
    OutOfRange,
    /// Nothing.
    Absent,
    /// Not a time.
    Bad,
}

/// Turns cells into nanoseconds.
#[derive(Debug)]
pub(crate) struct TimeParser {
    /// Seconds in one unit, when the column's name says it.
    unit_secs: Option<f64>,
    settled: Option<TimeScale>,
}

#[derive(Debug, Clone, Copy)]
struct TimeScale {
    /// Seconds in one of the file's numbers.
    scale: f64,
    /// Since 1970, and not since the start.
    unix: bool,
    zero: i128,
}

impl TimeParser {
    pub(crate) fn new(unit_secs: Option<f64>) -> TimeParser {
        TimeParser {
            unit_secs,
            settled: None,
        }
    }

    /// The zero by the wall clock, in nanoseconds since 1970.
    pub(crate) fn started_unix_nanos(&self) -> Option<u64> {
        let settled = self.settled.filter(|settled| settled.unix)?;
        u64::try_from(settled.zero).ok()
    }

    /// The moment of a cell.
    pub(crate) fn moment(&mut self, text: &str) -> ParsedTime {
        let text = text.trim().trim_matches('"');
        if text.is_empty() || text.eq_ignore_ascii_case("nan") {
            return ParsedTime::Absent;
        }
        let (nanos, unix, scale) = match text.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                let settled = self.settled.map(|settled| settled.scale);
                let scale = settled.unwrap_or_else(|| self.scale_of(number));
                let secs = number * scale;
                if secs.abs() > FARTHEST_SECS {
                    return ParsedTime::OutOfRange;
                }
                let nanos = (secs * 1e9).round() as i128;
                (nanos, secs >= UNIX_FROM_SECS, scale)
            }
            Ok(_) => return ParsedTime::Absent,
            Err(_) => match (parse_date(text), parse_clock(text)) {
                (Some(nanos), _) => (nanos, true, 1.0),
                (None, Some(nanos)) => (nanos, false, 1.0),
                (None, None) => return ParsedTime::Bad,
            },
        };
        let settled = *self.settled.get_or_insert(TimeScale {
            scale,
            unix,
            zero: if unix { nanos } else { nanos.min(0) },
        });
        match nanos - settled.zero {
            since if (0..LONGEST_NANOS).contains(&since) => ParsedTime::At(since as u64),
            _ => ParsedTime::OutOfRange,
        }
    }

    /// Seconds in one unit: by the column's name, else by the size of a number that can only be a time since 1970.
    fn scale_of(&self, number: f64) -> f64 {
        match (self.unit_secs, number.abs()) {
            (Some(unit_secs), _) => unit_secs,
            (None, size) if size >= UNIX_FROM_SECS * 1e9 => 1e-9,
            (None, size) if size >= UNIX_FROM_SECS * 1e6 => 1e-6,
            (None, size) if size >= UNIX_FROM_SECS * 1e3 => 1e-3,
            (None, _) => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(unit_secs: Option<f64>, cells: &[&str]) -> Vec<ParsedTime> {
        let mut clock = TimeParser::new(unit_secs);
        cells.iter().map(|cell| clock.moment(cell)).collect()
    }

    #[test]
    fn seconds_of_a_run_keep_their_zero() {
        let found = moments(None, &["10.5", "11", "", "nan", "x"]);
        let expected = [
            ParsedTime::At(10_500_000_000),
            ParsedTime::At(11_000_000_000),
            ParsedTime::Absent,
            ParsedTime::Absent,
            ParsedTime::Bad,
        ];
        assert_eq!(found, expected);
        assert_eq!(moments(Some(1e-3), &["250"]), [ParsedTime::At(250_000_000)]);
        assert_eq!(
            moments(None, &["-2", "0"])[1],
            ParsedTime::At(2_000_000_000)
        );
    }

    #[test]
    fn times_since_1970_begin_at_the_first_row_in_any_unit() {
        for cells in [
            ["1794753122", "1794753123"],
            ["1794753122000", "1794753123000"],
            ["1794753122000000", "1794753123000000"],
            ["1794753122000000000", "1794753123000000000"],
            ["2026/11/15 14:32:02", "2026/11/15 14:32:03"],
        ] {
            let mut clock = TimeParser::new(None);
            assert_eq!(clock.moment(cells[0]), ParsedTime::At(0));
            assert_eq!(
                clock.moment(cells[1]),
                ParsedTime::At(1_000_000_000),
                "{cells:?}"
            );
            let start = clock.started_unix_nanos().unwrap();
            assert_eq!(start / 1_000_000_000, 1_794_753_122);
        }
    }

    #[test]
    fn times_that_cannot_belong_to_the_recording_are_out_of_range() {
        let found = moments(None, &["1794753122", "5", "1e300", "1e13"]);
        assert_eq!(found[1..], [ParsedTime::OutOfRange; 3]);
        assert_eq!(
            moments(None, &["1", "2026-11-15 00:00:00"])[1],
            ParsedTime::OutOfRange
        );
    }
}
