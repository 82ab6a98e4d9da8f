//! The user's metrics in figures.
//!
//! Figures are of every point (see [`crate::metric_history`]).
//! Minimum, maximum, mean, deviation and quantiles are of the finite values; what is not finite is counted, and shown where it comes first or last.

use std::collections::BTreeMap;

use nilo_sample::Recording;
use nilo_sample::units::to_secs;
use schemars::JsonSchema;
use serde::Serialize;

use crate::json_number;
use crate::metric_history::{Metric, MetricPoint, metrics};
use crate::statistics::{mean_and_std, quantile};

/// How many values the curve of a summary has at most.
pub const CURVE_POINTS: usize = 24;

/// One metric.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct MetricSummary {
    /// The name under which it was logged.
    pub name: String,
    /// Values, those that are not finite included.
    pub count: u64,
    /// Of them NaN.
    pub nan_count: u64,
    /// Of them infinite, of either sign.
    pub infinite_count: u64,
    /// Of the infinite ones those that are -inf.
    pub negative_infinite_count: u64,
    /// How often steps went back inside one process: epochs that count from zero, or a second loop.
    pub step_restarts: u64,
    /// How many processes logged it; of a distributed run those of the first rank.
    pub processes: u64,
    /// Ranks that logged it, where it was logged by ranks of a distributed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<RankSpread>,
    /// The first value.
    pub first: Option<ValueAt>,
    /// The last value.
    pub last: Option<ValueAt>,
    /// The smallest finite value, the first of several.
    pub min: Option<ValueAt>,
    /// The largest finite value, the first of several.
    pub max: Option<ValueAt>,
    /// Mean of the finite values, each counting once.
    pub mean: Option<f64>,
    /// Their standard deviation, divided by n.
    pub std: Option<f64>,
    /// Their median.
    pub p50: Option<f64>,
    /// Their 95th percentile.
    pub p95: Option<f64>,
    /// The way it took in at most [`CURVE_POINTS`] values: each the largest of its stretch, or NaN where something was not finite.
    #[serde(skip)]
    pub curve: Vec<f64>,
}

/// What several ranks logged under one name.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct RankSpread {
    /// How many ranks.
    pub count: u64,
    /// The smallest of their last values.
    pub last_min: Option<f64>,
    /// The largest.
    pub last_max: Option<f64>,
}

/// A value and where it was logged.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct ValueAt {
    /// The value; in JSON a text when it is not finite.
    #[serde(serialize_with = "json_number::serialize")]
    #[schemars(with = "json_number::JsonNumber")]
    pub value: f64,
    /// The training step, where one was given.
    pub step: Option<i64>,
    /// Seconds since the run began.
    pub secs: f64,
}

impl ValueAt {
    fn of(point: &MetricPoint) -> ValueAt {
        ValueAt {
            value: point.value,
            step: point.step,
            secs: to_secs(point.time_nanos),
        }
    }
}

/// Summarizes every metric of a recording; those without a value are left out.
pub fn summarize_metrics(recording: &Recording) -> Vec<MetricSummary> {
    metrics(recording).iter().filter_map(summarize).collect()
}

/// What people look at first, by the words of a name.
const HEADLINES: &str =
    "loss reward rewards return returns accuracy acc score f1 bleu perplexity ppl lr";
/// Parts of a training whose metrics are its own: `eval/loss` is as good as `loss`.
const PARTS: [&str; 6] = ["train", "training", "eval", "val", "validation", "test"];

/// How early a metric is listed for people, the lowest first: what people look at, other names of the user's, then groups that a library logs for each layer or component.
pub fn metric_rank(name: &str) -> u8 {
    let (part, rest) = name.split_once('/').unwrap_or(("", name));
    let own = match PARTS.contains(&part) {
        true => rest,
        false => name,
    };
    let is_headline = |word: &str| HEADLINES.split(' ').any(|headline| headline == word);
    let lower = own.to_lowercase();
    // `reward/mean` is the reward; `reward/format/mean` is a component of it.
    let main = lower.strip_suffix("/mean").unwrap_or(&lower);
    match (main.contains('/'), lower.contains('/')) {
        (false, _) if main == "learning_rate" || main.split('_').any(is_headline) => 0,
        (_, false) => 1,
        _ => 2,
    }
}

