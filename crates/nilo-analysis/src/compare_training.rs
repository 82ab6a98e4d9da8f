//! What the programs of several runs logged, side by side: metrics, phases and throughput that at least two runs have.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::json_number;
use crate::summary::Summary;

/// One figure over all runs. The lists are in the order of the runs; what a run does not have is missing.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ComparedFigure {
    /// Of what: a metric, a phase, a counter.
    pub name: String,
    /// Which figure, with its unit: `last`, `min`, `max`, `mean_secs`, `mean_per_sec`.
    pub figure: &'static str,
    /// The values.
    #[serde(serialize_with = "json_number::serialize_list")]
    #[schemars(with = "Vec<Option<json_number::JsonNumber>>")]
    pub values: Vec<Option<f64>>,
    /// Each less the first run's.
    pub differences: Vec<Option<f64>>,
    /// The same as a share of the first run's magnitude: 0.1 is a tenth more.
    pub change_ratios: Vec<Option<f64>>,
}

/// Last, smallest and largest value of each metric that two runs have, in the order of the first run.
pub fn compare_metrics(summaries: &[Summary]) -> Vec<ComparedFigure> {
    side_by_side(summaries, |summary| {
        let metrics = summary.metrics.iter();
        let figures = metrics.map(|metric| {
            let of = |at: Option<crate::metrics::ValueAt>| at.map(|at| at.value);
            let figures = [
                ("last", of(metric.last)),
                ("min", of(metric.min)),
                ("max", of(metric.max)),
            ];
            (metric.name.as_str(), figures.to_vec())
        });
        figures.collect()
    })
}

/// Mean duration of each phase that two runs have.
pub fn compare_phases(summaries: &[Summary]) -> Vec<ComparedFigure> {
    side_by_side(summaries, |summary| {
        let phases = summary.phases.iter();
        let figures =
            phases.map(|phase| (phase.name.as_str(), vec![("mean_secs", phase.mean_secs)]));
        figures.collect()
    })
}

/// Mean rate of each counter that two runs have.
pub fn compare_throughput(summaries: &[Summary]) -> Vec<ComparedFigure> {
    side_by_side(summaries, |summary| {
        let throughput = summary.throughput.iter();
        let counters = throughput.flat_map(|throughput| throughput.counters());
        let figures = counters.map(|(name, counter)| {
            let figure = ("mean_per_sec", counter.mean_per_sec);
            (name, vec![figure])
        });
        figures.collect()
    })
}

/// The figures of one run: a name and its figures.
type Figures<'a> = Vec<(&'a str, Vec<(&'static str, Option<f64>)>)>;

fn side_by_side<'a>(
    summaries: &'a [Summary],
    figures_of: impl Fn(&'a Summary) -> Figures<'a>,
) -> Vec<ComparedFigure> {
    let mut order: Vec<(&str, Vec<&'static str>)> = Vec::new();
    let mut found: HashMap<(&str, &'static str), Vec<Option<f64>>> = HashMap::new();
    let mut runs_with: HashMap<&str, usize> = HashMap::new();
    for (run, summary) in summaries.iter().enumerate() {
        for (name, figures) in figures_of(summary) {
            let runs = runs_with.entry(name).or_insert(0);
            if *runs == 0 {
                let names = figures.iter().map(|(figure, _)| *figure);
                order.push((name, names.collect()));
            }
            *runs += 1;
            for (figure, value) in figures {
                let values = found
                    .entry((name, figure))
                    .or_insert_with(|| vec![None; summaries.len()]);
                values[run] = value;
            }
        }
    }
    let common = order.into_iter().filter(|(name, _)| runs_with[name] > 1);
    common
        .flat_map(|(name, figures)| figures.into_iter().map(move |figure| (name, figure)))
        .filter_map(|(name, figure)| Some(compared(name, figure, found.get(&(name, figure))?)))
        .collect()
}

fn compared(name: &str, figure: &'static str, values: &[Option<f64>]) -> ComparedFigure {
    let base = values.first().copied().flatten();
    let difference = |value: &Option<f64>| {
        let difference = (*value)? - base?;
        difference.is_finite().then_some(difference)
    };
    let change = |value: &Option<f64>| {
        let ratio = difference(value)? / base?.abs();
        ratio.is_finite().then_some(ratio)
    };
    ComparedFigure {
        name: name.to_owned(),
        figure,
        differences: values.iter().map(difference).collect(),
        change_ratios: values.iter().map(change).collect(),
        values: values.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::{EndingEvidence, judge_ending};
    use crate::summary::summarize;
    use nilo_sample::TableSpec;
    use nilo_sample::fixture;
    use nilo_sample::rows::PhaseRow;

    /// A run that logged each of these once.
    fn run(values: &[(&str, f64)]) -> Summary {
        let mut recording = fixture::recording();
        for (name, value) in values {
            let mut table = fixture::table(TableSpec::metrics("metrics", [*name]));
            fixture::tick_values(&mut table, 1, &[*value]);
            recording.tables.push(table);
        }
        let mut phase = fixture::table(TableSpec::phase("step"));
        let duration_nanos = values.len() as f64 * 1e9;
        fixture::tick(&mut phase, 1, PhaseRow { duration_nanos });
        recording.tables.push(phase);
        let ending = judge_ending(&recording, &EndingEvidence::default());
        summarize(&recording, &ending)
    }

    #[test]
    fn what_two_runs_have_is_compared_with_the_first() {
        let runs = [
            run(&[("reward", -2.0), ("only here", 1.0), ("loss", 4.0)]),
            run(&[("loss", 3.0), ("reward", -1.0), ("late", 1.0)]),
            run(&[("late", 2.0), ("loss", f64::NAN)]),
        ];
        let found = compare_metrics(&runs);
        let last: Vec<&ComparedFigure> = found.iter().filter(|f| f.figure == "last").collect();
        let names: Vec<&str> = last.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["reward", "loss", "late"]);
        // A reward that rises from -2 to -1 is a rise, though -1 is the half of -2.
        assert_eq!(last[0].change_ratios, [Some(0.0), Some(0.5), None]);
        assert_eq!(last[1].differences, [Some(0.0), Some(-1.0), None]);
        assert_eq!(last[2].change_ratios, [None, None, None]);
        let json = serde_json::to_value(last[1]).unwrap();
        assert_eq!(json["values"], serde_json::json!([4.0, 3.0, "NaN"]));
    }

    #[test]
    fn phases_are_compared_by_their_means() {
        let found = compare_phases(&[run(&[("a", 1.0)]), run(&[("a", 1.0), ("b", 1.0)])]);
        assert_eq!((found.len(), found[0].figure), (1, "mean_secs"));
        assert_eq!(found[0].change_ratios, [Some(0.0), Some(1.0)]);
        assert!(compare_throughput(&[run(&[]), run(&[])]).is_empty());
    }
}
