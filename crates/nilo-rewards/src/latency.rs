//! How long verifiers take: the number, the longest and the median and 99th percentile of the newest calls.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::moments::{finite_sorted, mean, quantile};

/// So many of the newest calls of each verifier give the percentiles: 80 kB, and enough for a hundred beyond the 99th.
const NEWEST_CALLS: usize = 10_000;

/// One verifier's calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Calls so far.
    pub count: u64,
    /// Mean of the newest calls.
    pub mean: Option<f64>,
    /// Median of the newest calls.
    pub p50: Option<f64>,
    /// 99 of 100 of the newest calls took no longer.
    pub p99: Option<f64>,
    /// The longest so far.
    pub max: Option<f64>,
}

#[derive(Debug, Clone, Default)]
struct Calls {
    newest: VecDeque<f64>,
    count: u64,
    max: Option<f64>,
}

/// Latencies by verifier, in the unit they were given in.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    verifiers: BTreeMap<String, Calls>,
}

impl Latencies {
    /// Takes in calls of one verifier; what is no finite time is left out.
    pub fn push(&mut self, verifier: &str, latencies: &[f64]) {
        let calls = match self.verifiers.get_mut(verifier) {
            Some(calls) => calls,
            None => self.verifiers.entry(verifier.to_owned()).or_default(),
        };
        for latency in latencies.iter().copied().filter(|l| l.is_finite()) {
            if calls.newest.len() == NEWEST_CALLS {
                calls.newest.pop_front();
            }
            calls.newest.push_back(latency);
            calls.count += 1;
            calls.max = Some(calls.max.unwrap_or(latency).max(latency));
        }
    }

    /// Each verifier's figures.
    pub fn summary(&self) -> BTreeMap<String, Latency> {
        let describe = |calls: &Calls| {
            let newest: Vec<f64> = calls.newest.iter().copied().collect();
            let sorted = finite_sorted(&newest);
            Latency {
                count: calls.count,
                mean: mean(&sorted),
                p50: quantile(&sorted, 0.5),
                p99: quantile(&sorted, 0.99),
                max: calls.max,
            }
        };
        self.verifiers
            .iter()
            .map(|(name, calls)| (name.clone(), describe(calls)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verifier_has_its_own_percentiles() {
        let mut latencies = Latencies::default();
        let hundred: Vec<f64> = (0..=100).map(f64::from).collect();
        latencies.push("lean", &hundred);
        latencies.push("python", &[0.25, f64::NAN]);
        let summary = latencies.summary();
        assert_eq!(summary["lean"].p50, Some(50.0));
        assert_eq!(summary["lean"].p99, Some(99.0));
        assert_eq!(summary["python"].count, 1);
    }

    #[test]
    fn old_calls_make_room_but_the_longest_is_remembered() {
        let mut latencies = Latencies::default();
        latencies.push("v", &[99.0]);
        latencies.push("v", &vec![1.0; NEWEST_CALLS]);
        let calls = &latencies.summary()["v"];
        assert_eq!((calls.p99, calls.max), (Some(1.0), Some(99.0)));
        assert_eq!(calls.count, NEWEST_CALLS as u64 + 1);
    }
}