fn summarize(metric: &Metric<'_>) -> Option<MetricSummary> {
    let history = metric.history();
    let ranks = rank_spread(&history.points);
    let points = &history.split_ranks().shown;
    let (first, last) = (points.first()?, points.last()?);
    let laps = laps_of_writers(points);
    let finite = || points.iter().filter(|point| point.value.is_finite());
    let min = finite().reduce(|best, next| if next.value < best.value { next } else { best });
    let max = finite().reduce(|best, next| if next.value > best.value { next } else { best });
    let mut values: Vec<f64> = finite().map(|point| point.value).collect();
    let (mean, std) = mean_and_std(&values);
    let count_where = |points: &[MetricPoint], is: fn(f64) -> bool| {
        points.iter().filter(|point| is(point.value)).count() as u64
    };
    Some(MetricSummary {
        name: metric.name.clone(),
        count: points.len() as u64,
        nan_count: count_where(points, f64::is_nan),
        infinite_count: count_where(points, f64::is_infinite),
        negative_infinite_count: count_where(points, |value| value == f64::NEG_INFINITY),
        step_restarts: laps.values().copied().map(u64::from).sum(),
        processes: laps.len() as u64,
        ranks,
        first: Some(ValueAt::of(first)),
        last: Some(ValueAt::of(last)),
        min: min.map(ValueAt::of),
        max: max.map(ValueAt::of),
        mean,
        std,
        p50: quantile(&mut values, 0.5),
        p95: quantile(&mut values, 0.95),
        curve: curve(points),
    })
}

/// How often steps went back inside each writer.
fn laps_of_writers(points: &[MetricPoint]) -> BTreeMap<u32, u32> {
    let mut laps = BTreeMap::new();
    for point in points {
        let most: &mut u32 = laps.entry(point.writer).or_default();
        *most = point.lap.max(*most);
    }
    laps
}

/// The ranks of a metric, and how far apart their last values lie.
fn rank_spread(points: &[MetricPoint]) -> Option<RankSpread> {
    let mut last: BTreeMap<u32, f64> = BTreeMap::new();
    for point in points {
        last.insert(point.rank?, point.value);
    }
    let finite = || last.values().copied().filter(|value| value.is_finite());
    (last.len() > 1).then(|| RankSpread {
        count: last.len() as u64,
        last_min: finite().reduce(f64::min),
        last_max: finite().reduce(f64::max),
    })
}

