//! Whether scores have moved away from how they began: population stability index and Kolmogorov–Smirnov distance.

use std::collections::VecDeque;

use serde::Serialize;

use super::moments::{finite_sorted, quantile, share};

/// Up to so many different scores each one is a bin of its own; beyond that, bins are tenths of the beginning.
const FEW_VALUES: usize = 20;

/// How the newest scores differ from the first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drift {
    /// Updates that make up the beginning.
    pub reference_updates: usize,
    /// Valid scores of the beginning.
    pub reference_scores: usize,
    /// Updates compared with it: the newest ones after the beginning.
    pub current_updates: usize,
    /// Valid scores compared with it.
    pub current_scores: usize,
    /// Population stability index: Σ (p − q) · ln(p / q) over bins, each bin's count raised by one half so that no logarithm is infinite.
    ///
    /// By custom, below 0.1 is steady and above 0.25 is a shift.
    pub psi: Option<f64>,
    /// The largest distance between the two cumulative distributions.
    pub ks: Option<f64>,
    /// What `ks` exceeds in one of twenty cases by chance alone, for large samples: 1.358 · √((n + m) / (n · m)).
    pub ks_critical: Option<f64>,
    /// Share of invalid scores at the beginning.
    pub reference_invalid_rate: Option<f64>,
    /// Share of invalid scores now.
    pub current_invalid_rate: Option<f64>,
}

/// Scores of one update, and how many were invalid.
#[derive(Debug, Clone, Default)]
struct ScoreBatch {
    valid: Vec<f64>,
    invalid: usize,
}

/// The first updates and the newest.
#[derive(Debug, Clone)]
pub struct DriftMonitor {
    updates: usize,
    reference: VecDeque<ScoreBatch>,
    current: VecDeque<ScoreBatch>,
}

impl DriftMonitor {
    /// Compares the newest `updates` updates with the first as many.
    pub fn new(updates: usize) -> Self {
        Self {
            updates: updates.max(1),
            reference: VecDeque::new(),
            current: VecDeque::new(),
        }
    }

    /// Takes in one update.
    pub fn push(&mut self, valid: &[f64], invalid: usize) {
        let batch = ScoreBatch {
            valid: valid.to_vec(),
            invalid,
        };
        if self.reference.len() < self.updates {
            self.reference.push_back(batch);
            return;
        }
        if self.current.len() == self.updates {
            self.current.pop_front();
        }
        self.current.push_back(batch);
    }

    /// The comparison; `None` until the beginning is over.
    pub fn summary(&self) -> Option<Drift> {
        if self.current.is_empty() {
            return None;
        }
        let scores = |batches: &VecDeque<ScoreBatch>| {
            let all: Vec<f64> = batches.iter().flat_map(|b| b.valid.clone()).collect();
            finite_sorted(&all)
        };
        let invalid_rate = |batches: &VecDeque<ScoreBatch>, valid: usize| {
            let invalid: usize = batches.iter().map(|batch| batch.invalid).sum();
            share(invalid, invalid + valid)
        };
        let (reference, current) = (scores(&self.reference), scores(&self.current));
        let (n, m) = (reference.len() as f64, current.len() as f64);
        let both = n > 0.0 && m > 0.0;
        Some(Drift {
            reference_updates: self.reference.len(),
            reference_scores: reference.len(),
            current_updates: self.current.len(),
            current_scores: current.len(),
            psi: both.then(|| stability_index(&reference, &current)),
            ks: both.then(|| largest_distance(&reference, &current)),
            ks_critical: both.then(|| 1.358 * ((n + m) / (n * m)).sqrt()),
            reference_invalid_rate: invalid_rate(&self.reference, reference.len()),
            current_invalid_rate: invalid_rate(&self.current, current.len()),
        })
    }
}

/// The population stability index of two ascending samples.
pub fn stability_index(reference: &[f64], current: &[f64]) -> f64 {
    let edges = bin_edges(reference, current);
    let bins = (edges.len() + 1) as f64;
    let shares = |sample: &[f64]| {
        let mut counts = vec![0.5; edges.len() + 1];
        for score in sample {
            counts[edges.partition_point(|edge| edge <= score)] += 1.0;
        }
        let total = sample.len() as f64 + 0.5 * bins;
        counts.into_iter().map(move |count| count / total)
    };
    shares(reference)
        .zip(shares(current))
        .map(|(before, now)| (now - before) * (now / before).ln())
        .sum()
}

/// The values at which a next bin begins.
fn bin_edges(reference: &[f64], current: &[f64]) -> Vec<f64> {
    let mut distinct = [reference, current].concat();
    distinct.sort_unstable_by(f64::total_cmp);
    distinct.dedup();
    if distinct.len() <= FEW_VALUES {
        return distinct.split_off(1.min(distinct.len()));
    }
    let mut edges: Vec<f64> = (1..10)
        .filter_map(|tenth| quantile(reference, f64::from(tenth) / 10.0))
        .collect();
    edges.dedup();
    edges
}

/// The two-sample Kolmogorov–Smirnov statistic of two ascending samples.
pub fn largest_distance(reference: &[f64], current: &[f64]) -> f64 {
    let at_most = |sample: &[f64], score: f64| {
        sample.partition_point(|other| *other <= score) as f64 / sample.len() as f64
    };
    reference
        .iter()
        .chain(current)
        .map(|score| (at_most(reference, *score) - at_most(current, *score)).abs())
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_that_stay_do_not_drift() {
        let mut watch = DriftMonitor::new(2);
        for _ in 0..2 {
            watch.push(&[0.0, 0.5, 1.0], 1);
            assert_eq!(watch.summary(), None);
        }
        watch.push(&[0.0, 0.5, 1.0], 1);
        watch.push(&[0.0, 0.5, 1.0], 1);
        let drift = watch.summary().unwrap();
        assert_eq!((drift.psi, drift.ks), (Some(0.0), Some(0.0)));
        assert_eq!(drift.current_invalid_rate, Some(0.25));
    }

    #[test]
    fn a_shift_by_hand() {
        // Zeros and ones 3 : 1 before, 1 : 3 now: 3.5/5 and 1.5/5 against the reverse.
        let (before, now) = ([0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 1.0]);
        let expected = 2.0 * 0.4 * (3.5f64 / 1.5).ln();
        assert!((stability_index(&before, &now) - expected).abs() < 1e-12);
        assert_eq!(largest_distance(&before, &now), 0.5);
    }

    #[test]
    fn only_the_newest_updates_are_compared_with_the_first() {
        let mut watch = DriftMonitor::new(1);
        for score in [0.0, 1.0, 0.0] {
            watch.push(&[score], 0);
        }
        let drift = watch.summary().unwrap();
        assert_eq!((drift.current_updates, drift.ks), (1, Some(0.0)));
    }

    #[test]
    fn many_different_scores_fall_into_tenths() {
        let before: Vec<f64> = (0..1024).map(|i| f64::from(i) / 1024.0).collect();
        let after: Vec<f64> = before.iter().map(|score| score + 0.5).collect();
        assert!(stability_index(&before, &before) < 1e-12);
        assert!(stability_index(&before, &after) > 0.25);
        assert!((largest_distance(&before, &after) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn updates_without_valid_scores_have_no_distance() {
        let mut watch = DriftMonitor::new(1);
        watch.push(&[], 3);
        watch.push(&[1.0], 0);
        let drift = watch.summary().unwrap();
        assert_eq!((drift.psi, drift.ks), (None, None));
        assert_eq!(drift.reference_invalid_rate, Some(1.0));
    }
}
