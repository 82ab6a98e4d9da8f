//! What one time scale says: does the lower edge rise, how steadily, and does it slow down.

use super::envelope::{BucketSeries, WINDOW};
use super::theil_sen::{FittedLine, Workspace};

/// Fewest buckets that make a trend.
const FEWEST: usize = 10;
/// Pairs of buckets must agree on the direction this far.
const LEAST_TAU: f64 = 0.55;
/// A rise must stand out of the scatter by this factor.
const RISE_OVER_SCATTER: f64 = 2.5;
/// A second half slower than the first by more than this is slowing down.
/// At 0.75 three of four saturating copy-on-write traces still alarmed, at 0.88 none.
const SLOWING: f64 = 0.88;

/// A rise of the lower edge over one window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    pub(crate) line: FittedLine,
    /// Seconds that the window spans.
    pub(crate) span_secs: f64,
    pub(crate) width_secs: f64,
    /// Buckets that were left out before it.
    pub(crate) skipped: usize,
    /// Slope of the second half over that of the first.
    pub(crate) pace: f64,
    /// How well the first two thirds predicted the last: 1 exactly, 0 not at all.
    pub(crate) skill: f64,
    /// The slope of the newest half.
    pub(crate) late_slope: f64,
    /// Rise over the newest quarter against what the line says: 0 when it has stopped.
    pub(crate) fresh: f64,
}

impl Trend {
    /// How far the rise is from a line that goes on: what its first part missed of its last, and the factor from half to half.
    pub(crate) fn wobble(&self) -> f64 {
        (1.0 - self.skill) + self.pace.clamp(0.25, 4.0).log2().abs()
    }

    /// What it has risen by over the window.
    pub(crate) fn grown(&self) -> f64 {
        self.line.slope * self.span_secs
    }

    /// The lower edge of `now`.
    pub(crate) fn level_at(&self, secs: f64) -> f64 {
        self.line.at(secs)
    }

    /// Seconds until the edge has risen by `room`, and how sure it is that it does not level off before; `None` when it does.
    ///
    /// A rise that slows down goes on slowing down: each half window brings `pace` times what the one before brought.
    pub(crate) fn seconds_to_rise(&self, room: f64) -> Option<(f64, f64)> {
        if room <= 0.0 {
            return Some((0.0, 1.0));
        }
        if self.pace >= SLOWING {
            return Some((room / self.line.slope, 1.0));
        }
        let half = self.span_secs / 2.0;
        let next = self.late_slope.max(0.0) * half * self.pace;
        let rest = 1.0 - room * (1.0 - self.pace) / next.max(f64::MIN_POSITIVE);
        (rest > 0.0).then(|| (rest.ln() / self.pace.ln() * half, rest))
    }
}

/// Judges scales; keeps its arrays so that a judgement allocates nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct TrendFinder {
    x: Vec<f64>,
    low: Vec<f64>,
    workspace: Workspace,
}

impl TrendFinder {
    /// The rise at one scale, if it is at least `least` bytes over the window; the oldest `skipped` buckets are left out.
    pub(crate) fn rise(
        &mut self,
        scale: &BucketSeries,
        least: f64,
        skipped: usize,
    ) -> Option<Trend> {
        self.load(scale, skipped)?;
        let count = self.x.len();
        let span_secs = self.x[count - 1] - self.x[0] + scale.width_secs;
        // Most series stand still, and this tells them apart for a fraction of a fit.
        let quarter = count / 4;
        let lowest = |part: &[f64]| part.iter().copied().fold(f64::INFINITY, f64::min);
        if lowest(&self.low[count - quarter..]) - lowest(&self.low[..quarter]) < 0.5 * least {
            return None;
        }
        let line = self.workspace.fit(&self.x, &self.low)?;
        let rise = line.slope * span_secs;
        if line.tau < LEAST_TAU || rise < least.max(RISE_OVER_SCATTER * line.scatter) {
            return None;
        }
        let half = count / 2;
        let early = self.workspace.fit(&self.x[..half], &self.low[..half])?;
        let late = self.workspace.fit(&self.x[half..], &self.low[half..])?;
        let pace = if early.slope > 0.0 {
            (late.slope / early.slope).max(0.0)
        } else {
            1.0
        };
        Some(Trend {
            line,
            span_secs,
            width_secs: scale.width_secs,
            skipped,
            pace,
            skill: self.skill()?,
            late_slope: late.slope,
            fresh: self.fresh(line.slope),
        })
    }

