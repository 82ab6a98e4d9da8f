//! What the caller may say when names and units do not speak for themselves, and how much is read at most.

use std::str::FromStr;

use nilo_sample::units::{GIB, KIB, MIB, TIB};
use thiserror::Error;

/// How a file is to be read.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// The column with the times; found by its name when not given.
    pub time_column: Option<String>,
    /// The columns with memory; found by their names when none is given.
    pub columns: Vec<String>,
    /// The unit of every memory column, whatever its name says.
    pub unit: Option<ByteUnit>,
    /// What a hundred percent are, for columns that hold percentages.
    pub total_bytes: Option<u64>,
    /// Files longer than this are refused.
    pub most_bytes: u64,
    /// Files with more rows than this are refused: each takes 8 bytes for its time and 8 for each column.
    pub most_rows: usize,
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        ImportOptions {
            time_column: None,
            columns: Vec::new(),
            unit: None,
            total_bytes: None,
            most_bytes: 2 * GIB,
            most_rows: 20_000_000,
        }
    }
}

/// A unit of memory. All are binary: under `mb`, tools of this trade mean 2^20 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteUnit {
    /// Bytes.
    Bytes,
    /// 2^10 bytes.
    Kib,
    /// 2^20 bytes.
    Mib,
    /// 2^30 bytes.
    Gib,
    /// 2^40 bytes.
    Tib,
}

impl ByteUnit {
    /// The bytes in one of it.
    pub fn bytes(self) -> f64 {
        match self {
            ByteUnit::Bytes => 1.0,
            ByteUnit::Kib => KIB as f64,
            ByteUnit::Mib => MIB as f64,
            ByteUnit::Gib => GIB as f64,
            ByteUnit::Tib => TIB as f64,
        }
    }

    /// By its name in any case; a single letter is not enough.
    pub(crate) fn by_name(name: &str) -> Option<ByteUnit> {
        let units = [
            (ByteUnit::Bytes, ["byte", "bytes"]),
            (ByteUnit::Kib, ["kb", "kib"]),
            (ByteUnit::Mib, ["mb", "mib"]),
            (ByteUnit::Gib, ["gb", "gib"]),
            (ByteUnit::Tib, ["tb", "tib"]),
        ];
        let named = |(_, names): &(ByteUnit, [&str; 2])| {
            names.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        units.into_iter().find(named).map(|(unit, _)| unit)
    }

    /// The same, and single letters: behind a number or as a setting they are clear enough.
    pub(crate) fn by_short_name(name: &str) -> Option<ByteUnit> {
        match name {
            "b" | "B" => Some(ByteUnit::Bytes),
            "k" | "K" | "ki" | "Ki" => Some(ByteUnit::Kib),
            "m" | "M" | "mi" | "Mi" => Some(ByteUnit::Mib),
            "g" | "G" | "gi" | "Gi" => Some(ByteUnit::Gib),
            "t" | "T" | "ti" | "Ti" => Some(ByteUnit::Tib),
            _ => ByteUnit::by_name(name),
        }
    }
}

/// A word that names no unit.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("not a unit of memory: {text:?} (known: bytes, kb, mb, gb, tb)")]
pub struct UnknownUnit {
    /// What was given.
    pub text: String,
}

impl FromStr for ByteUnit {
    type Err = UnknownUnit;

    fn from_str(text: &str) -> Result<ByteUnit, UnknownUnit> {
        ByteUnit::by_short_name(text.trim()).ok_or_else(|| UnknownUnit {
            text: text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_binary_by_any_of_their_names() {
        for (text, bytes) in [
            ("bytes", 1.0),
            ("kB", 1024.0),
            ("MiB", 1048576.0),
            ("mb", 1048576.0),
            ("G", 1073741824.0),
        ] {
            assert_eq!(text.parse::<ByteUnit>().unwrap().bytes(), bytes, "{text}");
        }
        assert!("mbit".parse::<ByteUnit>().is_err());
        assert_eq!(ByteUnit::by_name("m"), None);
    }
}
