//! Values as they are typed: intervals, durations, planned times, tags.

use nilo_sample::units::{NANOS_PER_SEC, parse_duration};

pub(crate) use nilo_settings::parse_interval as interval;

pub(crate) fn duration(text: &str) -> Result<u64, String> {
    match parse_duration(text).map_err(|error| error.to_string())? {
        0 => Err("must be longer than zero".to_owned()),
        nanos => Ok(nanos),
    }
}

/// `12:00:00`, `2-00:00:00` or a duration with its unit. A number alone is refused: to Slurm it is minutes, to us seconds.
pub(crate) fn planned_time(text: &str) -> Result<u64, String> {
    let wrong = || "write it as HH:MM:SS, D-HH:MM:SS or with a unit such as 90m or 12h".to_owned();
    if !text.contains(':') {
        let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
        return if has_unit {
            duration(text)
        } else {
            Err(wrong())
        };
    }
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let number = |text: &str| match text.len() {
        1..=5 => text.parse::<u64>().map_err(|_| wrong()),
        _ => Err(wrong()),
    };
    let parts: Vec<u64> = clock.split(':').map(number).collect::<Result<_, _>>()?;
    let [hours, minutes, seconds] = parts[..] else {
        return Err(wrong());
    };
    // Slurm takes more than 24 hours without days, and nothing beyond the clock otherwise.
    if minutes > 59 || seconds > 59 || (text.contains('-') && hours > 23) {
        return Err(wrong());
    }
    match ((number(days)? * 24 + hours) * 60 + minutes) * 60 + seconds {
        0 => Err("must be longer than zero".to_owned()),
        secs => Ok(secs * NANOS_PER_SEC),
    }
}

/// A threshold in percent. Below 1 it is a fraction, as in Python: nobody warns at less than one percent.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match value > 0.0 && value < 1.0 {
        true => Ok(100.0 * value),
        false => Ok(value),
    }
}

pub(crate) fn tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.to_owned()))
        }
        _ => Err("write it as key=value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planned_times_are_read_as_schedulers_write_them() {
        for (text, secs) in [
            ("00:10:00", 600),
            ("12:00:00", 43_200),
            ("2-00:00:30", 172_830),
            ("90m", 5400),
            ("1.5h", 5400),
        ] {
            assert_eq!(planned_time(text), Ok(secs * NANOS_PER_SEC), "{text}");
        }
        for text in [
            "",
            "90",
            "10:00",
            "a:b:c",
            "1:2:3:4",
            "0:0:0",
            "-1:00:00",
            "999999:00:00",
            "x-1:0:0",
            "25:99:99",
            "1:00:60",
            "1-24:00:00",
        ] {
            assert!(planned_time(text).is_err(), "{text}");
        }
    }
}
