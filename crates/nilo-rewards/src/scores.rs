//! Scores that verifiers give: which ones how often, how many are invalid, and whether they drift.

use std::collections::BTreeMap;

use serde::Serialize;

use super::drift::{Drift, DriftMonitor};
use super::latency::{Latencies, Latency};
use super::moments::{finite, share};

/// What may be set about scores.
#[derive(Debug, Clone)]
pub struct ScoreSettings {
    /// Different scores that are counted one by one; with one more, counting goes on in bins.
    pub exact_values: usize,
    /// Bins between the smallest and the largest score seen when counting one by one ends.
    pub bins: usize,
    /// The newest so many updates are compared with the first so many.
    pub drift_updates: usize,
}

impl Default for ScoreSettings {
    fn default() -> Self {
        Self {
            exact_values: 1000,
            bins: 100,
            drift_updates: 10,
        }
    }
}

/// Scores counted in bins of equal width.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreBins {
    /// The smallest score of the first bin.
    pub low: f64,
    /// The largest score of the last bin.
    pub high: f64,
    /// Scores in each bin; one on an edge belongs to the bin above it, `high` to the last bin.
    pub counts: Vec<u64>,
    /// Scores below `low`, which was fixed when counting in bins began.
    pub below: u64,
    /// Scores above `high`.
    pub above: u64,
}

/// Everything about the scores so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreDistribution {
    /// Scores handed in.
    pub total: u64,
    /// Finite ones.
    pub valid_count: u64,
    /// Missing or infinite ones.
    pub invalid_count: u64,
    /// Infinite ones, which are invalid too.
    pub infinite_count: u64,
    /// Invalid scores as a part of all.
    pub invalid_rate: Option<f64>,
    /// Each score with its count, ascending; empty when counting has gone over to bins.
    pub score_counts: Vec<(f64, u64)>,
    /// Bins, from the moment there were too many different scores.
    pub score_bins: Option<ScoreBins>,
    /// Mean of the valid scores.
    pub mean_score: Option<f64>,
    /// Sample deviation of the valid scores.
    pub std_score: Option<f64>,
    /// The divisor of the deviation is the count less this.
    pub std_ddof: usize,
    /// Smallest valid score.
    pub min_score: Option<f64>,
    /// Largest valid score.
    pub max_score: Option<f64>,
    /// Verifications that ran out of time.
    pub timeout_count: u64,
    /// Timeouts as a part of all scores.
    pub timeout_rate: Option<f64>,
    /// Times by verifier.
    pub latency: BTreeMap<String, Latency>,
    /// The newest scores against the first; `None` until there are both.
    pub drift: Option<Drift>,
    /// Updates so far.
    pub updates: u64,
}

/// A score that can be a key: finite, with one zero.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ScoreKey(f64);

impl Eq for ScoreKey {}
impl PartialOrd for ScoreKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for ScoreKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A sum that carries what each addition rounds away (Neumaier's method).
#[derive(Debug, Clone, Copy, Default)]
struct ExactSum {
    sum: f64,
    lost: f64,
}

impl ExactSum {
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        self.lost += if self.sum.abs() >= value.abs() {
            (self.sum - sum) + value
        } else {
            (value - sum) + self.sum
        };
        self.sum = sum;
    }

    fn value(self) -> f64 {
        self.sum + self.lost
    }
}

/// Scores taken in update by update, in memory that does not grow with them.
#[derive(Debug, Clone)]
pub struct ScoreHistory {
    settings: ScoreSettings,
    counts: BTreeMap<ScoreKey, u64>,
    bins: Option<ScoreBins>,
    valid: u64,
    missing: u64,
    infinite: u64,
    timeouts: u64,
    updates: u64,
    sum: ExactSum,
    running_mean: f64,
    squares: f64,
    range: Option<(f64, f64)>,
    latencies: Latencies,
    drift: DriftMonitor,
}

impl Default for ScoreHistory {
    fn default() -> Self {
        Self::new(ScoreSettings::default())
    }
}

