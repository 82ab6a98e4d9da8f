//! The user's metrics in figures.
//!
//! Figures are of the points that count (see [`crate::metric_history`]); what a later attempt overwrote is counted apart.
//! Minimum, maximum, mean, deviation and quantiles are of the finite values; what is not finite is counted, and shown where it comes first or last.

use nilo_sample::Recording;
use nilo_sample::units::to_secs;
use serde::Serialize;

use crate::json_number;
use crate::metric_history::{Metric, MetricPoint, metrics};
use crate::statistics::{mean_and_std, quantile};

/// How many values the curve of a summary has at most.
pub const CURVE_POINTS: usize = 24;

/// One metric.
#[derive(Debug, Clone, Serialize)]
pub struct MetricSummary {
    /// The name under which it was logged.
    pub name: String,
    /// Values, those that are not finite included.
    pub count: u64,
    /// Of them NaN.
    pub nan_count: u64,
    /// Of them infinite.
    pub infinite_count: u64,
    /// Times that training began or began again from an earlier step.
    pub attempts: u64,
    /// Values that a later attempt logged again; no part of the figures here.
    pub overwritten_count: u64,
    /// Of them NaN or infinite.
    pub overwritten_not_finite_count: u64,
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

/// A value and where it was logged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ValueAt {
    /// The value; in JSON a text when it is not finite.
    #[serde(serialize_with = "json_number::serialize")]
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
    let points = &history.points;
    let (first, last) = (points.first()?, points.last()?);
    let finite = || points.iter().filter(|point| point.value.is_finite());
    let min = finite().reduce(|best, next| if next.value < best.value { next } else { best });
    let max = finite().reduce(|best, next| if next.value > best.value { next } else { best });
    let mut values: Vec<f64> = finite().map(|point| point.value).collect();
    let (mean, std) = mean_and_std(&values);
    let count_where = |points: &[MetricPoint], is: fn(f64) -> bool| {
        points.iter().filter(|point| is(point.value)).count() as u64
    };
    Some(MetricSummary {
        name: metric.name.to_owned(),
        count: points.len() as u64,
        nan_count: count_where(points, f64::is_nan),
        infinite_count: count_where(points, f64::is_infinite),
        attempts: history.attempts as u64,
        overwritten_count: history.overwritten.len() as u64,
        overwritten_not_finite_count: count_where(&history.overwritten, |v| !v.is_finite()),
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
    use crate::summary::fixture;
    use nilo_sample::{ABSENT, TableSpec};

    fn summary_of(rows: &[(i64, f64)]) -> Vec<MetricSummary> {
        let mut table = fixture::table(TableSpec::metrics("metrics", ["loss"]));
        for (index, (step, value)) in rows.iter().enumerate() {
            fixture::tick(&mut table, index as u64 * 1_000_000_000, &[*value]);
            table.steps.push(*step);
        }
        let mut recording = fixture::recording();
        recording.tables = vec![table];
        summarize_metrics(&recording)
    }

    #[test]
    fn known_answers() {
        let found = &summary_of(&[(0, 4.0), (1, 1.0), (2, ABSENT), (3, 3.0), (4, 2.0)])[0];
        assert_eq!((found.count, found.attempts), (4, 1));
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
        let rows = [(0, 1.0), (1, f64::INFINITY), (2, f64::NAN), (3, f64::NAN)];
        let found = &summary_of(&rows)[0];
        assert_eq!(
            (found.count, found.nan_count, found.infinite_count),
            (4, 2, 1)
        );
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
    fn what_was_overwritten_is_counted_apart() {
        let rows = [(0, 9.0), (1, f64::NAN), (2, 7.0), (1, 1.0), (2, 2.0)];
        let found = &summary_of(&rows)[0];
        assert_eq!((found.attempts, found.overwritten_count), (2, 2));
        assert_eq!(found.overwritten_not_finite_count, 1);
        assert_eq!(
            (found.count, found.nan_count, found.mean),
            (3, 0, Some(4.0))
        );
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
            fixture::tick(&mut table, time, &vec![time as f64; 10_000]);
        }
        let mut recording = fixture::recording();
        recording.tables = vec![table];
        let found = summarize_metrics(&recording);
        assert_eq!(found.len(), 10_000);
        assert_eq!(found[9_999].name, "layer/9999/norm");
    }
}
