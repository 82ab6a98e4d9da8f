//! One level on its way to the limit: where it goes if it goes on like this, and how likely it goes on.

use super::envelope::Envelope;
use super::standstill::{TrainingTimes, is_over};
use super::swings::{OngoingRise, Swings};
use super::transient::{Transient, transient};
use super::trend::{Trend, TrendFinder};

/// A level's history in bounded memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct LevelHistory {
    pub(crate) envelope: Envelope,
    pub(crate) swings: Swings,
    pub(crate) finder: TrendFinder,
    trends: Vec<Trend>,
    first_secs: Option<f64>,
    pub(crate) now_secs: f64,
    pub(crate) level: f64,
    largest: f64,
    limit: Option<f64>,
    /// The last level that was clearly above all before it, and when.
    last_rise: (f64, f64),
}

/// Where a level goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Projection {
    /// Seconds until lower edge and recurring height reach the limit together.
    pub(crate) secs: f64,
    /// The rise that this rests on.
    pub(crate) trend: Trend,
    /// For how long the level has risen like this.
    pub(crate) lasted_secs: f64,
    pub(crate) transient: Transient,
    /// It rose like this before, as high, and was released.
    pub(crate) seen_before: bool,
    /// It has ended.
    pub(crate) is_over: bool,
    /// How likely it goes on to the limit, before calibration.
    pub(crate) likelihood: f64,
}

/// A rise matters from this share of the limit over its window on.
const LEAST_RISE: f64 = 0.004;
/// Slopes within this factor are the same rise.
const SAME_SLOPE: f64 = 1.6;
/// The level wanders around its line by some of its scatter, and the first time at the limit is the last.
const NOISE: f64 = 1.5;
/// More scatter than this share of the limit is not noise but the shape of the curve.
const MOST_NOISE: f64 = 0.006;
/// A level is at most this many times the scatter below its line.
const LAG: f64 = 2.5;
/// Heights from this share of the limit on have a rhythm of their own.
const RARE_HEIGHT: f64 = 0.05;
/// The newest quarter of a rise that goes on brings at least this share of what the line says; one that has stopped is believed this much.
const FRESH: f64 = 0.5;
const STOPPED: f64 = 0.2;
/// A second half this much steeper than the first is a step, not a slope.
const SUDDEN: f64 = 2.0;
/// What was released before must be exceeded by this share of the limit to be news.
const NEWS: f64 = 0.02;
/// Above this share of the limit there is no room to grow: what stands still there may be reclaimed as fast as it grows.
const FULL: f64 = 0.97;
/// A level this share of the growth below the line has been given back.
const FALLEN: f64 = 0.5;
/// A growth that was released before is believed this much.
const SEEN_BEFORE: f64 = 0.25;

impl LevelHistory {
    pub(crate) fn put(&mut self, secs: f64, level: f64, limit: Option<f64>, interval_secs: f64) {
        self.first_secs.get_or_insert(secs);
        self.now_secs = secs;
        self.level = level;
        self.limit = limit;
        self.largest = self.largest.max(level);
        if level > self.last_rise.0 + LEAST_RISE * limit.unwrap_or(self.largest) {
            self.last_rise = (level, secs);
        }
        self.envelope.put(secs, level, interval_secs);
        self.swings.put(secs, level, limit.unwrap_or(self.largest));
    }

    /// Seconds since the first sample.
    pub(crate) fn age_secs(&self) -> f64 {
        self.first_secs.map_or(0.0, |first| self.now_secs - first)
    }

