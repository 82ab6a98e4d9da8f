//! Growth that does not end: is it a leak, how fast, since when.
//!
//! What is still held at the lowest point of each cycle should stand still once the program has warmed up.
//! A leak is a rise of that lower edge that has lasted for about half of the program's life, does not slow down
//! (caches and copy-on-write fill up, logarithms die away) and was not given back before (epochs, restarts).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::standstill::{TrainingTimes, is_over, is_over_for_good};
use super::stretch::GrowthStretch;
use super::track::LevelHistory;
use super::trend::{Trend, TrendFinder};

/// How sure it is that the growth will not end by itself.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum GrowthKind {
    /// It grows; too early to say more.
    Growth,
    /// It grows steadily and gives nothing back.
    Leak,
}

impl Growth {
    /// How long ago it began.
    pub fn began_secs_ago(&self) -> f64 {
        self.lasted_secs + self.paused_secs
    }
}

impl GrowthKind {
    /// As it is written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            GrowthKind::Growth => "growth",
            GrowthKind::Leak => "leak",
        }
    }
}

/// A lasting rise of what is held.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Growth {
    /// How sure.
    pub kind: GrowthKind,
    /// How fast.
    pub bytes_per_sec: f64,
    /// The rate's 80 % interval: the pace from beginning to end (`grown_bytes` in `lasted_secs`) lies in it.
    pub bytes_per_sec_low: f64,
    /// The rate's 80 % interval.
    pub bytes_per_sec_high: f64,
    /// How far it has grown: never more than from the lowest to the highest level in that time.
    pub grown_bytes: f64,
    /// For how long it has grown.
    pub lasted_secs: f64,
    /// For how long it has stood still since, up to the newest sample: too short to call it over.
    #[serde(skip)]
    pub paused_secs: f64,
    /// Whether most of it lies in `/dev/shm` or another tmpfs.
    #[serde(skip)]
    pub is_in_tmpfs: bool,
    /// Where its line stands by now.
    #[serde(skip)]
    pub level_bytes: Option<f64>,
}

/// A leak fills at least this share of the recording, after a warm-up ...
const MOST_OF_LIFE: f64 = 0.55;
/// ... or this share, after a time of standing still.
const PART_OF_LIFE: f64 = 0.2;
/// What rose by no more than this share of the later rise stood still.
const STOOD_STILL: f64 = 0.3;
/// The second half of the window must be at least this fast against the first.
const STEADY: f64 = 0.8;
/// ... and at most this: a growth that only begins at the end is no leak yet.
const SUDDEN: f64 = 3.0;
/// Slower than this it ends by itself.
const DYING: f64 = 0.5;
/// Pairs of buckets agree on the direction of a leak this far.
const LEAK_TAU: f64 = 0.75;
/// The first two thirds of a leak predict the last at least this well.
const LEAK_SKILL: f64 = 0.3;
/// Slopes within this range of factors are those of one leak.
pub(super) const SAME_PACE: std::ops::Range<f64> = 0.6..1.6;
/// What a forecast rests on is more even than that: halves differ by no more than this, the newest quarter goes on like the rest ...
const EVEN: std::ops::Range<f64> = 0.75..1.7;
const GOING_ON: std::ops::Range<f64> = 0.5..2.0;
/// ... its points lie within this share of the growth around the line, and its first two thirds predict the last this well.
const STRAIGHT: f64 = 0.05;
/// In regular steps, within this share.
const STRAIGHT_IN_STEPS: f64 = 0.08;
const FORETOLD: f64 = 0.4;
/// The last share of a life is its end.
const THE_END: f64 = 0.02;
/// Shares of a scale's buckets that are tried as warm-up.
const WARM_UPS: [f64; 5] = [0.0, 0.125, 0.25, 0.375, 0.5];
/// Scales that are looked at, from the widest.
const SCALES: usize = 4;
/// No verdict on programs younger than this ...
const YOUNGEST_SECS: f64 = 10.0;
/// ... that have made fewer steps than this.
const FEWEST_STEPS: f64 = 50.0;

/// Programs load for up to this long before their first steps.
pub const LOADING_SECS: f64 = 60.0;

/// Whether a program is too young for any verdict.
pub(crate) fn is_too_young(track: &LevelHistory, steps: f64) -> bool {
    track.age_secs() < YOUNGEST_SECS && steps < FEWEST_STEPS
}

/// Whether a program may still be loading: growth so far is no leak to anybody who did not ask.
pub(crate) fn may_be_loading(track: &LevelHistory, steps: f64, loading_secs: f64) -> bool {
    track.age_secs() < loading_secs && steps < FEWEST_STEPS
}

