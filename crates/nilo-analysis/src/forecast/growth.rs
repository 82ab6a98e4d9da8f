//! Growth that does not end: is it a leak, how fast, since when.
//!
//! What is still held at the lowest point of each cycle should stand still once the program has warmed up.
//! A leak is a rise of that lower edge that has lasted for about half of the program's life, does not slow down
//! (caches and copy-on-write fill up, logarithms die away) and was not given back before (epochs, restarts).

use serde::Serialize;

use super::track::Track;
use super::trend::{Trend, TrendFinder};

/// How sure it is that the growth will not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrowthKind {
    /// It grows; too early to say more.
    Growth,
    /// It grows steadily and gives nothing back.
    Leak,
}

/// A lasting rise of what is held.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Growth {
    /// How sure.
    pub kind: GrowthKind,
    /// How fast.
    pub bytes_per_sec: f64,
    /// The rate's 80 % interval.
    pub bytes_per_sec_low: f64,
    /// The rate's 80 % interval.
    pub bytes_per_sec_high: f64,
    /// Grown over the window that this rests on.
    pub grown_bytes: f64,
    /// How long that window is, back from the newest sample.
    pub lasted_secs: f64,
}

/// The window must be at least this share of the whole recording.
const LEAST_SHARE: f64 = 0.4;
/// The second half of the window must be at least this fast against the first.
const STEADY: f64 = 0.8;
/// ... and at most this: a growth that only begins at the end is no leak yet.
const SUDDEN: f64 = 3.0;
/// Pairs of buckets agree on the direction of a leak this far.
const LEAK_TAU: f64 = 0.75;
/// Shares of the widest scale's buckets that are tried as warm-up.
const WARM_UPS: [f64; 5] = [0.0, 0.125, 0.25, 0.375, 0.5];
/// No verdict on programs younger than this ...
const YOUNGEST_SECS: f64 = 10.0;
/// ... that have made fewer steps than this.
const FEWEST_STEPS: f64 = 50.0;

/// The lasting growth of a track, of at least `least_bytes`.
pub(crate) fn growth(track: &Track, least_bytes: f64, steps: f64) -> Option<Growth> {
    let age = track.age_secs();
    if age < YOUNGEST_SECS && steps < FEWEST_STEPS {
        return None;
    }
    let mut finder = TrendFinder::default();
    let scales = track.envelope.scales();
    let mut found: Option<(bool, Trend)> = None;
    for scale in scales.iter().rev().take(3) {
        let buckets = scale.settled().len();
        for warm_up in WARM_UPS {
            let skipped = (warm_up * buckets as f64) as usize;
            let Some(trend) = finder.rise(scale, least_bytes, skipped) else {
                continue;
            };
            if trend.span_secs < LEAST_SHARE * age {
                continue;
            }
            let steady = (STEADY..SUDDEN).contains(&trend.pace)
                && trend.line.tau >= LEAK_TAU
                && trend.skill > 0.3;
            let sure = steady && !track.swings.seen_before(track.level, trend.line.slope, 0.0);
            let longer = |(best_sure, best): (bool, Trend)| {
                (sure, trend.span_secs) > (best_sure, best.span_secs)
            };
            if found.is_none_or(longer) {
                found = Some((sure, trend));
            }
        }
    }
    let (sure, trend) = found?;
    if trend.pace < 0.5 {
        return None;
    }
    Some(Growth {
        kind: if sure {
            GrowthKind::Leak
        } else {
            GrowthKind::Growth
        },
        bytes_per_sec: trend.line.slope,
        bytes_per_sec_low: trend.line.slope_low,
        bytes_per_sec_high: trend.line.slope_high,
        grown_bytes: trend.line.slope * trend.span_secs,
        lasted_secs: trend.span_secs,
    })
}