impl ScoreHistory {
    /// An empty history.
    pub fn new(settings: ScoreSettings) -> Self {
        let settings = ScoreSettings {
            exact_values: settings.exact_values,
            bins: settings.bins.max(1),
            drift_updates: settings.drift_updates.max(1),
        };
        Self {
            drift: DriftMonitor::new(settings.drift_updates),
            settings,
            counts: BTreeMap::new(),
            bins: None,
            valid: 0,
            missing: 0,
            infinite: 0,
            timeouts: 0,
            updates: 0,
            sum: ExactSum::default(),
            running_mean: 0.0,
            squares: 0.0,
            range: None,
            latencies: Latencies::default(),
        }
    }

    /// Takes in one batch of scores, NaN being invalid, and how many of them ran out of time.
    pub fn push(&mut self, scores: &[f64], timeouts: u64) {
        let valid: Vec<f64> = scores.iter().copied().filter(|s| s.is_finite()).collect();
        let infinite = scores.iter().filter(|score| score.is_infinite()).count();
        for score in &valid {
            // Adding zero turns -0.0 into 0.0.
            self.count(score + 0.0);
        }
        self.missing += (scores.len() - valid.len() - infinite) as u64;
        self.infinite += infinite as u64;
        self.timeouts += timeouts;
        self.updates += 1;
        self.drift.push(&valid, scores.len() - valid.len());
    }

    /// Takes in how long calls of one verifier took.
    pub fn push_latencies(&mut self, verifier: &str, latencies: &[f64]) {
        self.latencies.push(verifier, latencies);
    }

    /// Everything so far.
    pub fn distribution(&self) -> ScoreDistribution {
        let invalid = self.missing + self.infinite;
        let total = self.valid + invalid;
        let rate = |part: u64| share(part as usize, total as usize);
        let deviation = (self.squares / (self.valid as f64 - 1.0)).sqrt();
        ScoreDistribution {
            total,
            valid_count: self.valid,
            invalid_count: invalid,
            infinite_count: self.infinite,
            invalid_rate: rate(invalid),
            score_counts: self.counts.iter().map(|(key, n)| (key.0, *n)).collect(),
            score_bins: self.bins.clone(),
            mean_score: self.mean(),
            std_score: (self.valid > 1).then_some(deviation).and_then(finite),
            std_ddof: 1,
            min_score: self.range.map(|range| range.0),
            max_score: self.range.map(|range| range.1),
            timeout_count: self.timeouts,
            timeout_rate: rate(self.timeouts),
            latency: self.latencies.summary(),
            drift: self.drift.summary(),
            updates: self.updates,
        }
    }

    /// The mean from the sum, which loses no digits over millions of updates as the running mean does; that one stands in when the sum overflows.
    fn mean(&self) -> Option<f64> {
        let mean = finite(self.sum.value() / self.valid as f64);
        mean.or((self.valid > 0).then_some(self.running_mean))
            .and_then(finite)
    }

    /// Counts one score; squared distances from the mean are added up by Welford's method.
    fn count(&mut self, score: f64) {
        self.valid += 1;
        self.sum.add(score);
        let before = score - self.running_mean;
        self.running_mean += before / self.valid as f64;
        self.squares += before * (score - self.running_mean);
        let (low, high) = self.range.unwrap_or((score, score));
        self.range = Some((low.min(score), high.max(score)));
        if let Some(bins) = &mut self.bins {
            bins.count(score, 1);
            return;
        }
        *self.counts.entry(ScoreKey(score)).or_default() += 1;
        if self.counts.len() > self.settings.exact_values {
            self.bins = Some(self.fill_bins());
        }
    }

    fn fill_bins(&mut self) -> ScoreBins {
        let (low, high) = self.range.unwrap_or((0.0, 0.0));
        let mut bins = ScoreBins {
            low,
            high,
            counts: vec![0; self.settings.bins],
            below: 0,
            above: 0,
        };
        for (key, count) in std::mem::take(&mut self.counts) {
            bins.count(key.0, count);
        }
        bins
    }
}