    /// Whether there is next to nothing left to grow into.
    pub(crate) fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.level > FULL * limit)
    }

    /// Seconds since the level was last clearly above all before it.
    pub(crate) fn stood_still_secs(&self) -> f64 {
        self.now_secs - self.last_rise.1
    }

    /// The most likely way to the limit, if the level is on one.
    pub(crate) fn projection(
        &mut self,
        limit: f64,
        training: &TrainingTimes,
    ) -> Option<Projection> {
        self.trends.clear();
        for scale in self.envelope.scales() {
            let rise = self.finder.rise(scale, LEAST_RISE * limit, 0);
            self.trends.extend(rise);
        }
        let middle = self.trends.get(self.trends.len() / 2)?;
        let longest = (self.age_secs() / 6.0).max(60.0);
        let transient = transient(&self.envelope, middle.line.slope, longest);
        let projections = self
            .trends
            .iter()
            .filter_map(|trend| self.follow(trend, transient, limit, training));
        projections.max_by(|a, b| a.likelihood.total_cmp(&b.likelihood))
    }

    fn follow(
        &self,
        trend: &Trend,
        transient: Transient,
        limit: f64,
        training: &TrainingTimes,
    ) -> Option<Projection> {
        // What was measured at the end counts where the line runs below it.
        let level = trend.level_at(self.now_secs);
        // What fell far below its line is not on it any more, whatever the windows still show.
        if self.level < level - FALLEN * trend.grown() - trend.line.scatter {
            return None;
        }
        // Nor does a rise that slows down stand where its line ends.
        let level = level.min(self.newest_low(trend) + LAG * trend.line.scatter);
        let high = level + transient.recurring + NOISE * trend.line.scatter.min(MOST_NOISE * limit);
        let (crossing, going_on) = trend.seconds_to_rise(limit - high)?;
        // Once the heights do not fit any more, the next one kills.
        let secs = if transient.recurring > RARE_HEIGHT * limit {
            transient.next_after(self.now_secs, crossing)
        } else {
            crossing
        };
        let lasted_secs = self.lasted(trend);
        let rise = self.rise(trend);
        let seen_before = self.swings.seen_before(&rise, NEWS * limit, f64::INFINITY);
        // What has lasted for some time lasts as long again with even odds.
        let lasting = lasted_secs / (lasted_secs + secs).max(1e-9);
        let is_over = is_over(self, trend, training);
        let going_on_now = match is_over {
            true => STOPPED,
            false => (trend.fresh / FRESH).clamp(STOPPED, 1.0),
        };
        let likelihood = lasting
            * (0.3 + 0.7 * trend.skill)
            * (0.5 + 0.5 * going_on)
            * going_on_now
            * if trend.pace > SUDDEN { 0.6 } else { 1.0 }
            * if seen_before { SEEN_BEFORE } else { 1.0 };
        Some(Projection {
            secs,
            trend: *trend,
            lasted_secs,
            transient,
            seen_before,
            is_over,
            likelihood,
        })
    }

    /// The lower edge at the end of a trend.
    fn newest_low(&self, trend: &Trend) -> f64 {
        let mut scales = self.envelope.scales().iter();
        let scale = scales.find(|scale| scale.width_secs == trend.width_secs);
        let newest = scale.and_then(|scale| scale.settled().last());
        newest.map_or(self.level, |bucket| bucket.low)
    }

    /// From the lowest to the highest level since then.
    pub(crate) fn range_since(&self, secs: f64) -> f64 {
        let range = self.envelope.range_since(secs);
        range.map_or(0.0, |range| range.height())
    }

    /// A trend at its present end.
    pub(crate) fn rise(&self, trend: &Trend) -> OngoingRise {
        OngoingRise {
            level: self.level,
            slope: trend.line.slope,
            grown: trend.grown(),
        }
    }

    /// The longest window that shows the same rise.
    fn lasted(&self, trend: &Trend) -> f64 {
        let same = |other: &&Trend| {
            let ratio = other.line.slope / trend.line.slope;
            (1.0 / SAME_SLOPE..SAME_SLOPE).contains(&ratio)
        };
        let spans = self.trends.iter().filter(same).map(|other| other.span_secs);
        spans.fold(trend.span_secs, f64::max)
    }
}
