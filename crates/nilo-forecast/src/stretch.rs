//! The part of a window in which the level followed the line of its trend: since when it grew, how far, and whether it still does.
//!
//! A window begins when a bucket does, not when growth does: what stood still before, what was loaded before and what stands still since lie beside the line.

use super::envelope::TimeBucket;
use super::standstill::paused_since;
use super::track::LevelHistory;
use super::trend::Trend;

/// A level is beside its line from this share of the growth on ...
const BESIDE: f64 = 0.1;
/// ... and this many times the scatter.
const SCATTERED: f64 = 2.5;

/// Growth as it happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GrowthStretch {
    /// How far the level rose: never more than from its lowest to its highest in that time.
    pub(crate) grown_bytes: f64,
    /// How long that took.
    pub(crate) lasted_secs: f64,
    /// For how long it has stood still since.
    pub(crate) paused_secs: f64,
}

impl GrowthStretch {
    /// The growth that a trend shows.
    pub(crate) fn of(track: &LevelHistory, trend: &Trend) -> GrowthStretch {
        let mut scales = track.envelope.scales().iter();
        let scale = scales.find(|scale| scale.width_secs == trend.width_secs);
        let window: Vec<&TimeBucket> = scale
            .map(|scale| scale.settled().skip(trend.skipped).collect())
            .unwrap_or_default();
        let beside = BESIDE * trend.grown() + SCATTERED * trend.line.scatter;
        let above = |bucket: &TimeBucket| {
            bucket.low - trend.level_at((bucket.first_secs + bucket.last_secs) / 2.0)
        };
        let before = window.iter().take_while(|it| above(it).abs() > beside);
        let after = window.iter().rev().take_while(|it| above(it) < -beside);
        let (before, after) = (before.count(), after.count());
        let on_line = window.get(before..window.len() - after.min(window.len()));
        let on_line = on_line.unwrap_or_default();
        let (Some(first), Some(last)) = (on_line.first(), on_line.last()) else {
            return GrowthStretch {
                grown_bytes: 0.0,
                lasted_secs: 0.0,
                paused_secs: 0.0,
            };
        };
        let slope = trend.line.slope;
        let lasted_secs = trend.span_secs - (before + after) as f64 * trend.width_secs;
        let lasted_secs = lasted_secs.max(last.last_secs - first.first_secs);
        let risen = risen(on_line, slope * trend.width_secs);
        let lasted_secs = lasted_secs.min(risen / slope);
        let fallen_behind_secs = match after {
            0 => 0.0,
            _ => track.now_secs - last.last_secs,
        };
        let paused_secs = paused_since(track, last.last_secs - lasted_secs)
            .map_or(fallen_behind_secs, |since| track.now_secs - since);
        // The line may be steeper than what grew, and the time shorter than the part that was looked at.
        let until_secs = track.now_secs - paused_secs;
        let seen = track.envelope.range_since(until_secs - lasted_secs);
        match seen {
            Some(seen) if slope * lasted_secs > seen.height() => {
                // What is known of the range begins with a bucket: so does the growth that it bounds.
                let lasted_secs = (until_secs - seen.first_secs).min(lasted_secs);
                GrowthStretch {
                    grown_bytes: (slope * lasted_secs).min(seen.height()),
                    lasted_secs,
                    paused_secs,
                }
            }
            seen => GrowthStretch {
                grown_bytes: seen.map_or(0.0, |_| slope * lasted_secs),
                lasted_secs,
                paused_secs,
            },
        }
    }
}

impl GrowthStretch {
    /// The pace from its beginning to its end, where it has both.
    pub(crate) fn bytes_per_sec(&self) -> Option<f64> {
        (self.lasted_secs > 0.0).then(|| self.grown_bytes / self.lasted_secs)
    }
}

/// How far the lower edge rose in these buckets, whose lowest levels lie up to `within` below their last.
fn risen(buckets: &[&TimeBucket], within: f64) -> f64 {
    let lows = || buckets.iter().map(|bucket| bucket.low);
    let highest = buckets.iter().map(|bucket| bucket.high).fold(0.0, f64::max);
    let lowest = lows().fold(f64::INFINITY, f64::min);
    let highest_low = lows().fold(0.0, f64::max);
    (highest_low + within).min(highest) - lowest.min(highest)
}