/// For how long a leak at about this pace has lasted that began at least `established_secs` ago, for the forecaster, which cannot wait for a part of the program's life.
///
/// The evidence is that of [`growth`]: a straight rise that gives nothing back, from the beginning on or after a time of standing still.
pub(crate) fn leak_lasted_secs(
    track: &LevelHistory,
    finder: &mut TrendFinder,
    least_bytes: f64,
    bytes_per_sec: f64,
    established_secs: f64,
    in_steps: bool,
) -> Option<f64> {
    let straight = if in_steps {
        STRAIGHT_IN_STEPS
    } else {
        STRAIGHT
    };
    // The rise of one training step is not the leak beneath it.
    let is_same = |trend: &Trend| SAME_PACE.contains(&(trend.line.slope / bytes_per_sec));
    let mut longest: Option<f64> = None;
    for scale in track.envelope.scales().iter().rev() {
        let buckets = scale.settled().len();
        for warm_up in WARM_UPS {
            let skipped = (warm_up * buckets as f64) as usize;
            let span_secs = (buckets - skipped) as f64 * scale.width_secs;
            if span_secs < established_secs.max(longest.unwrap_or(0.0)) {
                break;
            }
            let trend = finder.rise(scale, least_bytes, skipped);
            if let Some(trend) = trend
                .filter(|trend| is_same(trend) && goes_on(trend, straight) && is_leak(track, trend))
            {
                longest = Some(longest.unwrap_or(0.0).max(trend.span_secs));
            }
        }
    }
    longest
}

/// The lasting growth of a track, of at least `least_bytes`.
pub(crate) fn growth(
    track: &LevelHistory,
    least_bytes: f64,
    training: &TrainingTimes,
) -> Option<Growth> {
    if is_too_young(track, training.steps) {
        return None;
    }
    find_growth(track, least_bytes, |trend| is_over(track, trend, training))
}

/// What was a leak until it stood still, for too short a time to say whether it would go on; asked where there is no [`growth`].
pub(crate) fn paused_growth(
    track: &LevelHistory,
    least_bytes: f64,
    training: &TrainingTimes,
) -> Option<Growth> {
    if is_too_young(track, training.steps) {
        return None;
    }
    let found = find_growth(track, least_bytes, |trend| {
        is_over_for_good(track, trend, training)
    });
    found.filter(|growth| growth.kind == GrowthKind::Leak && growth.paused_secs > 0.0)
}

fn find_growth(
    track: &LevelHistory,
    least_bytes: f64,
    is_over: impl Fn(&Trend) -> bool,
) -> Option<Growth> {
    let age = track.age_secs();
    let mut finder = TrendFinder::default();
    let mut found: Option<(bool, Trend)> = None;
    for scale in track.envelope.scales().iter().rev().take(SCALES) {
        let buckets = scale.settled().len();
        for warm_up in WARM_UPS {
            let skipped = (warm_up * buckets as f64) as usize;
            let Some(trend) = finder.rise(scale, least_bytes, skipped) else {
                continue;
            };
            if trend.span_secs < PART_OF_LIFE * age || trend.pace < DYING {
                continue;
            }
            if is_over(&trend) {
                continue;
            }
            let sure = is_leak(track, &trend);
            let longer = |(best_sure, best): (bool, Trend)| {
                (sure, trend.span_secs) > (best_sure, best.span_secs)
            };
            if found.is_none_or(longer) {
                found = Some((sure, trend));
            }
        }
    }
    let (sure, trend) = found?;
    let stretch = GrowthStretch::of(track, &trend);
    // The line is one estimate of the rate, the way from the beginning to the end another: the interval has both.
    let mean = stretch.bytes_per_sec().unwrap_or(trend.line.slope);
    Some(Growth {
        kind: if sure {
            GrowthKind::Leak
        } else {
            GrowthKind::Growth
        },
        bytes_per_sec: trend.line.slope,
        bytes_per_sec_low: trend.line.slope_low.min(mean),
        bytes_per_sec_high: trend.line.slope_high.max(mean),
        grown_bytes: stretch.grown_bytes,
        lasted_secs: stretch.lasted_secs,
        paused_secs: stretch.paused_secs,
        is_in_tmpfs: false,
        level_bytes: Some(trend.level_at(track.now_secs)),
    })
}

/// Whether a rise goes on as it began: a jump that a window still shows does not.
fn goes_on(trend: &Trend, straight: f64) -> bool {
    EVEN.contains(&trend.pace)
        && GOING_ON.contains(&trend.fresh)
        && trend.skill > FORETOLD
        && trend.line.scatter < straight * trend.grown()
}

fn is_leak(track: &LevelHistory, trend: &Trend) -> bool {
    let steady = (STEADY..SUDDEN).contains(&trend.pace)
        && trend.line.tau >= LEAK_TAU
        && trend.skill > LEAK_SKILL;
    let long =
        trend.span_secs >= MOST_OF_LIFE * track.age_secs() || stood_still_before(track, trend);
    // What falls at the very end says nothing of what came before: programs that end give everything back.
    let until_secs = track.now_secs - THE_END * track.age_secs();
    let seen_before = track
        .swings
        .seen_before(&track.rise(trend), 0.0, until_secs);
    steady && long && !seen_before
}

/// Whether the level stood still for as long as the rise has lasted, or as long as there was time, before it began.
fn stood_still_before(track: &LevelHistory, trend: &Trend) -> bool {
    let began = track.now_secs - trend.span_secs;
    let from = (began - trend.span_secs).max(0.3 * began);
    let Some(scale) = track.envelope.scales().last() else {
        return false;
    };
    let before = scale
        .settled()
        .filter(|bucket| bucket.first_secs >= from && bucket.last_secs <= began);
    let (mut lowest, mut highest, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0);
    for bucket in before {
        lowest = lowest.min(bucket.low);
        highest = highest.max(bucket.low);
        count += 1;
    }
    count >= 3 && highest - lowest <= STOOD_STILL * trend.grown()
}