fn curve(points: &[MetricPoint]) -> Vec<f64> {
    let width = CURVE_POINTS.min(points.len());
    let stretch =
        |index: usize| &points[index * points.len() / width..(index + 1) * points.len() / width];
    let highest = |points: &[MetricPoint]| {
        let values = points.iter().map(|point| point.value);
        values
            .reduce(|a, b| {
                if a.is_finite() && b.is_finite() {
                    a.max(b)
                } else {
                    f64::NAN
                }
            })
            .filter(|value| value.is_finite())
            .unwrap_or(f64::NAN)
    };
    (0..width).map(|index| highest(stretch(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::fixture;
    use nilo_sample::{ABSENT, TableSpec};

    fn summary_of(rows: &[(i64, f64)]) -> Vec<MetricSummary> {
        let mut table = fixture::table(TableSpec::metrics("metrics", ["loss"]));
        for (index, (step, value)) in rows.iter().enumerate() {
            fixture::tick_values(&mut table, index as u64 * 1_000_000_000, &[*value]);
            table.steps.push(*step);
        }
        let mut recording = fixture::recording();
        recording.tables = vec![table];
        summarize_metrics(&recording)
    }

    #[test]
    fn known_answers() {
        let found = &summary_of(&[(0, 4.0), (1, 1.0), (2, ABSENT), (3, 3.0), (4, 2.0)])[0];
        assert_eq!((found.count, found.step_restarts), (4, 0));
        let at = |value, step, secs| {
            Some(ValueAt {
                value,
                step: Some(step),
                secs,
            })
        };
        assert_eq!(found.first, at(4.0, 0, 0.0));
        assert_eq!(found.last, at(2.0, 4, 4.0));
        assert_eq!(found.min, at(1.0, 1, 1.0));
        assert_eq!(found.max, at(4.0, 0, 0.0));
        assert_eq!((found.mean, found.p50), (Some(2.5), Some(2.5)));
        assert!((found.std.unwrap() - 1.1180339887).abs() < 1e-9);
        assert_eq!(found.curve, [4.0, 1.0, 3.0, 2.0]);
    }

    #[test]
    fn what_people_look_at_comes_before_generated_groups() {
        let logged = [
            "groups/frac_all_max",
            "rewards/format/mean",
            "grad_norm",
            "layers/0/weight_norm",
            "eval/loss",
            "train_loss",
            "reward/mean",
            "learning_rate",
            "eval/accuracy",
            "loss",
        ];
        let mut names = logged.to_vec();
        names.sort_by_key(|name| metric_rank(name));
        assert_eq!(
            names,
            [
                "eval/loss",
                "train_loss",
                "reward/mean",
                "learning_rate",
                "eval/accuracy",
                "loss",
                "grad_norm",
                "groups/frac_all_max",
                "rewards/format/mean",
                "layers/0/weight_norm",
            ]
        );
    }

    #[test]
    fn what_is_not_finite_is_counted_and_shown_where_it_is_last() {
        let rows = [
            (0, 1.0),
            (1, f64::INFINITY),
            (2, f64::NAN),
            (3, f64::NEG_INFINITY),
            (4, f64::NAN),
        ];
        let found = &summary_of(&rows)[0];
        assert_eq!(
            (found.count, found.nan_count, found.infinite_count),
            (5, 2, 2)
        );
        assert_eq!(found.negative_infinite_count, 1);
        assert_eq!((found.mean, found.max.unwrap().value), (Some(1.0), 1.0));
        let json = serde_json::to_value(found).unwrap();
        assert_eq!(json["last"]["value"], "NaN");
        assert!(found.curve[1..].iter().all(|value| value.is_nan()));
    }

    #[test]
    fn a_metric_of_only_nan_has_a_count_and_no_figures() {
        let found = &summary_of(&[(0, f64::NAN), (1, f64::NAN)])[0];
        assert_eq!((found.count, found.nan_count), (2, 2));
        assert_eq!((found.mean, found.min, found.p95), (None, None, None));
    }

    #[test]
    fn a_metric_without_values_is_left_out() {
        assert!(summary_of(&[(0, ABSENT)]).is_empty());
        assert!(summary_of(&[]).is_empty());
    }

    #[test]
    fn steps_that_restart_each_epoch_are_all_counted() {
        let rows: Vec<(i64, f64)> = (0..15).map(|row| (row % 5, row as f64)).collect();
        let found = &summary_of(&rows)[0];
        assert_eq!((found.count, found.step_restarts), (15, 2));
        assert_eq!((found.mean, found.last.unwrap().value), (Some(7.0), 14.0));
    }

    #[test]
    fn the_first_rank_speaks_for_all_and_the_others_are_a_spread() {
        let table = |rank: u32| {
            let mut table = fixture::table(TableSpec::metrics("metrics", ["loss"]));
            table.writer = format!("python-{rank}");
            table.spec.rank = Some(rank);
            for step in 0..3 {
                fixture::tick_values(&mut table, step, &[step as f64 + f64::from(rank)]);
                table.steps.push(if rank == 0 {
                    step as i64
                } else {
                    -(step as i64)
                });
            }
            table
        };
        let mut recording = fixture::recording();
        recording.tables = vec![table(1), table(0), table(2)];
        let found = &summarize_metrics(&recording)[0];
        assert_eq!((found.count, found.last.unwrap().value), (3, 2.0));
        assert_eq!(found.step_restarts, 0);
        let ranks = found.ranks.unwrap();
        assert_eq!(ranks.count, 3);
        assert_eq!((ranks.last_min, ranks.last_max), (Some(2.0), Some(4.0)));
    }

    #[test]
    fn one_spike_is_in_the_curve() {
        let mut rows: Vec<(i64, f64)> = (0..1000).map(|step| (step, 1.0)).collect();
        rows[617].1 = 50.0;
        let found = &summary_of(&rows)[0];
        assert_eq!(found.curve.len(), CURVE_POINTS);
        assert_eq!(
            found.curve.iter().filter(|value| **value == 50.0).count(),
            1
        );
    }

    #[test]
    fn ten_thousand_metrics_are_summarized() {
        let names: Vec<String> = (0..10_000).map(|n| format!("layer/{n}/norm")).collect();
        let spec = TableSpec::metrics("metrics", names.iter().map(String::as_str));
        let mut table = fixture::table(spec);
        for time in 0..10 {
            fixture::tick_values(&mut table, time, &vec![time as f64; 10_000]);
        }
        let mut recording = fixture::recording();
        recording.tables = vec![table];
        let found = summarize_metrics(&recording);
        assert_eq!(found.len(), 10_000);
        assert_eq!(found[9_999].name, "layer/9999/norm");
    }
}
