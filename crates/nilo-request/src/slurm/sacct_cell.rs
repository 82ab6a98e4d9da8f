//! Cells of `sacct`: sizes, times, states, exit codes.

use nilo_sample::units::{GIB, KIB, MIB, TIB};

/// What a size is for, by the letter behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Per {
    /// The job, as Slurm from 21.08 writes it.
    Job,
    /// `n`: each node.
    Node,
    /// `c`: each CPU.
    Cpu,
}

/// `1086364K`, `10.50M`, `4Gn`, `4000Mc`; a number alone counts in `bare_unit`.
pub(crate) fn parse_size(text: &str, bare_unit: u64) -> Option<(u64, Per)> {
    let (text, per) = match text.as_bytes().last()? {
        b'n' => (&text[..text.len() - 1], Per::Node),
        b'c' => (&text[..text.len() - 1], Per::Cpu),
        _ => (text, Per::Job),
    };
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let unit = match &text[end..] {
        "" => bare_unit,
        "K" => KIB,
        "M" => MIB,
        "G" => GIB,
        "T" => TIB,
        "P" => 1 << 50,
        _ => return None,
    };
    let bytes = number * unit as f64;
    (bytes < (1u64 << 62) as f64).then_some((bytes as u64, per))
}

/// Seconds of `[D-]HH:MM:SS` or `MM:SS`, fractions cut.
pub(crate) fn parse_elapsed_secs(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (digits(days)?, clock),
        None => (0, text),
    };
    let clock = clock.split_once('.').map_or(clock, |(whole, _)| whole);
    let parts: Option<Vec<u64>> = clock.split(':').map(digits).collect();
    let secs = match parts?[..] {
        [hours, minutes, seconds] => hours * 3600 + minutes * 60 + seconds,
        [minutes, seconds] => minutes * 60 + seconds,
        _ => return None,
    };
    Some(days * 86_400 + secs)
}

/// At most eight digits and nothing else.
fn digits(text: &str) -> Option<u64> {
    let good = (1..=8).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    good.then(|| text.parse().ok()).flatten()
}

/// `0:125` as exit code and signal.
pub(crate) fn parse_exit(text: &str) -> Option<(u32, u32)> {
    let (code, signal) = text.split_once(':')?;
    Some((code.parse().ok()?, signal.parse().ok()?))
}

/// States as `sacct` writes them.
const STATES: [&str; 13] = [
    "COMPLETED",
    "FAILED",
    "OUT_OF_MEMORY",
    "TIMEOUT",
    "CANCELLED",
    "RUNNING",
    "PENDING",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "REQUEUED",
    "SUSPENDED",
];

/// The state in one word: `CANCELLED by 0` and the `OUT_OF_ME+` of a narrow column are made whole.
pub(crate) fn parse_state(text: &str) -> String {
    let word = text.split_whitespace().next().unwrap_or_default();
    let Some(cut) = word.strip_suffix('+') else {
        return word.to_owned();
    };
    let whole = STATES.iter().find(|state| state.starts_with(cut));
    whole.map_or(cut, |whole| whole).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_every_version_are_read() {
        for (text, bytes, per) in [
            ("1086364K", 1_086_364 * KIB, Per::Job),
            ("10.50M", 11_010_048, Per::Job),
            ("600M", 600 * MIB, Per::Job),
            ("4Gn", 4 * GIB, Per::Node),
            ("4000Mc", 4000 * MIB, Per::Cpu),
            ("0", 0, Per::Job),
            ("2T", 2 * TIB, Per::Job),
        ] {
            assert_eq!(parse_size(text, 1), Some((bytes, per)), "{text}");
        }
        assert_eq!(parse_size("4000", MIB), Some((4000 * MIB, Per::Job)));
        for text in [
            "",
            "n",
            "12Q",
            "M",
            "-5K",
            "1e9",
            "é",
            "99999999999P",
            "1.2.3M",
        ] {
            assert_eq!(parse_size(text, 1), None, "{text}");
        }
    }

    #[test]
    fn times_with_and_without_days_are_read() {
        assert_eq!(parse_elapsed_secs("00:01:07"), Some(67));
        assert_eq!(parse_elapsed_secs("2-03:00:00"), Some(183_600));
        assert_eq!(parse_elapsed_secs("01:02.345"), Some(62));
        for text in [
            "",
            "UNLIMITED",
            "365-00:00+",
            "1:2:3:4",
            "a:b:c",
            "999999999:0:0",
        ] {
            assert_eq!(parse_elapsed_secs(text), None, "{text}");
        }
    }

    #[test]
    fn cut_states_are_made_whole() {
        assert_eq!(parse_state("OUT_OF_ME+"), "OUT_OF_MEMORY");
        assert_eq!(parse_state("CANCELLED by 1000"), "CANCELLED");
        assert_eq!(parse_state("CANCELLED+"), "CANCELLED");
        assert_eq!(parse_state("WHATEVER+"), "WHATEVER");
        assert_eq!(parse_state(""), "");
    }
}