    fn load(&mut self, scale: &BucketSeries, skipped: usize) -> Option<()> {
        let buckets = scale.settled().skip(skipped);
        if buckets.len() < FEWEST {
            return None;
        }
        debug_assert!(buckets.len() <= WINDOW);
        self.x.clear();
        self.low.clear();
        for bucket in buckets {
            self.x.push((bucket.first_secs + bucket.last_secs) / 2.0);
            self.low.push(bucket.low);
        }
        Some(())
    }

    fn fresh(&mut self, slope: f64) -> f64 {
        let count = self.x.len();
        let quarter = count / 4;
        let (x, low) = (&self.x, &self.low);
        let newest = self
            .workspace
            .median(low[count - quarter..].iter().copied());
        let before = self
            .workspace
            .median(low[count - 2 * quarter..count - quarter].iter().copied());
        let expected = slope * (x[count - 1] - x[count - 1 - quarter]);
        (newest - before) / expected.max(f64::MIN_POSITIVE)
    }

    /// Fits the first two thirds and looks how far the last third lies from that line, against what it grew.
    fn skill(&mut self) -> Option<f64> {
        let count = self.x.len();
        let known = 2 * count / 3;
        let line = self.workspace.fit(&self.x[..known], &self.low[..known])?;
        let (x, low) = (&self.x, &self.low);
        let miss = self
            .workspace
            .median((known..count).map(|i| (line.at(x[i]) - low[i]).abs()));
        let growth = line.slope.abs() * (x[count - 1] - x[known - 1]);
        Some(1.0 - (miss / growth.max(line.scatter).max(f64::MIN_POSITIVE)).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::envelope::Envelope;
    use super::*;

    const LEAST: f64 = 4.0;

    fn trends(level: impl Fn(f64) -> f64, samples: u32) -> Vec<Trend> {
        let mut envelope = Envelope::default();
        for i in 0..samples {
            envelope.put(f64::from(i), level(f64::from(i)), 1.0);
        }
        let mut finder = TrendFinder::default();
        let scales = envelope.scales().iter();
        scales
            .filter_map(|scale| finder.rise(scale, LEAST, 0))
            .collect()
    }

    #[test]
    fn a_steady_rise_has_its_slope_at_every_scale() {
        let found = trends(|t| t * 0.2, 2000);
        assert!(found.len() >= 4);
        for trend in found {
            assert!((trend.line.slope - 0.2).abs() < 1e-3, "{trend:?}");
            assert!((trend.seconds_to_rise(20.0).unwrap().0 - 100.0).abs() < 1.0);
            assert!(trend.skill > 0.9);
        }
    }

    #[test]
    fn a_constant_never_rises() {
        assert!(trends(|_| 700.0, 2000).is_empty());
    }

    #[test]
    fn a_sawtooth_that_returns_does_not_rise_over_many_periods() {
        let wide = trends(|t| 300.0 + (t % 50.0) * 6.0, 4000);
        assert!(wide.iter().all(|trend| trend.span_secs < 150.0), "{wide:?}");
    }

    #[test]
    fn a_rise_that_dies_away_levels_off() {
        let found = trends(|t| 800.0 * (1.0 - (-t / 300.0).exp()), 900);
        let widest = found.last().unwrap();
        assert!(widest.pace < SLOWING);
        assert_eq!(widest.seconds_to_rise(200.0), None);
    }

    #[test]
    fn doubling_memory_doubles_the_slope() {
        let once = trends(|t| t * 0.1, 1000);
        let twice = trends(|t| t * 0.2, 1000);
        assert!((twice[1].line.slope / once[1].line.slope - 2.0).abs() < 1e-6);
    }
}
