//! Growth that is over: the level rose and has stood still since, while windows that reach back far enough still show a rise.

use super::envelope::BucketSeries;
use super::track::LevelHistory;
use super::trend::Trend;

/// Fewest buckets that a standstill takes.
const FEWEST: usize = 3;
/// A standstill brings at most this share of what the growth before it brought in the same time.
const STILL: f64 = 0.1;
/// A standstill that has lasted for this share of the growth before it leaves no doubt. A shorter one may be the end of loading, or a moment
/// in which a program that leaks writes its report: it is no leak, and no word for it is "nothing".
const FOR_GOOD: f64 = 0.25;
/// Growth that paused before, bringing no more than this share, may only be pausing.
const PAUSED: f64 = 0.7;
/// Training that brings at most this share of a growth from before it has ended it.
const LOADED: f64 = 0.3;
/// Growth begins where the level leaves the lowest part of it.
const BEGINNING: f64 = 0.1;
/// Of a growth this share may be forgotten where it is asked whether it pauses.
const UNKNOWN: f64 = 0.6;
/// Scales whose buckets are looked at, from the widest: together they see standstills from a twentieth of the program's life on.
const SCALES: usize = 2;

/// When a program trained, where that is known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TrainingTimes {
    /// Steps made.
    pub(crate) steps: f64,
    /// When the first step ended.
    pub(crate) since_secs: Option<f64>,
    /// When the newest step ended.
    pub(crate) newest_secs: Option<f64>,
}

/// Whether the growth that a trend shows is over.
///
/// It is where training began during it and brought next to nothing: then it was loading.
/// It also is where it has stood still for longer than it ever paused; unless the program stopped training when the growth stopped, as in a last evaluation.
/// What has reached its limit is not over.
pub(crate) fn is_over(track: &LevelHistory, trend: &Trend, training: &TrainingTimes) -> bool {
    has_ended(track, trend, training, 0.0)
}

/// As [`is_over`], where the standstill has lasted in proportion to the growth before it.
pub(crate) fn is_over_for_good(
    track: &LevelHistory,
    trend: &Trend,
    training: &TrainingTimes,
) -> bool {
    has_ended(track, trend, training, FOR_GOOD)
}

fn has_ended(
    track: &LevelHistory,
    trend: &Trend,
    training: &TrainingTimes,
    least_share: f64,
) -> bool {
    if track.is_full() {
        return false;
    }
    is_loading(track, trend, training)
        || still_since(track, trend, least_share).is_some_and(|since| {
            training
                .newest_secs
                .is_none_or(|newest| newest > (since + track.now_secs) / 2.0)
        })
}

/// Whether training began during a growth and did not go on with it.
fn is_loading(track: &LevelHistory, trend: &Trend, training: &TrainingTimes) -> bool {
    let began = track.now_secs - trend.span_secs;
    let Some(since) = training.since_secs.filter(|since| *since > began) else {
        return false;
    };
    // At the widest scale that can tell, what comes and goes within a step is hidden best.
    for scale in track.envelope.scales().iter().rev() {
        let buckets = scale.settled().filter(|bucket| bucket.first_secs >= since);
        let lows: Vec<f64> = buckets.map(|bucket| bucket.low).collect();
        if lows.len() > FEWEST {
            let expected = trend.line.slope * scale.width_secs * (lows.len() - 1) as f64;
            return rise(&lows) <= LOADED * expected;
        }
    }
    false
}

/// Since when the level has stood still, if that is longer than it ever paused on its way up.
fn still_since(track: &LevelHistory, trend: &Trend, least_share: f64) -> Option<f64> {
    let began = track.now_secs - trend.span_secs;
    let scales = track.envelope.scales().iter().rev().take(SCALES);
    scales
        .filter_map(|scale| still_since_at(scale, began, least_share))
        .next()
}

/// Since when a growth that began then has stood still, at the finest scale that knows a good part of it.
/// That is sooner than it is over: whoever says that it goes on has to see that it does.
pub(crate) fn paused_since(track: &LevelHistory, began: f64) -> Option<f64> {
    let mut scales = track.envelope.scales().iter();
    let from = began + UNKNOWN * (track.now_secs - began);
    let knows_enough = |scale: &&BucketSeries| {
        let mut buckets = scale.settled();
        buckets.next().is_some_and(|it| it.first_secs <= from)
    };
    still_since_at(scales.find(knows_enough)?, began, 0.0)
}

fn still_since_at(scale: &BucketSeries, began: f64, least_share: f64) -> Option<f64> {
    let buckets = scale.settled().filter(|bucket| bucket.first_secs >= began);
    let (times, lows): (Vec<f64>, Vec<f64>) = buckets
        .map(|bucket| (bucket.first_secs, bucket.low))
        .unzip();
    let (last, lowest) = (
        *lows.last()?,
        lows.iter().copied().fold(f64::INFINITY, f64::min),
    );
    let first = lows
        .iter()
        .rposition(|low| *low <= lowest + BEGINNING * (last - lowest))?;
    let end = lows.len() - 1;
    // The longest standstill leaves at least as long a growth before it.
    (FEWEST..=(end - first) / 2).rev().find_map(|length| {
        let stopped = end - length;
        let rate = (lows[stopped] - lows[first]) / (stopped - first) as f64;
        let expected = rate * length as f64;
        let is_still = expected > 0.0 && rise(&lows[stopped..]) <= STILL * expected;
        let has_paused = (first..=stopped - length)
            .any(|from| lows[from + length] - lows[from] <= PAUSED * expected);
        let has_lasted = length as f64 >= least_share * (stopped - first) as f64;
        (is_still && !has_paused && has_lasted).then(|| times[stopped])
    })
}

/// How far levels came above their first: what dips at the end has not stopped growing.
fn rise(lows: &[f64]) -> f64 {
    let highest = lows.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    highest - lows[0]
}
