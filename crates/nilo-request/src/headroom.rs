//! From the peaks of several runs to the memory that the next one needs.
//!
//! One run: a quarter more. Two: a fifth more than the larger.
//! From three on the spread is known: the largest and a tenth, or the upper end of a 95/95 tolerance interval, whichever is more,
//! and never more than half above the largest.

use schemars::JsonSchema;
use serde::Serialize;

use crate::tolerance::tolerance_factor;

/// How far a recommendation carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// The need was never seen.
    Guess,
    /// Seen in one or two runs.
    Low,
    /// Seen in three runs or more.
    Medium,
    /// Seen in eight runs or more that hardly differ.
    High,
}

impl Confidence {
    /// The word used on the screen and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Confidence::Guess => "guess",
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

/// Runs of this many are enough for high confidence, if they differ by less than [`CLOSE_RATIO`].
const MANY_RUNS: usize = 8;
const CLOSE_RATIO: f64 = 0.05;

/// What the peaks of whole runs call for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Headroom {
    pub(crate) bytes: f64,
    pub(crate) confidence: Confidence,
    /// The rule in words.
    pub(crate) rule: String,
}

/// What to ask for by the peaks of runs; `None` without any.
pub(crate) fn headroom(peaks: &[f64]) -> Option<Headroom> {
    let largest = peaks.iter().copied().reduce(f64::max)?;
    let smallest = peaks.iter().copied().fold(largest, f64::min);
    let count = peaks.len() as f64;
    let (bytes, confidence, rule) = match peaks.len() {
        1 => (
            1.25 * largest,
            Confidence::Low,
            "25 % above the only peak".to_owned(),
        ),
        2 => (
            1.20 * largest,
            Confidence::Low,
            "20 % above the larger of two peaks".to_owned(),
        ),
        runs => {
            let mean = peaks.iter().sum::<f64>() / count;
            let squares: f64 = peaks.iter().map(|peak| (peak - mean).powi(2)).sum();
            let deviation = (squares / (count - 1.0)).sqrt();
            let factor = tolerance_factor(runs).unwrap_or(0.0);
            let tolerance = mean + factor * deviation;
            let confidence = match (largest - smallest) / largest {
                spread if runs >= MANY_RUNS && spread < CLOSE_RATIO => Confidence::High,
                _ => Confidence::Medium,
            };
            match tolerance {
                bound if bound <= 1.10 * largest => (
                    1.10 * largest,
                    confidence,
                    format!("10 % above the largest of {runs} peaks"),
                ),
                bound if bound <= 1.50 * largest => (
                    bound,
                    confidence,
                    format!(
                        "mean of {runs} peaks and {factor:.2} standard deviations: covers 95 % of runs with 95 % confidence"
                    ),
                ),
                _ => (
                    1.50 * largest,
                    confidence,
                    format!("50 % above the largest of {runs} peaks, which differ widely"),
                ),
            }
        }
    };
    Some(Headroom {
        bytes,
        confidence,
        rule,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_answers() {
        let bytes = |peaks: &[f64]| headroom(peaks).unwrap().bytes;
        assert_eq!(bytes(&[100.0]), 125.0);
        assert_eq!(bytes(&[100.0, 90.0]), 120.0);
        assert!((bytes(&[100.0, 100.0, 100.0]) - 110.0).abs() < 1e-9);
        // Mean 100, deviation 1: 100 + 7.656.
        assert!((bytes(&[99.0, 100.0, 101.0]) - 111.1).abs() < 1e-9);
        // Mean 100, deviation 4: 130.6.
        assert!((bytes(&[96.0, 100.0, 104.0]) - 130.624).abs() < 1e-3);
        assert_eq!(bytes(&[20.0, 60.0, 100.0]), 150.0);
        assert_eq!(headroom(&[]), None);
    }

    #[test]
    fn confidence_grows_with_runs_that_agree() {
        let confidence = |peaks: &[f64]| headroom(peaks).unwrap().confidence;
        assert_eq!(confidence(&[1.0; 1]), Confidence::Low);
        assert_eq!(confidence(&[1.0; 2]), Confidence::Low);
        assert_eq!(confidence(&[1.0; 3]), Confidence::Medium);
        assert_eq!(confidence(&[1.0; 8]), Confidence::High);
        let mut spread = [100.0; 8];
        spread[0] = 94.0;
        assert_eq!(confidence(&spread), Confidence::Medium);
    }

    proptest! {
        #[test]
        fn it_is_above_every_peak_and_at_most_half_more(peaks in prop::collection::vec(1.0..1e12f64, 1..40)) {
            let largest = peaks.iter().copied().fold(0.0, f64::max);
            let found = headroom(&peaks).unwrap().bytes;
            prop_assert!(found > largest && found <= 1.5 * largest + 1.0);
        }

        #[test]
        fn doubling_the_peaks_doubles_it(peaks in prop::collection::vec(1.0..1e12f64, 1..40)) {
            let doubled: Vec<f64> = peaks.iter().map(|peak| 2.0 * peak).collect();
            let (one, two) = (headroom(&peaks).unwrap().bytes, headroom(&doubled).unwrap().bytes);
            prop_assert!((two / one - 2.0).abs() < 1e-9);
        }
    }
}
