//! Scores summed up over traces: the rows of the tables.

use nilo_analysis::statistics::quantile;

use super::trace_score::{Bin, RELIABILITY_BINS, TraceScore};

/// What one predictor did on a set of traces. A figure with nothing to divide by is `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Total {
    /// How many traces.
    pub traces: u32,
    /// How many ran out of memory.
    pub ooms: u32,
    /// Of these, how many without an announcement.
    pub unpredictable_ooms: u32,
    /// OOMs predicted.
    pub hits: u32,
    /// Of these, how many without an announcement.
    pub unpredictable_hits: u32,
    /// Wrong alarms.
    pub false_episodes: u32,
    /// Alarms about growth that the end cut off.
    pub neutral_episodes: u32,
    /// Traces without an OOM.
    pub calm_traces: u32,
    /// Of these, how many had a wrong alarm.
    pub calm_alarmed: u32,
    /// Hours of trace.
    pub hours: f64,
    /// Judgements by confidence.
    pub reliability: [Bin; RELIABILITY_BINS],
    /// Leaks found, missed and imagined.
    pub leaks: LeakCounts,
    lead_secs: Vec<f64>,
    log2_errors: Vec<f64>,
    intervals: u32,
    covered: u32,
    brier_sum: f64,
}

/// Answers to the question of a leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeakCounts {
    /// Leaks called so.
    pub found: u32,
    /// Leaks not called so.
    pub missed: u32,
    /// Other traces called leaks.
    pub imagined: u32,
    /// Other traces not called leaks.
    pub cleared: u32,
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

impl Total {
    /// Takes in one more trace.
    pub fn add(&mut self, score: &TraceScore) {
        self.traces += 1;
        let hit = score.lead_secs.is_some();
        if score.oom {
            self.ooms += 1;
            self.hits += u32::from(hit);
            self.unpredictable_ooms += u32::from(score.unpredictable);
            self.unpredictable_hits += u32::from(score.unpredictable && hit);
        } else {
            self.calm_traces += 1;
            self.calm_alarmed += u32::from(score.false_episodes > 0);
        }
        self.false_episodes += score.false_episodes;
        self.neutral_episodes += score.neutral_episodes;
        self.hours += score.hours;
        self.lead_secs.extend(score.lead_secs);
        self.log2_errors.extend(&score.log2_errors);
        self.intervals += score.intervals;
        self.covered += score.covered;
        self.brier_sum += score.brier_sum;
        for (bin, more) in self.reliability.iter_mut().zip(&score.reliability) {
            bin.judgements += more.judgements;
            bin.events += more.events;
            bin.confidence_sum += more.confidence_sum;
        }
        if let Some(answer) = score.leak {
            let leaks = &mut self.leaks;
            match (answer.said, answer.truth) {
                (true, true) => leaks.found += 1,
                (false, true) => leaks.missed += 1,
                (true, false) => leaks.imagined += 1,
                (false, false) => leaks.cleared += 1,
            }
        }
    }

    /// Share of the OOMs predicted.
    pub fn recall(&self) -> Option<f64> {
        ratio(self.hits.into(), self.ooms.into())
    }

    /// Share of the OOMs predicted among those that something announced.
    pub fn recall_of_predictable(&self) -> Option<f64> {
        let hits = self.hits - self.unpredictable_hits;
        ratio(hits.into(), (self.ooms - self.unpredictable_ooms).into())
    }

    /// Share of the alarms that were right.
    pub fn precision(&self) -> Option<f64> {
        ratio(self.hits.into(), (self.hits + self.false_episodes).into())
    }

    /// Wrong alarms an hour of observation.
    pub fn false_alarms_an_hour(&self) -> Option<f64> {
        ratio(self.false_episodes.into(), self.hours)
    }

    /// A quantile of the time between alarm and OOM.
    pub fn lead_secs(&self, share: f64) -> Option<f64> {
        quantile(&mut self.lead_secs.clone(), share)
    }

    /// Median of |log2(predicted / true)|: 1 is a factor of two.
    pub fn median_log2_error(&self) -> Option<f64> {
        quantile(&mut self.log2_errors.clone(), 0.5)
    }

    /// Share of the intervals that held the truth; should be 0.8.
    pub fn coverage(&self) -> Option<f64> {
        ratio(self.covered.into(), self.intervals.into())
    }

    fn judgements(&self) -> u64 {
        self.reliability.iter().map(|bin| bin.judgements).sum()
    }

    /// Mean squared difference between confidence and outcome: 0 is perfect.
    pub fn brier(&self) -> Option<f64> {
        ratio(self.brier_sum, self.judgements() as f64)
    }

    /// The Brier score of someone who always names the overall frequency.
    pub fn brier_of_base_rate(&self) -> Option<f64> {
        let events: u64 = self.reliability.iter().map(|bin| bin.events).sum();
        ratio(events as f64, self.judgements() as f64).map(|rate| rate * (1.0 - rate))
    }
}

impl LeakCounts {
    /// Share of the findings that were right.
    pub fn precision(&self) -> Option<f64> {
        ratio(self.found.into(), (self.found + self.imagined).into())
    }

    /// Share of the leaks found.
    pub fn recall(&self) -> Option<f64> {
        ratio(self.found.into(), (self.found + self.missed).into())
    }

    /// How many answers were given.
    pub fn answers(&self) -> u32 {
        self.found + self.missed + self.imagined + self.cleared
    }
}
