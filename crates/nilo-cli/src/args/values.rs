//! Values as they are typed: intervals, durations, planned times, tags.

use clap::builder::{OsStringValueParser, TypedValueParser};
use nilo_sample::printable::text_of_bytes;
use nilo_sample::units::{NANOS_PER_SEC, parse_duration};

pub(crate) use nilo_settings::parse_interval as interval;

/// A text that is recorded or looked for in recordings. Bytes that are not UTF-8 are written as Python writes them (`\udcff`):
/// a job whose name or mark comes from such a file name is recorded all the same.
pub(crate) fn recorded_text() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|given| text_of_bytes(given.as_encoded_bytes()).into_owned())
}

pub(crate) fn duration(text: &str) -> Result<u64, String> {
    match parse_duration(text).map_err(|error| error.to_string())? {
        0 => Err("must be longer than zero".to_owned()),
        nanos => Ok(nanos),
    }
}

/// How old something is.
pub(crate) fn age(text: &str) -> Result<u64, String> {
    parse_duration(text).map_err(|_| "not a length of time (examples: 12h, 30d)".to_owned())
}

/// `12:00:00`, `2-00:00:00` or a duration with its unit. A number alone is refused: to Slurm it is minutes, to us seconds.
pub(crate) fn planned_time(text: &str) -> Result<u64, String> {
    let wrong = || {
        "write it as HH:MM:SS, D-HH:MM:SS or with a unit (examples: 12:00:00, 2-00:00:00, 90m, 12h)"
            .to_owned()
    };
    if !text.contains(':') {
        let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
        return match has_unit && parse_duration(text).is_ok() {
            true => duration(text),
            false => Err(wrong()),
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
    let value: f64 = text
        .parse()
        .map_err(|_| "not a percentage or fraction (examples: 85, 0.85)".to_owned())?;
    match value > 0.0 && value < 1.0 {
        true => Ok(100.0 * value),
        false => Ok(value),
    }
}

/// A whole number between two others, both included.
pub(crate) fn number<T: TryFrom<u64>, const LEAST: u64, const MOST: u64>(
    text: &str,
) -> Result<T, String> {
    let wrong = || match (LEAST, MOST) {
        (0, u64::MAX) => "not a whole number".to_owned(),
        (least, MAX_ID) => format!("not a whole number of at least {least}"),
        (least, most) => format!("not a whole number from {least} to {most}"),
    };
    let value: u64 = text.parse().map_err(|_| wrong())?;
    match (LEAST..=MOST).contains(&value) {
        true => T::try_from(value).map_err(|_| wrong()),
        false => Err(wrong()),
    }
}

/// The largest process ID, GPU index or size of a vocabulary that can be written down.
pub(crate) const MAX_ID: u64 = u32::MAX as u64;

/// A process ID.
pub(crate) fn pid(text: &str) -> Result<u32, String> {
    number::<u32, 1, MAX_ID>(text).map_err(|_| "not a process ID (example: 4711)".to_owned())
}

/// The index of a GPU.
pub(crate) fn gpu_index(text: &str) -> Result<u32, String> {
    number::<u32, 0, MAX_ID>(text).map_err(|_| "not the index of a GPU (example: 0)".to_owned())
}

/// Mebibytes, zero or more.
pub(crate) fn mebibytes(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if value >= 0.0 && f64::is_finite(value) => Ok(value),
        _ => Err("not a number of MiB (example: 100)".to_owned()),
    }
}

/// The name of a run: any text that does not mean another run.
/// The name of a new run.
pub(crate) fn run_name() -> impl TypedValueParser<Value = String> {
    recorded_text().try_map(|name| match nilo_runfile::find::refuse_name(&name) {
        Some(why) => Err(why),
        None => Ok(name),
    })
}

pub(crate) fn tag() -> impl TypedValueParser<Value = (String, String)> {
    recorded_text().try_map(|text| match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.to_owned()))
        }
        _ => Err("write it as KEY=VALUE (example: lr=3e-4)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_numbers_are_refused_in_plain_words() {
        assert_eq!(number::<u32, 1, 65536>("8"), Ok(8));
        for text in ["0", "65537", "x", "-1", "1.5", ""] {
            let told = number::<u32, 1, 65536>(text);
            assert_eq!(told, Err("not a whole number from 1 to 65536".to_owned()));
        }
        assert_eq!(
            number::<u32, 1, MAX_ID>("4294967296"),
            Err("not a whole number of at least 1".to_owned())
        );
        assert_eq!(
            number::<usize, 0, { u64::MAX }>("-1"),
            Err("not a whole number".to_owned())
        );
        assert_eq!(pid("4711"), Ok(4711));
        for text in ["abc", "0", "-3"] {
            assert_eq!(
                pid(text),
                Err("not a process ID (example: 4711)".to_owned())
            );
            assert!(mebibytes(text).is_err() || text == "0");
        }
        assert_eq!(gpu_index("0"), Ok(0));
        assert!(gpu_index("all").is_err());
    }

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
