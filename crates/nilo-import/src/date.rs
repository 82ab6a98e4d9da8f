//! Dates and clock times as text: ISO 8601 and the way nvidia-smi and loggers write it.

use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Nanoseconds since 1970 of `2026-11-15T08:15:30.417Z`; also with a space, slashes, a comma before the fraction, an offset.
///
/// A date without a zone is taken as UTC: within one file only differences count.
pub(crate) fn parse_date(text: &str) -> Option<i128> {
    let (date, rest) = text.split_at_checked(10)?;
    let separator = *date.as_bytes().get(4)?;
    if !matches!(separator, b'-' | b'/') || date.as_bytes()[7] != separator {
        return None;
    }
    let year = digits(date.get(..4)?)?.try_into().ok()?;
    let month = digits(date.get(5..7)?)?.try_into().ok()?;
    let day = digits(date.get(8..10)?)?.try_into().ok()?;
    let date = Date::new(year, month, day).ok()?;
    let rest = rest.strip_prefix(['T', 't', ' '])?.trim();
    let (clock, offset_secs) = split_offset(rest)?;
    let in_day = parse_clock(clock)?;
    let midnight = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
    let offset = i128::from(offset_secs) * 1_000_000_000;
    Some(midnight.as_nanosecond() - offset + in_day)
}

/// Nanoseconds of `8:15:30.417`, also with days in front as schedulers write them: `1-08:15:30`.
pub(crate) fn parse_clock(text: &str) -> Option<i128> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (digits(days)?, clock),
        None => (0, text),
    };
    let (clock, fraction) = match clock.split_once(['.', ',']) {
        Some((clock, fraction)) => (clock, fraction_nanos(fraction)?),
        None => (clock, 0),
    };
    let mut parts = clock.split(':');
    let (hours, minutes, seconds) = (
        digits(parts.next()?)?,
        digits(parts.next()?)?,
        digits(parts.next()?)?,
    );
    // 60 is a leap second.
    if parts.next().is_some() || minutes > 59 || seconds > 60 {
        return None;
    }
    let secs = ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
    Some(i128::from(secs) * 1_000_000_000 + i128::from(fraction))
}

/// Splits `08:15:30+01:00` into the clock and the seconds that it is ahead of UTC.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock.trim_end(), 0));
    }
    if let Some(clock) = text.strip_suffix("UTC") {
        return Some((clock.trim_end(), 0));
    }
    let Some(place) = text.rfind(['+', '-']) else {
        return Some((text, 0));
    };
    let offset = text[place + 1..].replace(':', "");
    let (hours, minutes) = match offset.len() {
        2 => (digits(&offset)?, 0),
        4 => (digits(&offset[..2])?, digits(&offset[2..])?),
        _ => return None,
    };
    let secs = hours * 3600 + minutes * 60;
    let signed = if text[place..].starts_with('-') {
        -secs
    } else {
        secs
    };
    Some((text[..place].trim_end(), signed))
}

/// At most six digits and nothing else.
fn digits(text: &str) -> Option<i64> {
    let good = !text.is_empty() && text.len() <= 6 && text.bytes().all(|b| b.is_ascii_digit());
    good.then(|| text.parse().ok()).flatten()
}

/// `417` behind the point is 417 000 000 nanoseconds; more than nine digits are cut.
fn fraction_nanos(text: &str) -> Option<i64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let kept = &text[..text.len().min(9)];
    let scale = 10i64.pow(9 - kept.len() as u32);
    Some(kept.parse::<i64>().ok()? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i128 = 1_000_000_000;

    #[test]
    fn known_dates() {
        for (text, nanos) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29 00:00:00", 951_782_400 * SECOND),
            ("2026/11/15 07:55:30.417", 1_794_729_330_417_000_000),
            ("2026-11-15T08:55:30,417+01:00", 1_794_729_330_417_000_000),
            ("2026-11-15 00:55:30.417-0700", 1_794_729_330_417_000_000),
            ("2026-11-15 07:55:30 UTC", 1_794_729_330 * SECOND),
        ] {
            assert_eq!(parse_date(text), Some(nanos), "{text}");
        }
    }

    #[test]
    fn clock_times_count_from_midnight_or_from_the_start() {
        assert_eq!(parse_clock("0:01:30"), Some(90 * SECOND));
        assert_eq!(
            parse_clock("1-00:00:01.5"),
            Some(86_401 * SECOND + SECOND / 2)
        );
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "2026-11-15",
            "2026-13-01 00:00:00",
            "2026-02-30 00:00:00",
            "2026-11/15 00:00:00",
            "20261115T000000",
            "2026-11-15T00:00",
            "2026-11-15T00:61:00",
            "2026-11-15T0a:00:00",
            "ééééééééééé",
            "2026-11-15T00:00:00+1",
            "99999999:00:00",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
            assert_eq!(parse_clock(text), None, "{text}");
        }
    }
}
