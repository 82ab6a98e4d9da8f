//! Which traces are drawn: seeds for tuning and seeds for reporting never meet.

use std::ops::RangeInclusive;
use std::str::FromStr;

use thiserror::Error;

/// Seeds that a forecaster may be tuned on.
pub const TUNING_FROM: u64 = 1_000;
/// Seeds of published figures; nobody looks at these traces while tuning.
pub const REPORTING_FROM: u64 = 1_000_000;

/// A choice of seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seeds {
    /// The first few from [`TUNING_FROM`].
    Tuning,
    /// The first few from [`REPORTING_FROM`].
    Reporting,
    /// From one to another, both included.
    Range(u64, u64),
}

/// Why a choice of seeds is none.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SeedsError {
    /// Neither a name nor a range.
    #[error("seeds are tuning, reporting or FROM-TO, such as 1-20, not {text}")]
    Unknown {
        /// What was given.
        text: String,
    },
    /// The end lies before the beginning.
    #[error("the range {text} holds no seed: it ends before it begins")]
    Empty {
        /// What was given.
        text: String,
    },
}

impl FromStr for Seeds {
    type Err = SeedsError;

    fn from_str(text: &str) -> Result<Self, SeedsError> {
        match text {
            "tuning" => return Ok(Self::Tuning),
            "reporting" => return Ok(Self::Reporting),
            _ => {}
        }
        let unknown = || SeedsError::Unknown {
            text: text.to_string(),
        };
        let (from, to) = text.split_once('-').ok_or_else(unknown)?;
        let from = from.parse().map_err(|_| unknown())?;
        let to = to.parse().map_err(|_| unknown())?;
        if to < from {
            return Err(SeedsError::Empty {
                text: text.to_string(),
            });
        }
        Ok(Self::Range(from, to))
    }
}

impl Seeds {
    /// The seeds for each shape; a range given as such is taken whole.
    pub fn for_each_shape(self, traces_per_shape: u64) -> RangeInclusive<u64> {
        match self {
            Self::Tuning => TUNING_FROM..=TUNING_FROM + traces_per_shape - 1,
            Self::Reporting => REPORTING_FROM..=REPORTING_FROM + traces_per_shape - 1,
            Self::Range(from, to) => from..=to,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ranges_are_seeds_and_nothing_else_is() {
        assert_eq!("tuning".parse(), Ok(Seeds::Tuning));
        assert_eq!("3-9".parse(), Ok(Seeds::Range(3, 9)));
        for text in ["", "7", "a-b", "-3", "1-", "training"] {
            assert!(
                matches!(text.parse::<Seeds>(), Err(SeedsError::Unknown { .. })),
                "{text}"
            );
        }
        assert!(matches!(
            "9-3".parse::<Seeds>(),
            Err(SeedsError::Empty { .. })
        ));
    }

    #[test]
    fn tuning_and_reporting_have_no_seed_in_common() {
        let tuning = Seeds::Tuning.for_each_shape(100_000);
        let reporting = Seeds::Reporting.for_each_shape(100_000);
        assert!(tuning.end() < reporting.start());
    }
}