impl ScoreBins {
    fn count(&mut self, score: f64, times: u64) {
        if score < self.low {
            self.below += times;
        } else if score > self.high {
            self.above += times;
        } else {
            // Divided before it is subtracted: the width of the widest range is no double.
            let bins = self.counts.len() as f64;
            let width = self.high / bins - self.low / bins;
            let place = (score / bins - self.low / bins) / width * bins;
            let last = self.counts.len() - 1;
            self.counts[(place as usize).min(last)] += times;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_five_scores_of_the_first_example() {
        let mut history = ScoreHistory::default();
        history.push(&[1.0, 0.5, f64::NAN, 1.0, 0.0], 0);
        let found = history.distribution();
        assert_eq!(
            (found.total, found.valid_count, found.invalid_count),
            (5, 4, 1)
        );
        assert_eq!(found.invalid_rate, Some(0.2));
        assert_eq!(found.score_counts, [(0.0, 1), (0.5, 1), (1.0, 2)]);
        assert_eq!(found.mean_score, Some(0.625));
        // Distances 0.375, 0.125, 0.375, 0.625 from the mean: squares add up to 0.6875.
        assert!((found.std_score.unwrap() - (0.6875f64 / 3.0).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn both_zeros_are_one_score_and_infinity_is_invalid() {
        let mut history = ScoreHistory::default();
        history.push(&[0.0, -0.0, f64::INFINITY], 1);
        let found = history.distribution();
        assert_eq!(found.score_counts, [(0.0, 2)]);
        assert_eq!((found.invalid_count, found.infinite_count), (1, 1));
        assert_eq!(found.timeout_rate, Some(1.0 / 3.0));
    }

    #[test]
    fn too_many_different_scores_go_into_bins_without_losing_one() {
        let mut history = ScoreHistory::new(ScoreSettings {
            exact_values: 10,
            bins: 5,
            ..ScoreSettings::default()
        });
        let scores: Vec<f64> = (0..=10).map(f64::from).collect();
        history.push(&scores, 0);
        history.push(&[-1.0, 10.0, 11.0, 2.0], 0);
        let found = history.distribution();
        assert!(found.score_counts.is_empty());
        let bins = found.score_bins.unwrap();
        assert_eq!((bins.low, bins.high), (0.0, 10.0));
        assert_eq!(bins.counts, [2, 3, 2, 2, 4]);
        assert_eq!((bins.below, bins.above), (1, 1));
    }

    #[test]
    fn the_mean_does_not_wander_off_over_many_updates() {
        let mut history = ScoreHistory::default();
        for _ in 0..10_000 {
            history.push(&[1.0, 0.5, f64::NAN, 1.0, 0.0], 0);
        }
        assert_eq!(history.distribution().mean_score, Some(0.625));
        let mut tenths = ScoreHistory::default();
        tenths.push(&[0.1; 1000], 0);
        assert_eq!(tenths.distribution().mean_score, Some(0.1));
    }

    #[test]
    fn nothing_seen_is_no_rate() {
        let found = ScoreHistory::default().distribution();
        assert_eq!(
            (found.total, found.invalid_rate, found.mean_score),
            (0, None, None)
        );
        assert_eq!(found.drift, None);
    }

    proptest! {
        #[test]
        fn every_score_is_counted_once_whatever_it_is(
            scores in prop::collection::vec(any::<f64>(), 0..60),
            exact_values in 0usize..20,
        ) {
            let mut history = ScoreHistory::new(ScoreSettings { exact_values, bins: 7, drift_updates: 2 });
            for batch in scores.chunks(5) {
                history.push(batch, 0);
            }
            let found = history.distribution();
            let exact: u64 = found.score_counts.iter().map(|(_, count)| count).sum();
            let binned = found.score_bins.map_or(0, |bins| bins.below + bins.above + bins.counts.iter().sum::<u64>());
            prop_assert_eq!(exact + binned, found.valid_count);
            prop_assert_eq!(found.total, scores.len() as u64);
        }
    }
}
